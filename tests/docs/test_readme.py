"""What README and docs say is what the program does: every word of its surface stands there, every example works."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
import pytest

from swarmd.cli.base import global_options
from swarmd.cli.invocation import Invocation
from swarmd.cli.main import root
from swarmd.cli.running import TRIGGERS
from swarmd.config.settings import DaemonTable
from swarmd.core.handoffs import PRIORITIES, Status
from swarmd.core.sessions import OUTCOMES
from swarmd.core.slots import Decision
from swarmd.errors import KINDS
from tests.docs import reference
from tests.model_server import answers as say
from tests.model_server.server import ModelServer

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
REFERENCE = reference.REFERENCE.read_text()
TEXTS = {"README.md": README, "docs/reference.md": REFERENCE} | {
    f"docs/{file.name}": file.read_text()
    for file in (ROOT / "docs").glob("*.md")
    if file.name != "reference.md"
}
ALL = "\n".join(TEXTS.values())
NOT_YET = README.index("## Not there yet")
HOW = "run `python -m tests.docs.reference`"
EXAMPLES = ROOT / "agents.d"
TEMPLATES = ROOT / "swarmd" / "templates" / "agents.d"


# -- every word -------------------------------------------------------------------------------------------------------


def test_the_generated_parts_of_the_reference_are_up_to_date():
    assert reference.written(REFERENCE) == REFERENCE, HOW


def test_every_command_and_option_is_documented():
    for words, command in reference.commands():
        assert f"swarmd {words} " in ALL, words
        for option in reference.options_of(command):
            assert all(name in ALL for name in option.opts), (words, option.opts)
    for param in global_options(hidden=False):
        assert all(name in ALL for name in param.opts), param.opts


def test_every_first_word_of_a_command_stands_in_the_readme():
    for name in root.table:
        assert re.search(rf"\bswarmd {name}\b|`{name}[ `]", README), name


def test_every_field_of_an_agent_file_is_documented_with_its_default():
    for table, name, field, must in reference.fields():
        path = f"{table}.{name}" if table else name
        assert f"| `{path}` |" in REFERENCE, path
        assert field.get("description") or must, f"{path} says nothing about itself"


def test_every_setting_is_documented():
    for name in DaemonTable.model_fields:
        assert f"`daemon.{name}`" in REFERENCE, name


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("outcome", OUTCOMES),
        ("slot decision", get_args(Decision)),
        ("trigger", TRIGGERS),
        ("handoff status", [status.value for status in Status]),
        ("priority", PRIORITIES),
    ],
)
def test_every_word_of_a_closed_set_is_documented(what, words):
    for word in words:
        assert f"`{word}`" in REFERENCE, f"{what} {word}"
    if what in ("outcome", "slot decision", "handoff status"):
        for word in words:
            assert f"`{word}`" in README, f"{what} {word}"


def test_every_exit_status_is_documented():
    table = REFERENCE[REFERENCE.index("## Exit status") :]
    assert {0, *(kind.exit_status for kind in KINDS.values())} == set(range(7))
    for status in range(7):
        assert f"\n| {status} | " in table


def test_every_variable_is_documented():
    sources = [*(ROOT / "swarmd").rglob("*.py"), *EXAMPLES.iterdir()]
    found = {name for file in sources for name in re.findall(r"\bSWARMD_[A-Z]+\b", file.read_text())}
    found |= {
        "CONFIGURATION_DIRECTORY",
        "STATE_DIRECTORY",
        "RUNTIME_DIRECTORY",
        "CREDENTIALS_DIRECTORY",
        "XDG_RUNTIME_DIR",
    }
    assert not {name for name in found if f"`{name}`" not in REFERENCE}


def test_every_link_leads_somewhere():
    for name, text in TEXTS.items():
        for link in re.findall(r"\]\(([^)#:]*)(?:#[^)]*)?\)", text):
            assert not link or (ROOT / name).parent.joinpath(link).exists(), f"{name}: {link}"


# -- every example ----------------------------------------------------------------------------------------------------

PLACEHOLDERS = {
    "NAME": "disk", "AGENT": "disk", "AGENT|all": "disk", "ID": "7", "SESSION": "7", "SESSIONS": "7", "N": "disk", "A": "host", "B": "disk",
    "T": "text", "P": "high", "K": "key", "V": "value", "TIME": "2h", "REV": "1", "OLD": "disk", "NEW": "disc", "SUBJECT": "alice",
}  # fmt: skip


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def in_blocks() -> Iterator[str]:
    for name, text in TEXTS.items():
        for block in blocks(text, "sh"):
            for line in block.splitlines():
                words = line.partition(" # ")[0].strip()
                if words.startswith("swarmd ") and "$(" not in words:
                    yield pytest.param(words, id=f"{name}: {words}")


def in_lines() -> Iterator[str]:
    known = README[:NOT_YET] + REFERENCE
    for words in sorted(set(re.findall(r"`(swarmd [^`]+)`", known.replace("\n", " ")))):
        yield pytest.param(words, id=words)


def parsed(words: list[str]) -> None:
    """Raises UsageError where the program would."""
    context: click.Context = root.make_context("swarmd", list(words), obj=Invocation(environ={}))
    command: click.Command = root
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command, context = found, found.make_context(name, rest, parent=context)


def filled(words: str) -> list[str]:
    return [PLACEHOLDERS.get(word, word) for word in shlex.split(words)][1:]


@pytest.mark.parametrize("words", list(in_blocks()))
def test_every_command_of_an_example_is_one(words):
    parsed(filled(words))


@pytest.mark.parametrize("words", list(in_lines()))
def test_every_command_that_is_named_is_one(words):
    without_brackets = re.sub(r"\[OPTIONS\] ?|\.\.\.|[\[\]{}]", "", words)
    for choice in _choices(without_brackets):
        wrong = _fault(filled(choice))
        # What is only named may lack its arguments.
        assert wrong is None or "issing" in wrong or "requires an argument" in wrong, wrong


def _fault(words: list[str]) -> str | None:
    try:
        parsed(words)
    except click.UsageError as error:
        return error.format_message()
    return None


def _choices(words: str) -> list[str]:
    """`a b|c` names `a b` and `a c`."""
    for word in words.split():
        if "|" in word and word not in PLACEHOLDERS:
            return [each for part in word.split("|") for each in _choices(words.replace(word, part, 1))]
    return [words]


def program(*args: str, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SWARMD_")}
    command = [sys.executable, "-m", "swarmd", *args]
    return subprocess.run(
        command, cwd=cwd, env=environ | extra, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("number", range(len(blocks(README, "toml"))))
def test_every_toml_example_passes_check(number, tmp_path):
    agents = tmp_path / "agents.d"
    agents.mkdir(mode=0o755)
    text = blocks(README, "toml")[number]
    is_agent = "system_prompt" in text
    (agents / "some.toml").write_text(
        text if is_agent else 'system_prompt = "x"\nrunner = {kind = "command", command = ["/bin/true"]}\n'
    )
    for named in re.findall(r'"\./([^"]+)"', text):
        script = agents / named
        script.parent.mkdir(exist_ok=True)
        script.write_text("#!/bin/sh\n")
        script.chmod(0o755)
    if not is_agent:
        (tmp_path / "swarmd.toml").write_text(text)
    ran = program("--agents", "agents.d", "check", cwd=tmp_path, ANTHROPIC_API_KEY="sk-of-the-test")
    assert (ran.returncode, ran.stdout) == (0, "1 file, no problems\n"), ran.stdout + ran.stderr


def test_the_example_agent_becomes_a_model_as_it_is_said(tmp_path):
    assert program("init", ".", cwd=tmp_path).returncode == 0
    (text,) = [block for block in blocks(README, "toml") if '"anthropic"' in block]
    file = tmp_path / "agents.d" / "host.toml"
    asked = [
        say.tools(say.call("agent_list"), say.call("handoff_send", to="disk", text="look closer")),
        "done",
    ]
    with ModelServer(asked) as server:
        file.write_text(f'{text}base_url = "{server.url}"\n')
        ran = program("run", "host", cwd=tmp_path, ANTHROPIC_API_KEY="sk-of-the-test")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert server.complaints == []
    assert "committed" in ran.stderr
    told = program("session", "log", "host", cwd=tmp_path).stdout
    assert "handoff_send" in told
    assert "done" in told


def test_the_program_that_the_first_example_names_is_the_one_that_is_shown():
    named = re.search(r'command = \["\./([^"]+)"\]', blocks(README, "toml")[0])
    assert named is not None
    assert f"and `agents.d/{named[1]}`, executable" in README
    assert named[1].endswith(".sh")


def test_what_a_draft_and_a_list_may_say_is_explained():
    for word in ("taken_up", "in_force", "superseded", "--until"):
        assert f"`{word}`" in REFERENCE


# -- the agents that come with it -------------------------------------------------------------------------------------


def files(folder: Path) -> dict[str, tuple[bytes, bool]]:
    found = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {
        str(path.relative_to(folder)): (path.read_bytes(), bool(path.stat().st_mode & stat.S_IXUSR))
        for path in found
    }


def test_what_init_installs_is_the_agents_d_of_the_repository():
    assert files(EXAMPLES) == files(TEMPLATES), "copy agents.d to swarmd/templates/agents.d"


def test_the_examples_are_commented_and_their_scripts_can_run():
    for name, (data, executable) in files(EXAMPLES).items():
        assert executable == data.startswith(b"#!") == (not name.endswith(".toml")), name
        if name.endswith(".toml"):
            assert data.startswith(b"#:schema "), name
        else:
            assert b"#" in data[20:] or b'"""' in data, name


