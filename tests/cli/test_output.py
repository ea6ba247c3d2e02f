"""What reaches a terminal, a pipe, a full device and a poor locale; run as a program of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from swarmd.cli.output import columns_of, local, shown
from swarmd.core.text import width
from tests.cli.conftest import NO_STATE, ROOT, command_of
from tests.cli.documents import AGENT, AT, KEY, NASTY, SAMPLES, SESSION, listing

WIDE = listing(
    {**KEY, "key": "ascii", "value": "POLISH"},
    {**KEY, "key": "cjk", "value": "\u6f22\u5b57\u304b\u306a" * 10},
    {**KEY, "key": "emoji", "value": "\U0001f680 go \U0001f389"},
    {**KEY, "key": "accent", "value": "e\u0301te\u0301"},
)
ANSWERS = {**SAMPLES, "ctx_list": WIDE}


def on_terminal(folder: Path, *args: str, columns: int = 40, answers=ANSWERS, **env: str) -> str:
    """What a terminal of so many columns is sent."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environ |= {"PYTHONPATH": str(ROOT), "TERM": "xterm", "PYTHONUTF8": "1", **env}
    child = subprocess.Popen(
        command_of(folder, answers, args), stdin=follower, stdout=follower, stderr=follower, env=environ
    )
    os.close(follower)
    parts = []
    try:
        while part := os.read(leader, 65536):
            parts.append(part)
    except OSError:
        pass  # how Linux says that the other end is closed
    os.close(leader)
    assert child.wait(timeout=60) == 0
    return b"".join(parts).decode().replace("\r\n", "\n")


def offsets(line: str) -> list[int]:
    """Where, in columns, the words begin that stand behind two spaces."""
    found = [0]
    for place in range(2, len(line)):
        if line[place - 2 : place] == "  " and line[place] != " ":
            found.append(width(line[:place]))
    return found


def test_columns_line_up_with_wide_characters_on_60_columns(tmp_path):
    lines = on_terminal(tmp_path, "ctx", "list", "studio", columns=60).splitlines()
    assert len(lines) == 5
    assert max(width(line) for line in lines) <= 60
    assert all(offsets(line)[:2] == offsets(lines[0])[:2] for line in lines)
    assert "\N{HORIZONTAL ELLIPSIS}" in lines[2]


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
@pytest.mark.parametrize(
    "args", [["agent", "list"], ["session", "list"], ["handoff", "list"], ["attention"], ["why", "studio"]]
)
def test_no_table_is_wider_than_the_terminal(args, columns, tmp_path):
    for line in on_terminal(tmp_path, *args, columns=columns).splitlines():
        if not line.startswith(("swarmd: ", "next: ", "memory is put in order: ")):
            assert width(line) <= columns, line


@pytest.mark.parametrize(
    ("columns", "wished", "room"),
    [
        (0, None, 80), (0, "60", 60), (100, "60", 60), (60, "100", 100), (100, None, 100), (60, "", 60), (60, "0", 60),
        (60, "-5", 60), (60, "wide", 60), (0, "none", 80), (60, "5", 20), (60, "9" * 30, None), (60, "9" * 5000, 60),
    ],
)  # fmt: skip
def test_columns_wins_over_the_terminal_and_80_where_neither_says_any(columns, wished, room, tmp_path):
    """A pseudo-terminal that nobody has told its width says 0."""
    long = {**ANSWERS, "ctx_list": listing({**KEY, "value": "x" * 300})}
    env = {} if wished is None else {"COLUMNS": wished}
    text = on_terminal(tmp_path, "ctx", "list", "studio", columns=columns, answers=long, **env)
    widest = max(width(line) for line in text.splitlines())
    if room is None:
        assert "x" * 300 in text
    else:
        assert widest == room, text


STEP = "swarmd session show 7, then swarmd session apply 7 or swarmd session discard 7"
NARROW = {
    **ANSWERS,
    "attention": listing(
        {**SAMPLES["attention"]["items"][0], "id": "failing:love2d-studio", "next_step": STEP},
        {**SAMPLES["attention"]["items"][0], "text": "t" * 3000},
    ),
}


@pytest.mark.parametrize("columns", [20, 40, 80])
@pytest.mark.parametrize(
    ("args", "whole"),
    [
        (["attention"], ["failing:love2d-studio", local(AT), STEP]),
        (["agent", "list"], ["studio", local(AT), "committed"]),
        (["session", "list"], ["7", local(AT)]),
        (["handoff", "list"], ["7", "open", "operator"]),
        (["why", "studio"], [local(AT), "skipped"]),
    ],
)
def test_no_terminal_is_too_narrow_for_ids_times_and_next_steps(args, whole, columns, tmp_path):
    text = on_terminal(tmp_path, *args, columns=columns, answers=NARROW)
    together = "".join(text.split())
    for one in whole:
        assert "".join(one.split()) in together, text


