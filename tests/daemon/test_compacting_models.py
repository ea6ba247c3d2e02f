"""Memories made small by real programs: `swarmd` in processes of its own, the SDK against a scripted API, and commands."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.schema_check import faults
from tests.daemon.processes import await_
from tests.model_server import answers as say
from tests.model_server.server import ModelServer

KEY = "sk-ant-canary-5f1e7a"
DAYS = ("2026-11-02", "2026-11-09", "2026-11-16")
OLD = "# Notes\n\n" + "".join(
    f"- {day}: the deploy of release {n} went through after Ada had checked the ledger ({n})\n"
    for n, day in enumerate(DAYS * 30)
)
GOOD = "".join(f"- {day}: deploys of several releases went through, Ada checked the ledger\n" for day in DAYS)
SCHEMA = json.loads((Path(__file__).parents[1] / "data/schemas/memory_compact.json").read_text())


def agent(place, server=None, *, memory: str = "", limits: str = "") -> None:
    runner = 'kind = "command"\ncommand = ["true"]\n'
    if server is not None:
        runner = f'kind = "anthropic"\nmodel = "m-own"\nbase_url = "{server.url}"\n'
    place.agents.joinpath("game.toml").write_text(
        f'system_prompt = "You are game."\n[runner]\n{runner}[memory]\nprompt_tokens = 2000\n{memory}\n'
        f"[limits]\n{limits}\n"
    )
    place.swarmd("memory", "write", "game", "MEMORY.md", OLD)


def compact(place, *options: str, check: bool = True, **env):
    ran = place.swarmd(
        "--json", "memory", "compact", "game", *options, check=check, ANTHROPIC_API_KEY=KEY, **env
    )
    assert "Traceback" not in ran.stderr, ran.stderr
    return json.loads(ran.stdout)


def archives(place) -> list[Path]:
    return sorted((place.state / "memory/game/archive").glob("*"))


def text(place) -> str:
    return (place.state / "memory/game/MEMORY.md").read_text()


def test_a_model_summarizes_without_tools_and_what_it_cost_is_told(place):
    with ModelServer(GOOD) as server:
        agent(place, server, memory='summarizer_model = "m-sum"')
        done = compact(place)
        assert server.complaints == []
        (request,) = server.messages
    assert faults(SCHEMA, done) == []
    assert (done["outcome"], done["tokens_out"] > 0) == ("committed", True), done
    assert done["tokens_before"] > 1800 > done["tokens_after"]
    assert [file.read_text() for file in archives(place)] == [OLD]
    assert done["archive"] == f"archive/{archives(place)[0].name}"
    assert text(place).endswith(GOOD)
    assert request.body["model"] == "m-sum"
    assert "tools" not in request.body
    assert "thinking" not in request.body
    assert all(day in json.dumps(request.body["messages"]) for day in DAYS)
    shown = json.loads(place.swarmd("--json", "session", "show", str(done["session"])).stdout)
    assert (shown["trigger"], shown["usage"][0]["model"]) == ("compact", "m-sum")
    assert [event["kind"] for event in json.loads(
        place.swarmd("--json", "session", "log", str(done["session"])).stdout)["events"]] == [
        "started", "usage", "text", "result",
    ]  # fmt: skip


FAULTS = {
    "529": (say.error(529, retry_after=100), "unavailable", "overloaded"),
    "timeout": (say.hang(), "timed_out", "timed out after 2 seconds"),
    "refusal": (say.refusal(), "failed", "refusal"),
    "max_tokens": (say.text(GOOD, stop="max_tokens"), "failed", "max_tokens: the answer was cut off"),
    "too long": (say.too_long(), "failed", "205472"),
    "unknown stop": (say.text(GOOD, stop="brand_new"), "failed", "not finished: brand_new"),
    "empty": (say.text(""), "failed", "answered nothing"),
    "tool use": (say.tools(say.call("ctx_set", key="a", value="b")), "failed", "max_turns"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_summary_that_fails_changes_nothing_and_says_why(place, fault):
    answer, outcome, said = FAULTS[fault]
    with ModelServer(answer) as server:
        agent(place, server, limits=f'timeout = "{2 if fault == "timeout" else 25}s"')
        done = compact(place, check=False)
    assert (done["outcome"], text(place), archives(place)) == (outcome, OLD, [])
    assert said in done["reason"]
    assert (done["archive"], done["rev"]) == (None, 1)


def test_a_command_summarizes_in_the_sandbox_without_token_and_what_it_writes_beside_is_nothing(place):
    program = place.root / "sum.py"
    program.write_text(
        "import os, subprocess, sys\n"
        "notes = sys.stdin.read()\n"
        "assert 'SWARMD_TOKEN' not in os.environ and 'SWARMD_SOCKET' not in os.environ\n"
        "ran = subprocess.run(['swarmd', 'ctx', 'set', 'a', 'b'], capture_output=True, text=True)\n"
        "open(os.environ['SWARMD_MEMORY'] + '/MEMORY.md', 'w').write('mine')\n"
        f"print({GOOD!r} if '- 2026-11-16: the deploy of release 89' in notes and ran.returncode == 3 else ran)\n"
    )
    agent(place, memory=f"summarizer_command = {json.dumps([sys.executable, '-S', '-E', str(program)])}")
    done = compact(place)
    assert done["outcome"] == "committed", done["reason"]
    assert text(place).endswith(GOOD)
    assert [file.read_text() for file in archives(place)] == [OLD]


@pytest.mark.parametrize(
    ("script", "outcome", "said"),
    [
        ("import sys; sys.exit(1)", "failed", "exit status 1"),
        ("import sys; sys.exit(75)", "unavailable", "75"),
        ("print()", "failed", "the summary is empty"),
        ("print('x' * 3_000_000)", "failed", "too long"),
        ("import sys; print(sys.stdin.read())", "failed", "repeats the instructions"),
        ("while True: print('the ledger of Ada')", "failed", "too long"),
        (
            f"import sys\nprint({GOOD!r}, flush=True)\nwhile True: sys.stderr.write('still at it\\n' * 1000)",
            "failed",
            "printed more than 4,194,304 bytes on standard error",
        ),
        ("import sys; sys.stdout.buffer.write(b'2026-11-02 ledger \\xff')", "failed", "no UTF-8"),
    ],
)
def test_a_command_that_does_not_do_it_changes_nothing(place, script, outcome, said):
    command = json.dumps([sys.executable, "-S", "-E", "-c", script])
    agent(place, memory=f"summarizer_command = {command}")
    done = compact(place, check=False)
    assert (done["outcome"], text(place), archives(place)) == (outcome, OLD, [])
    assert said in done["reason"]


def test_a_command_with_a_small_window_is_given_all_of_the_notes_in_pieces(place):
    program, seen = place.root / "sum.py", place.root / "seen"
    seen.mkdir()
    program.write_text(
        "import os, sys\n"
        f"place = {str(seen)!r}\n"
        "open(f'{place}/{len(os.listdir(place)):03}', 'w').write(sys.stdin.read())\n"
        f"print({GOOD!r})\n"
    )
    place.agents.joinpath("game.toml").write_text(
        f'system_prompt = "You are game."\nsandbox = {{ write = ["{seen}"] }}\n'
        '[runner]\nkind = "command"\ncommand = ["true"]\n'
        "[memory]\nprompt_tokens = 4000\ncontext_tokens = 2000\n"
        f"summarizer_command = {json.dumps([sys.executable, '-S', '-E', str(program)])}\n"
    )
    much = OLD + "".join(
        f"- {day}: release {n} of the game was looked at by Ada\n" for n, day in enumerate(DAYS * 75)
    )
    place.swarmd("memory", "write", "game", "MEMORY.md", much)
    done = compact(place)
    assert done["outcome"] == "committed", done["reason"]
    assert done["tokens_before"] > 5500
    asked = [file.read_text() for file in sorted(seen.iterdir())]
    assert len(asked) > 5
    given = "".join(text.split("the notes of game, part ")[1] for text in asked)
    assert [
        line for line in much.splitlines() if line.strip() and given.count(line) != much.count(line)
    ] == []
    assert ["the summary so far" in text.split("begin text")[1] for text in asked] == [False] + [True] * (
        len(asked) - 1
    )


def test_a_persons_own_summary_from_a_file_and_from_standard_input(place):
    agent(place)
    refused = place.swarmd("memory", "compact", "game", check=False)
    assert refused.returncode != 0
    assert "--summary-file" in refused.stderr
    file = place.root / "summary.md"
    file.write_text("- deploys go through since Ada checks the ledger\n")
    ran = place.swarmd("memory", "compact", "game", "--summary-file", str(file))
    assert "committed: MEMORY.md had" in ran.stdout
    assert "- deploys go through" in text(place)
    assert (
        "there is no such file"
        in place.swarmd("memory", "compact", "game", "--summary-file", "/nowhere/x", check=False).stderr
    )


def test_with_a_daemon_it_is_the_daemon_that_does_it_and_by_itself_after_a_session(place):
    with ModelServer(GOOD) as server:
        agent(place, server, memory="log = true")
        with place.serving(ANTHROPIC_API_KEY=KEY) as served:
            await_(lambda: text(place).endswith(GOOD) and archives(place), lambda: served.log)
            served.await_line("it is to be compacted")
            assert [file.read_text() for file in archives(place)] == [OLD]
            file = place.root / "summary.md"
            file.write_text("- deploys go through\n")
            done = compact(place, "--summary-file", str(file))
            assert done["outcome"] == "committed", done["reason"]
        assert [request.body["model"] for request in server.messages] == ["m-own"]
    assert len(archives(place)) == 2
    assert json.loads(place.swarmd("--json", "verify").stdout)["items"] == []
