"""The commands on a real store without a daemon: what is written is what is read, and each document fits its schema."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from swarmd.cli.invocation import Invocation
from swarmd.cli.main import run
from swarmd.store.opening import Lock
from tests.cli.schema_check import faults
from tests.cli.test_commands_exist import READING

AGENT = 'system_prompt = "You watch."\nschedule = "0 * * * *"\nrunner = {{ kind = "command", command = ["{0}"] }}\n'
SCRIPT = "#!/bin/sh\necho hello from the session\n"


class _Program:
    name = "swarmd"

    def main(self, args, prog_name):
        sys.exit(run(list(args), Invocation(environ=dict(os.environ))))


def swarmd(*args, status=0, stdin=b""):
    result = CliRunner().invoke(_Program(), args, input=stdin)  # type: ignore[arg-type]
    assert result.exit_code == status, result.stderr
    return result


def document(*args):
    return json.loads(swarmd(*args, "--json").stdout)


@pytest.fixture
def here():
    """Two agents and an empty store in the working folder."""
    Path("agents.d").mkdir()
    Path(".swarmd").mkdir(mode=0o700)
    script = Path("agents.d/act.sh").absolute()
    script.write_text(SCRIPT)
    script.chmod(0o755)
    Path("agents.d/studio.toml").write_text(AGENT.format(script))
    Path("agents.d/polybreak.toml").write_text('parent = "studio"\n' + AGENT.format(script))


def test_what_is_written_is_what_is_read(here):
    assert (
        swarmd("ctx", "set", "studio", "status", "POLISH").stderr
        == f"swarmd: acted on {Path('.swarmd').absolute()}\n"
    )
    assert swarmd("ctx", "get", "studio", "status").stdout == "POLISH"
    swarmd(
        "memory", "ctx", "set", "--node", "studio", "--key", "status", "--value", "-", stdin=b"two\nlines\n"
    )
    assert swarmd("memory", "ctx", "get", "--node", "studio", "--key", "status").stdout == "two\nlines\n"
    swarmd(
        "memory",
        "handoff",
        "send",
        "--from",
        "studio",
        "--to",
        "polybreak",
        "--text",
        "T",
        "--as-node",
        "studio",
        "--priority",
        "high",
    )
    (handoff,) = document("handoff", "list", "--to", "polybreak")["items"]
    assert (handoff["sender"], handoff["text"], handoff["priority"]) == ("studio", "T", "high")
    assert handoff["by"].endswith(" as studio")
    swarmd("memory", "append", "studio", "MEMORY.md", "--", "- buy milk")
    assert "- buy milk" in swarmd("memory", "show", "studio").stdout


@pytest.mark.parametrize(
    ("verb", "owner", "why", "instead"),
    [
        ("consolidate", "@team", "is a folder that several share, and a consolidation is for one agent's own memory",
         "put it in order by hand, with swarmd memory edit @team"),
        ("consolidate", "studio@bob", "is what studio keeps about bob, and a consolidation is for its own memory",
         "make this one small with swarmd memory compact studio@bob, or put it in order with swarmd memory edit studio@bob"),
        ("compact", "@team", "is a folder that several share, and no summarizer is there for it",
         "make it small by hand, with swarmd memory edit @team"),
    ],
)  # fmt: skip
def test_upkeep_of_a_folder_that_is_no_agents_own_is_refused_with_what_to_do_instead(
    here, verb, owner, why, instead
):
    with Path("agents.d/studio.toml").open("a") as file:
        file.write('[[memory.shared]]\nname = "team"\nwrite = true\n')
    swarmd("reload")
    swarmd("memory", "write", "@team", "MEMORY.md", "one\n")
    swarmd("memory", "write", "studio@bob", "MEMORY.md", "one\n")
    assert swarmd("memory", verb, owner, status=2).stderr == f"swarmd: {owner} {why}: {instead}\n"


def test_that_a_folder_is_no_agent_is_said_as_such(here):
    for args in (("run", "@team"), ("memory", "import", "x", "--agent", "@team")):
        assert "@team is a shared folder, and an agent is expected here" in swarmd(*args, status=2).stderr
    assert "studio@bob is a folder about a subject" in swarmd("agent", "show", "studio@bob", status=2).stderr
    assert "no agent is named 'nobody'" in swarmd("memory", "consolidate", "nobody@bob", status=4).stderr


def test_one_thing_is_counted_as_one(here):
    Path("agents.d/bad.toml").write_text("no toml")
    swarmd("reload", status=1)
    assert "1 problem in files" in swarmd("doctor", status=1).stdout
    Path("one").mkdir()
    Path("one/a.md").write_text("a\n")
    told = swarmd("memory", "import", "one", "--agent", "studio", "--dry-run").stderr
    assert "nothing is written: 1 file of studio would be, from markdown" in told
    assert (
        "1 file of studio is written, from markdown"
        in swarmd("memory", "import", "one", "--agent", "studio").stderr
    )
    assert "1 file is written to out" in swarmd("memory", "export", "studio", "out").stderr


def test_exit_statuses_are_those_of_the_manual(here):
    swarmd("ctx", "get", "studio", "nothing", status=4)
    swarmd("agent", "show", "studoi", status=4)
    swarmd("ctx", "set", "studio", "bad name", "v", status=3)
    swarmd("handoff", "send", "--to", "studio", "--text", "up", "--as", "polybreak", status=3)
    swarmd("handoff", "send", "--to", "studio", "--text", "-", stdin=b"x" * 200_000, status=3)
    swarmd("handoff", "ack", "99", status=4)


def test_every_document_fits_its_schema(here):
    swarmd("ctx", "set", "studio", "status", "POLISH")
    swarmd("ctx", "unset", "studio", "status")
    swarmd("ctx", "set", "studio", "status", "again")
    swarmd("handoff", "send", "--to", "polybreak", "--text", "T")
    swarmd("memory", "append", "studio", "MEMORY.md", "one")
    swarmd("memory", "append", "studio", "MEMORY.md", "two")
    swarmd("pause", "polybreak", "--reason", "holiday")
    session = document("run", "studio")
    assert session["outcome"] in ("committed", "no_change")
    asks()
    swarmd("run", "asks")
    folder = Path(__file__).parents[1] / "data" / "schemas"
    skill = "---\nname: pdf\ndescription: How to read one.\n---\n"
    swarmd("memory", "write", "studio", "skills/pdf/SKILL.md", "--", skill)
    commands = {name: [arg if arg != "7" else "1" for arg in args] for name, args in READING.items()}
    for name, args in commands.items():
        schema = json.loads((folder / f"{name}.json").read_text())
        ran = CliRunner().invoke(_Program(), [*args, "--json"])  # type: ignore[arg-type]
        assert faults(schema, json.loads(ran.stdout)) == [], name
        assert CliRunner().invoke(_Program(), args).exit_code in (0, 1)  # type: ignore[arg-type]
    schema = json.loads((folder / "session_export.json").read_text())
    assert faults(schema, document("session", "export", "studio")) == []


def asks(more=""):
    """An agent whose sessions want a key that an operator has to approve, and a file of its memory."""
    script = Path("agents.d/asks.sh").absolute()
    script.write_text(
        "#!/bin/sh\nswarmd ctx set deploy now\nmkdir -p $SWARMD_MEMORY/policies\necho kind > $SWARMD_MEMORY/policies/a.md\n"
    )
    script.chmod(0o755)
    rules = '[authority]\napproval = ["deploy"]\n[memory]\napproval = ["policies/**"]\n'
    Path("agents.d/asks.toml").write_text(AGENT.format(script) + rules + more)


def in_a_session(*commands):
    """What these commands print inside a session of studio."""
    script = Path("agents.d/act.sh")
    script.write_text("#!/bin/sh\n" + "".join(f"{command} 2>&1 || true\n" for command in commands))
    swarmd("run", "studio")
    return swarmd("session", "log", "studio").stdout


def test_a_sessions_own_memory_has_the_documents_of_any_other(here):
    for owner in ("MEMORY.md", "a.md", "archive/old.md"):
        swarmd("memory", "write", "studio", owner, f"{owner}\n")
    asked = [
        ("memory_list", "memory list"), ("memory_show", "memory show"), ("memory_show", "memory show archive/old.md"),
        ("memory_show", "memory show a.md --rev 1"),
    ]  # fmt: skip
    outside = [
        document(*words.replace(" list", " list studio").replace("show", "show studio").split())
        for _, words in asked
    ]
    told = in_a_session(*(f"swarmd {words} --json | tr -d '\\n'; echo" for _, words in asked))
    inside = [json.loads(line) for line in told.splitlines()]
    folder = Path(__file__).parents[1] / "data" / "schemas"
    for (name, words), there, here_ in zip(asked, outside, inside, strict=True):
        assert faults(json.loads((folder / f"{name}.json").read_text()), here_) == [], words
        assert there.keys() <= here_.keys(), words
    for there, here_ in zip(outside[1:], inside[1:], strict=True):
        assert {name: here_[name] for name in there} == there
    for there, here_ in zip(outside[0]["items"], inside[0]["items"], strict=True):
        assert {**here_, "first_line": there["first_line"]} == {**there, "file": there["path"]}


def test_a_session_is_shown_which_revisions_its_copy_is_and_what_files_were_before(here):
    swarmd("memory", "write", "studio", "MEMORY.md", "one\n")
    swarmd("memory", "write", "studio", "MEMORY.md", "two\n")
    swarmd("memory", "write", "studio", "a.md", "a\n")
    told = in_a_session(
        "swarmd memory show MEMORY.md --rev 1",
        "swarmd memory append a.md mine",
        "swarmd memory write b.md -- b",
        "swarmd memory list --json",
        "swarmd memory show MEMORY.md --rev 9",
    )
    assert told.startswith("one\n")
    listed = {row["file"]: row for row in json.loads(told[told.index("{") : told.rindex("}") + 1])["items"]}
    assert {
        file: (row["rev"], row["by"] and row["by"].partition(":")[0]) for file, row in listed.items()
    } == {
        "MEMORY.md": (2, "operator"),
        "a.md": (None, None),
        "b.md": (None, None),
    }
    assert "studio has no revision 9 of MEMORY.md" in told


def test_a_session_may_edit_its_memory_with_a_script(here):
    swarmd("memory", "write", "studio", "MEMORY.md", "one\n")
    told = in_a_session(
        "export EDITOR=\"sh -c 'echo two >> \\$0'\"", "swarmd memory edit", "swarmd memory show"
    )
    assert told.endswith("one\ntwo\n"), told
    assert swarmd("memory", "show", "studio").stdout == "one\ntwo\n"


def test_what_needs_a_yes_is_listed_shown_approved_and_denied(here):
    asks()
    ran = swarmd("run", "asks")
    assert (
        "deploy = now (staged; held: needs an operator's approval)" in swarmd("session", "log", "asks").stdout
    )
    assert "ctx_set  asks/deploy  now  [held]" in ran.stdout
    listed = swarmd("approval", "list").stdout
    assert "asks/deploy" in listed
    assert "asks:policies/a.md" in listed
    shown = swarmd("approval", "show", "2").stdout
    assert "memory_write  asks:policies/a.md" in shown
    assert "\n  +kind\n" in shown
    assert "    now\n" in swarmd("approval", "show", "1").stdout
    assert swarmd("approval", "approve", "1").stdout == "approval 1 (asks/deploy) is approved\n"
    assert swarmd("ctx", "get", "asks", "deploy").stdout == "now"
    denied = swarmd("approval", "deny", "2", "--reason", "not that")
    assert denied.stdout == "approval 2 (asks:policies/a.md) is denied: not that\n"
    again = swarmd("approval", "approve", "2", status=3)
    assert "approval 2 was denied already by operator:" in again.stderr
    assert swarmd("approval", "list").stderr == "swarmd: nothing waits for approval\n"
    assert len(document("approval", "list", "--all", "--agent", "asks")["items"]) == 2
    swarmd("approval", "approve", "99", status=4)
    swarmd("approval", "approve", "x", status=2)
    swarmd("approval", "approve", "1", "--as", "asks", status=3)


def test_an_overtaken_approval_is_told_with_exit_status_1(here):
    asks()
    swarmd("run", "asks")
    swarmd("ctx", "set", "asks", "deploy", "later")
    ran = swarmd("approval", "approve", "1", status=1)
    assert ran.stdout.startswith(
        "approval 1 (asks/deploy) was overtaken, and is not written: asks/deploy was changed by"
    )


@pytest.mark.parametrize(
    ("more", "verdict", "difference"),
    [
        ("", "nothing would be written", "  (nothing would be written)\n"),
        ("more\\n", "done in part", "\n  +more\n"),
    ],
)
def test_what_a_yes_would_set_aside_is_told_before_it_and_after_it(here, more, verdict, difference):
    asks()
    Path("agents.d/asks.sh").write_text(
        f"#!/bin/sh\nprintf 'a\\nagents\\nc\\nd\\n{more}' > $SWARMD_MEMORY/policies/a.md\n"
    )
    swarmd("memory", "write", "asks", "policies/a.md", "a\nb\nc\nd\n")
    swarmd("run", "asks")
    swarmd("memory", "write", "asks", "policies/a.md", "a\npersons\nc\nd\n")
    shown = swarmd("approval", "show", "1").stdout
    assert f"{verdict}: 1 line would be set aside as a conflict\n" in shown
    assert difference in shown
    assert "(the same lines)" not in shown
    assert shown.endswith(
        "  would be set aside as a conflict: line 2\n"
        "    theirs (stays in the file)\n"
        "      persons\n"
        "    ours (the agent's)\n"
        "      agents\n"
    )
    ran = swarmd("approval", "approve", "1")
    assert ran.stdout == (
        "approval 1 (asks:policies/a.md) is approved: 1 of its lines met other edits and was set aside as a conflict\n"
    )
    assert ran.stderr.endswith(
        "swarmd: what was set aside: swarmd memory conflicts asks shows it, and with --take ours N puts it in\n"
    )
    assert "agents" in swarmd("memory", "conflicts", "asks").stdout


def test_without_a_daemon_the_hooks_are_asked_and_told_by_the_command(here):
    out = Path("out").absolute()
    out.mkdir()
    for name, status in (
        ("before", "test -e $0.ok || { echo the window is shut; exit 1; }"),
        ("after", "true"),
    ):
        hook = Path(f"agents.d/{name}.sh").absolute()
        hook.write_text(f"#!/bin/sh\ncat > {out}/{name}.json\n{status}\n")
        hook.chmod(0o755)
    asks(
        f'[sandbox]\nwrite = ["{out}"]\n[hooks]\nbefore_commit = ["./before.sh"]\nafter_commit = ["./after.sh"]\n'
    )
    Path("agents.d/before.sh.ok").touch()
    swarmd("run", "asks")
    Path("agents.d/before.sh.ok").unlink()
    refused = swarmd("approval", "approve", "1", status=3)
    assert "approval 1 stays open: hooks.before_commit: the window is shut" in refused.stderr
    Path("agents.d/before.sh.ok").touch()
    swarmd("approval", "approve", "1")
    given = json.loads((out / "after.json").read_text())
    assert (given["approval"], [c["verdict"] for c in given["changes"]]) == (1, ["done"])


def test_a_session_that_ran_can_be_looked_at(here):
    ran = swarmd("run", "studio")
    assert "session 1 of studio: no_change" in ran.stderr
    assert swarmd("session", "log", "studio").stdout == "hello from the session\n"
    assert "studio#1" in swarmd("log").stdout
    assert document("agent", "list")["items"][1]["last_session"] == 1


def test_a_backup_becomes_a_new_state(here):
    swarmd("ctx", "set", "studio", "status", "POLISH")
    Path(".swarmd/memory/studio").mkdir(parents=True, exist_ok=True)
    Path(".swarmd/memory/studio/link.md").symlink_to("MEMORY.md")
    warned = swarmd("backup", "kept.db").stderr
    assert warned.startswith("swarmd: warning: not in the backup: studio/link.md: it is a link, and")
    Path(".swarmd/memory/studio/link.md").unlink()
    swarmd("backup", "kept.db", status=2)
    swarmd("restore", "kept.db", status=5)
    ran = swarmd("--state", "elsewhere", "restore", "kept.db")
    assert "resume all" in ran.stdout
    assert swarmd("--state", "elsewhere", "ctx", "get", "studio", "status").stdout == "POLISH"


LEFT = (
    "swarmd: no daemon runs: 1 session shown as running was left by one that died, and will be `lost` with the next "
    "start, or the next command that acts\n"
)


@pytest.mark.parametrize(
    "args",
    [["session", "list"], ["session", "show", "1"], ["status"], ["agent", "list"], ["agent", "tree"],
     ["agent", "show", "polybreak"], ["session", "list", "--json"]],
    ids=" ".join,
)  # fmt: skip
def test_what_a_daemon_that_died_has_left_running_is_told(args, here):
    swarmd("run", "polybreak")
    assert swarmd(*args).stderr == ""
    with contextlib.closing(sqlite3.connect(".swarmd/swarmd.db")) as connection, connection:
        connection.execute("UPDATE sessions SET state = 'running', outcome = NULL, ended = NULL")
    assert swarmd(*args).stderr == LEFT
    lock = Lock(Path(".swarmd"))
    assert lock.acquire()
    try:
        assert swarmd(*args).stderr == ""
    finally:
        lock.release()