def test_rows_that_do_not_fit_are_blocks_of_a_field_a_line(tmp_path):
    lines = on_terminal(tmp_path, "attention", columns=60, answers=NARROW).splitlines()
    assert lines[0] == "ID         failing:love2d-studio"
    assert lines[3] == f"SINCE      {local(AT)}"
    assert "" in lines
    assert [line.split("  ")[-1].strip() for line in lines[5:7]] == [
        "swarmd session show 7, then swarmd session apply",
        "7 or swarmd session discard 7",
    ]
    assert len(lines) < 30, "a long text is cut"


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_what_doctor_and_why_say_goes_on_below_instead_of_being_cut(columns, tmp_path):
    said = "the session could not be set up since /a/very/long/path/that/is/not/there does not exist"
    slot = {**SAMPLES["why"]["items"][0], "reason": said}
    answers = {
        "doctor": listing({"name": "runner.workdir", "ok": True, "text": said}),
        "why": {**listing(slot), "next_fire": AT},
    }
    for args in (["doctor", "studio"], ["why", "studio"]):
        text = on_terminal(tmp_path, *args, columns=columns, answers=answers)
        assert "\N{HORIZONTAL ELLIPSIS}" not in text
        words = "".join(line[-columns:] for line in text.splitlines())
        assert all(word in words.replace(" ", "") for word in said.split() if len(word) < 8), text


def test_a_piped_list_is_one_whole_line_a_row(real):
    lines = real("attention", answers=NARROW, env={"COLUMNS": "40"}).stdout.decode().splitlines()
    assert len(lines) == 3
    assert lines[1].endswith(STEP)
    assert "t" * 3000 in lines[2]


def test_an_act_whose_answer_cannot_be_written_is_said_to_be_done(real):
    with Path("/dev/full").open("wb") as full:
        ran = real("ctx", "set", "a", "k", "v", answers={"ctx_set": KEY}, stdout=full)
    assert ran.returncode == 1
    assert ran.stderr == (
        b"swarmd: standard output: No space left on device; the command itself was carried out\n"
    )


COMMANDS = [
    ["handoff", "show", "7"], ["handoff", "list"], ["ctx", "get", "a", "k"], ["memory", "show", "a"], ["session", "show", "7"],
    ["session", "log", "7"], ["report", "list"], ["attention"], ["agent", "show", "studio"], ["log", "--stat"],
    ["memory", "blame", "a"], ["prompt", "studio"], ["memory", "diff", "a", "1"], ["handoff", "show", "7", "--json"],
]  # fmt: skip


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_no_stored_control_character_reaches_a_terminal(args, tmp_path):
    answers = {
        **ANSWERS,
        "ctx_get": {**KEY, "value": NASTY + "\x9b31m\x7f\u200b"},
        "memory_show": {**SAMPLES["memory_show"], "text": NASTY},
        "prompt": {**SAMPLES["prompt"], "user": NASTY},
        "memory_diff": {**SAMPLES["memory_diff"], "diff": NASTY},
    }
    text = on_terminal(tmp_path, *args, answers=answers)
    bad = [
        char
        for char in text
        if (ord(char) < 32 and char != "\n") or 0x7F <= ord(char) < 0xA0 or char in "\u202e\u200b"
    ]
    assert bad == []


@pytest.mark.parametrize(
    ("args", "name", "data"),
    [
        (["ctx", "get", "a", "k"], "ctx_get", {**KEY, "value": NASTY}),
        (["memory", "show", "a"], "memory_show", {**SAMPLES["memory_show"], "text": NASTY}),
    ],
)
def test_values_are_piped_byte_for_byte(args, name, data, real):
    assert real(*args, answers={name: data}).stdout == NASTY.encode()


def test_a_file_that_is_no_text_is_piped_byte_for_byte(swarmd):
    ran = swarmd(
        "memory", "show", "a", memory_show={**SAMPLES["memory_show"], "text": "\ufffd", "base64": "/wA="}
    )
    assert ran.out == b"\xff\x00"


def test_a_piped_table_is_whole(real):
    long = listing({**KEY, "value": "x" * 5000})
    assert b"x" * 5000 in real("ctx", "list", "a", answers={"ctx_list": long}, env={"COLUMNS": "40"}).stdout


MANY = {"session_list": listing(*({**SESSION, "id": number} for number in range(10_000)))}


@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_a_reader_that_leaves_early_is_no_failure(extra, tmp_path):
    command = command_of(tmp_path, MANY, ("session", "list", *extra))
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ)
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.read(10)
    child.stdout.close()
    error = child.stderr.read()
    child.stderr.close()
    assert error == b""
    assert child.wait(timeout=60) in (0, 141)


@pytest.mark.parametrize(
    "args", [["status"], ["session", "list"], ["--help"], ["status", "--json"], ["ctx", "get", "a", "k"]]
)
def test_a_full_device_is_one_line_and_a_failure(args, real):
    with Path("/dev/full").open("wb") as full:
        ran = real(*args, answers={**ANSWERS, **MANY}, stdout=full)
    assert ran.returncode == 1
    assert ran.stderr == b"swarmd: standard output: No space left on device\n"


