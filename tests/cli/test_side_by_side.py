"""Two sessions beside each other, and below each other where there is no room."""

from tests.cli.documents import NASTY, SESSION
from tests.cli.test_output import on_terminal

CHANGES = [
    {"what": "changed", "act": "ctx_set", "target": "studio/status", "there": {"before": None, "after": "OLD", "verdict": "done", "reason": ""},
     "here": {"before": None, "after": NASTY, "verdict": "refused", "reason": "no"}, "diff": None},
    {"what": "added", "act": "memory_write", "target": "studio:MEMORY.md", "there": None,
     "here": {"before": None, "after": "revision 2, 4 bytes", "verdict": "done", "reason": ""}, "diff": f"-a\n+{NASTY}"},
    {"what": "removed", "act": "handoff_send", "target": "nobody", "here": None,
     "there": {"before": None, "after": None, "verdict": "refused", "reason": "no such agent"}, "diff": None},
]  # fmt: skip
THERE = {**SESSION, "id": 7, "tokens_in": 1200, "tokens_out": 5, "usd": 0.5, "definition": "a" * 64}
HERE = {
    **SESSION,
    "id": 9,
    "outcome": "dry_run",
    "tokens_in": 900,
    "tokens_out": 5,
    "usd": None,
    "definition": "b" * 64,
}
RUN = {**HERE, "compared": {"session": THERE, "changes": CHANGES}}
ARGS = ("run", "studio", "--no-commit", "--from-session", "7")


def test_what_both_wanted_stands_side_by_side(swarmd):
    ran = swarmd(*ARGS, run=RUN)
    assert ran.status == 0, ran.err
    assert ran.calls == [
        ("run", {"agent": "studio", "mode": "no_commit", "force": False, "from_session": "7"})
    ]
    lines = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in ran.text.splitlines()]
    assert lines[0] == ["SESSION 7", "SESSION 9"]
    assert ["outcome", "committed", "dry_run"] in lines
    assert ["tokens in", "1,200", "900"] in lines
    assert ["cost", "$0.5000", "cost unknown"] in lines
    assert ["definition", "a" * 12, "b" * 12] in lines
    assert next(line for line in lines if line[:2] == ["changed", "ctx_set studio/status"])[2] == "OLD"
    assert ["removed", "handoff_send nobody", "no such agent [refused]", "-"] in lines
    assert ["added", "memory_write studio:MEMORY.md", "-", "revision 2, 4 bytes"] in lines
    assert "\x1b" not in ran.text
    assert "\n  -a\n" in ran.text


def test_json_is_the_session_with_the_other_in_it(swarmd):
    assert swarmd(*ARGS, "--json", run=RUN).json == RUN


def test_where_nothing_was_wanted_it_says_so(swarmd):
    run = {**HERE, "compared": {"session": THERE, "changes": []}}
    assert "neither wanted anything changed" in swarmd(*ARGS, run=run).text


def test_it_goes_with_no_commit_alone(swarmd):
    for args in (("--from-session", "7"), ("--from-session", "7", "--dry-run"), (*ARGS[2:], "--text", "x")):
        ran = swarmd("run", "studio", *args)
        assert (ran.status, ran.calls) == (2, [])
        assert "--no-commit" in ran.err


def test_on_a_narrow_terminal_each_change_is_a_block(tmp_path):
    text = on_terminal(tmp_path, *ARGS, columns=34, answers={"run": RUN})
    block = text[text.index("WHAT") :]
    assert block.splitlines()[0].split() == ["WHAT", "changed"]
    assert "SESSION 7" in block
    assert "OLD" in block