@pytest.fixture
def swarm(tmp_path: Path) -> Path:
    ran = program("init", ".", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    return tmp_path


def test_the_first_tree_passes_check_and_has_prompts(swarm):
    assert program("check", cwd=swarm).stdout == "5 files, no problems\n"
    assert program("agent", "tree", cwd=swarm).returncode in (
        0,
        5,
    )  # nothing is in force before the first act
    ran = program("run", "host", "--dry-run", cwd=swarm)
    assert ran.returncode == 0, ran.stderr
    assert "You watch over this host." in program("prompt", "host", cwd=swarm).stdout


@pytest.mark.slow
def test_the_first_tree_runs(swarm):
    for agent in ("disk", "files", "load", "logs", "host"):
        ran = program("run", agent, cwd=swarm)
        assert ran.returncode == 0, f"{ran.stderr}\n{program('session', 'log', agent, cwd=swarm).stdout}"
    sent = json.loads(program("handoff", "list", "--json", cwd=swarm).stdout)["items"]
    assert [(one["sender"], one["status"]) for one in sent] == [("host", "open")]
    asked = sent[0]["receiver"]
    ran = program("run", asked, cwd=swarm)
    assert "open -> completed" in ran.stdout, ran.stdout + ran.stderr
    assert program("run", "host", cwd=swarm).returncode == 0
    assert f"- {asked}: " in program("memory", "show", "host", cwd=swarm).stdout


# -- the demo ---------------------------------------------------------------------------------------------------------


def demo(folder: Path, seconds: int, **options: Any) -> subprocess.Popen[str]:
    environ = {**os.environ, "TMPDIR": str(folder), "SWARMD_STATE": "/nowhere", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "swarmd.demo", "--seconds", str(seconds)]
    return subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def daemons_of(folder: Path) -> list[str]:
    found = []
    for place in Path("/proc").iterdir():
        try:
            if place.name.isdigit() and os.readlink(place / "cwd").startswith(str(folder)):
                found.append((place / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_the_demo_shows_all_that_it_promises_and_leaves_nothing_behind(tmp_path):
    running = demo(tmp_path, 15)
    out, err = running.communicate(timeout=110)
    assert running.returncode == 0, out + err
    assert "What each session committed" in out
    assert "no agent named 'host' stands below disk" in out
    assert "clumsy has 0 keys" in out
    assert "\x1b" not in out
    assert list(tmp_path.iterdir()) == []
    assert daemons_of(tmp_path) == []


@pytest.mark.slow
def test_ctrl_c_ends_the_demo_in_good_order(tmp_path):
    running = demo(tmp_path, 60, start_new_session=True)
    assert running.stdout is not None
    for line in running.stdout:
        if "the daemon runs" in line:
            break
    time.sleep(1)
    os.killpg(running.pid, signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == 130
    assert list(tmp_path.iterdir()) == []
    assert daemons_of(tmp_path) == []