def with_closed(tmp_path, closing, *args):
    command = command_of(tmp_path, ANSWERS, args)
    script = f'exec "$@" {closing}'
    environ = {**os.environ, **NO_STATE, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        ["sh", "-c", script, "sh", *command], capture_output=True, env=environ, timeout=60, check=False
    )
    return ran.returncode, ran.stderr


@pytest.mark.parametrize("closing", ["2>&-", "<&-"])
def test_closed_standard_files_do_no_harm(closing, tmp_path):
    assert with_closed(tmp_path, closing, "status") == (0, b"")


@pytest.mark.parametrize(
    "args",
    [["status"], ["status", "--json"], ["memory", "show", "a"], ["memory", "history", "a"], ["--help"]],
)
def test_a_closed_standard_output_is_one_line_and_a_failure(args, tmp_path):
    assert with_closed(tmp_path, ">&-", *args) == (1, b"swarmd: standard output: Bad file descriptor\n")
    assert with_closed(tmp_path, "<&- >&- 2>&-", *args) == (1, b"")


def test_what_prints_nothing_needs_no_standard_output(tmp_path):
    empty = {"memory_history": {"items": [], "next": None}}
    command = command_of(tmp_path, empty, ("memory", "history", "a"))
    ran = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command], capture_output=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    "env",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX"},
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
@pytest.mark.parametrize(
    "args", [["ctx", "list", "a"], ["ctx", "list", "a", "--json"], ["memory", "show", "a"], ["stauts\u6f22"]]
)
def test_no_locale_stops_the_output(args, env, real):
    answers = {**ANSWERS, "memory_show": {**SAMPLES["memory_show"], "text": "\u6f22\udce9"}}
    ran = real(*args, answers=answers, env=env)
    assert ran.returncode == (2 if args[0].startswith("stauts") else 0), ran.stderr
    assert b"Traceback" not in ran.stderr


def test_columns_line_up_where_marks_replace_characters(real):
    lines = (
        real("ctx", "list", "a", answers=ANSWERS, env={"PYTHONIOENCODING": "ascii"})
        .stdout.decode("ascii")
        .splitlines()
    )
    assert "????" in lines[2]
    at = lines[0].index("VERSION")
    assert {line[at - 2 : at] for line in lines} == {"  "}
    assert {line[at] for line in lines[1:]} == {"3"}


def test_bytes_that_are_no_text_on_a_real_command_line(tmp_path):
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-m", "swarmd", "report", b"caf\xe9"],
        capture_output=True,
        env=environ,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 2
    assert ran.stderr == b"swarmd: argument 2 is not UTF-8 text: 'caf\\xe9'; give it as UTF-8\n"


def test_the_time_is_shown_by_the_clock_on_the_wall(real):
    text = real("ctx", "list", "a", answers=ANSWERS, env={"TZ": "Asia/Kolkata"}).stdout.decode()
    assert "2026-11-30 14:30:00+05:30" in text


def test_times_are_known_by_their_field_and_not_by_their_look():
    assert shown("value", AT) == AT
    assert shown("at", AT) == local(AT)
    assert local(None) == "-"
    assert local("yesterday\x1b") == "yesterday\\x1b"


def test_extra_columns_are_marked():
    assert [(c.title, c.field, c.extra) for c in columns_of("id ~from=sender")] == [
        ("ID", "id", False),
        ("FROM", "sender", True),
    ]


def test_an_empty_list_leaves_the_pipe_empty(swarmd):
    ran = swarmd("session", "list", session_list=listing())
    assert (ran.status, ran.out, ran.err) == (0, b"", "swarmd: no sessions\n")


def test_a_list_that_goes_on_says_so(swarmd):
    ran = swarmd("session", "list", session_list={**SAMPLES["session_list"], "next": 3})
    assert "there is more" in ran.err


def test_a_deep_tree_is_drawn(swarmd):
    node = {**AGENT, "name": "leaf", "children": []}
    for depth in range(400):
        node = {**AGENT, "name": f"n{depth}", "children": [node]}
    assert len(swarmd("agent", "tree", agent_tree={"roots": [node]}).text.splitlines()) == 401


def test_a_log_is_followed_until_its_session_has_ended(swarmd):
    logs = [
        {
            "session": 7,
            "output": text,
            "output_next": place,
            "events": [],
            "events_next": 9,
            "events_more": False,
            "done": done,
        }
        for text, place, done in (("one\n", 4, False), ("two\n", 8, False), ("end", 11, True))
    ]
    ran = swarmd("session", "log", "studio", "-f", session_log=logs)
    assert ran.text == "one\ntwo\nend\n"
    assert [(args["session"], args["output_from"], args["events_from"]) for _, args in ran.calls] == [
        ("studio", 0, 0), ("7", 4, 9), ("7", 8, 9),
    ]  # fmt: skip


def test_a_session_is_exported(swarmd):
    answers = {
        "session_show": SESSION,
        "session_log": {"session": 7, "output": "a ```` fence\n", "done": True},
    }
    page = swarmd("session", "export", "studio", "--format", "md", **answers).text
    assert "# Session 7 of studio" in page
    assert "`````\na ```` fence\n`````" in page
    assert swarmd("session", "export", "studio", **answers).json["session"] == SESSION
