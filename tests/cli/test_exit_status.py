"""Exit statuses: what a command's answer, a refusal or a fault comes to."""

from __future__ import annotations

import pytest

from swarmd.errors import Busy, NotFound
from tests.cli import documents
from tests.cli.documents import AT, SAMPLES, SESSION


def only(ran):
    assert ran.status == 0, ran.err
    (call,) = ran.calls
    return call


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("committed", 0),
        ("no_change", 0),
        ("dry_run", 0),
        ("failed", 1),
        ("refused", 1),
        ("lost", 1),
        (None, 1),
    ],
)
def test_run_exits_by_outcome(outcome, status, swarmd):
    assert swarmd("run", "studio", run={**SESSION, "outcome": outcome}).status == status


def test_a_busy_agent_is_6_and_an_unknown_one_4(swarmd):
    assert swarmd("run", "studio", run=Busy("studio runs already: session 6")).status == 6
    ran = swarmd("agent", "show", "studoi", agent_show=NotFound("no agent is named 'studoi'"))
    assert (ran.status, ran.err) == (4, "swarmd: no agent is named 'studoi'\n")


def test_run_with_a_file_sends_its_text_and_place(swarmd, tmp_path):
    file = tmp_path / "new.toml"
    file.write_text("x = 1\n")
    args = only(swarmd("run", "studio", "--file", str(file), run=SESSION))[1]
    assert (args["file_text"], args["file_path"]) == ("x = 1\n", str(file))
    ran = swarmd("prompt", "studio", "--file", str(tmp_path / "no.toml"))
    assert (ran.status, [name for name, _ in ran.calls]) == (4, ["memory_list"])


def test_status_check_tells_by_its_exit_status(swarmd):
    sick = {**SAMPLES["status"], "attention": {"count": 2, "oldest": AT, "kinds": {"failing": 2}}}
    assert swarmd("status", "--check", status=SAMPLES["status"]).status == 0
    assert swarmd("status", "--check", status=sick).status == 1
    assert swarmd("status", status=sick).status == 0


def test_checks_that_find_problems_exit_1(swarmd):
    assert (
        swarmd("verify", verify={"ok": False, "items": [{"text": "row 3 is missing"}], "next": None}).status
        == 1
    )
    assert (
        swarmd(
            "doctor", doctor={"items": [{"name": "disk", "ok": False, "text": "full"}], "next": None}
        ).status
        == 1
    )
    ran = swarmd(
        "reload",
        reload={"added": ["a"], "changed": [], "removed": [], "problems": [{"message": "b.toml:1: bad"}]},
    )
    assert (ran.status, ran.text, ran.err) == (1, "added: a\n", "swarmd: b.toml:1: bad\n")


def test_reload_tells_of_a_file_that_is_gone_before_that_takes_force(swarmd):
    nothing = {"added": [], "changed": [], "removed": [], "problems": []}
    ran = swarmd("reload", reload={**nothing, "absent": ["appy"]})
    assert ran.text == "gone: appy.toml; that takes force 10 seconds after it was first seen\n"
    assert swarmd("reload", reload={**nothing, "absent": []}).text == "nothing has changed\n"


def test_revert_names_what_it_could_not_undo(swarmd):
    answer = {
        "undone": [{"act": "set_key", "target": "a k"}],
        "not_undone": [{"act": "report", "target": "a", "reason": "it was read"}],
    }
    ran = swarmd("session", "revert", "7", "studio", session_revert=answer)
    assert only(ran) == ("session_revert", {"sessions": ["7", "studio"]})
    assert ran.text == "undone      set_key  a k\nnot undone  report  a: it was read\n"
    assert swarmd("session", "revert", "7", session_revert={**answer, "undone": []}).status == 1


def test_quarantine_names_how_many_lines_it_cut_and_what_only_reads_alike(swarmd):
    answer = {
        "session": 7, "agent": "studio", "quarantined": {"at": AT, "by": "operator:root", "reason": ""},
        "undone": [{"act": "memory_write", "target": "studio:MEMORY.md", "lines": 3},
                   {"act": "memory_write", "target": "studio:a.md", "lines": 1},
                   {"act": "memory_write", "target": "studio:b.md", "lines": 0}],
        "not_undone": [{"act": "memory_write", "target": "studio:c.md", "reason": "lines 2 are not its own"}],
        "in_force": [{"kind": "memory_alike", "target": "studio:c.md", "lines": ["- a line"], "count": 1},
                     {"kind": "report", "target": "report 1", "lines": [], "count": 0}],
        "next_step": None,
    }  # fmt: skip
    ran = swarmd("session", "quarantine", "7", "--revert", session_quarantine=answer)
    assert ran.text.splitlines()[1:] == [
        "undone      memory_write  studio:MEMORY.md: 3 lines of its own cut",
        "undone      memory_write  studio:a.md: 1 line of its own cut",
        "undone      memory_write  studio:b.md",
        "not undone  memory_write  studio:c.md: lines 2 are not its own",
        "alike       studio:c.md",
        "              - a line",
        "stands      report 1",
    ]


@pytest.mark.parametrize(
    "args", [["checkpoint"], ["fail", "x"], ["draft", "show"], ["draft", "apply"], ["draft", "discard"]]
)
def test_a_sessions_commands_are_wrong_outside_of_one(args, swarmd):
    ran = swarmd(*args)
    assert (ran.status, ran.calls) == (2, [])
    assert "works inside a session only" in ran.err


@pytest.mark.parametrize("args", [["init"], ["check"], ["serve"], ["backup", "f"], ["restore", "f"]])
def test_a_session_may_not_touch_the_installation(args, swarmd):
    assert swarmd(*args, session=True).status == 3


def test_a_checkpoint_says_what_was_saved(swarmd):
    ran = swarmd(
        "checkpoint",
        session=True,
        checkpoint={"checkpoint": 2, "changes": [documents.CHANGE], "superseded": ["the key x"]},
    )
    assert ran.text.startswith("checkpoint 2: 1 change saved\n  set_key")
    assert ran.err == "swarmd: overtaken, and not saved: the key x\n"


def test_a_fault_of_ours_is_one_line_too(swarmd):
    ran = swarmd("status", status=ValueError("what\never"))
    assert (ran.status, ran.err) == (
        1,
        "swarmd: internal error: ValueError: what\\never (SWARMD_DEBUG=1 shows where)\n",
    )


def test_an_interrupt_is_130(swarmd):
    ran = swarmd("status", status=KeyboardInterrupt())
    assert (ran.status, ran.err) == (130, "swarmd: interrupted\n")
