"""What a session can reach of the machine and of other sessions, tried from inside one."""

import asyncio
import json
import os
import socket
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from swarmd.core.agent import Agent, Sandbox
from swarmd.errors import Failed
from swarmd.runners import landlock
from swarmd.runners.confinement import fence
from swarmd.runners.sandbox import describe, missing_problems, policy, write_problems
from tests.runners.machines import TOKEN, needs_landlock, needs_scopes, text_of, until

PROBE = r"""
import json, os, socket, stat, sys
facts = json.loads(sys.argv[1])
results = {}

def attempt(name, what):
    try:
        value = what()
        results[name] = "reached" if value is None else f"reached: {value!r:.80}"
    except (OSError, EOFError) as error:
        results[name] = type(error).__name__
    except Exception as error:
        results[name] = repr(error)

def read(path): return lambda: open(path, "rb").read(100).decode() if not os.path.isdir(path) else os.listdir(path)
def write(path): return lambda: open(path, "a").write("x") and None
def abstract():
    with socket.socket(socket.AF_UNIX) as it: it.connect("\0" + facts["abstract"])
def tcp():
    with socket.socket() as it: it.connect(("127.0.0.1", facts["port"]))

me = os.environ["TMPDIR"]
for name, path in facts["read"].items(): attempt("read " + name, read(path))
for name, path in facts["write"].items(): attempt("write " + name, write(path))
for name, path in facts["write"].items():
    attempt("make " + name, lambda: os.mkdir(os.path.dirname(path) + "/made"))
    attempt("link " + name, lambda: os.link(path, me + "/stolen"))
    attempt("rename " + name, lambda: os.rename(path, me + "/stolen"))
    attempt("truncate " + name, lambda: os.truncate(path, 0))
    attempt("unlink " + name, lambda: os.unlink(path))
for name, pid in facts["pids"].items():
    attempt("signal " + name, lambda: os.kill(pid, 0))
    attempt("environ of " + name, lambda: open(f"/proc/{pid}/environ").read() or 1/0)
    attempt("memory of " + name, lambda: open(f"/proc/{pid}/mem", "rb"))
    attempt("files of " + name, lambda: os.open(f"/proc/{pid}/fd/0", os.O_RDONLY))
    attempt("folder of " + name, lambda: os.listdir(f"/proc/{pid}/cwd"))
    attempt("root of " + name, lambda: open(f"/proc/{pid}/root" + facts["read"]["database"]).read())
attempt("abstract", abstract)
attempt("tcp", tcp)
attempt("block device", lambda: os.mknod(me + "/disk", stat.S_IFBLK | 0o600, os.makedev(254, 0)))
attempt("char device", lambda: os.mknod(me + "/mem", stat.S_IFCHR | 0o600, os.makedev(1, 1)))
attempt("escape by link", lambda: (os.symlink(facts["read"]["database"], me + "/way"), open(me + "/way").read()))
print(json.dumps(results))
"""


@pytest.fixture
def listeners():
    with socket.socket(socket.AF_UNIX) as abstract, socket.socket() as tcp:
        name = f"swarmd-test-{os.urandom(8).hex()}"
        abstract.bind("\0" + name)
        tcp.bind(("127.0.0.1", 0))
        abstract.listen()
        tcp.listen()
        yield {"abstract": name, "port": tcp.getsockname()[1]}


def _furnish(machine) -> None:
    (machine.state / "swarmd.db").write_text("rows")
    (machine.state / "operator.key").write_text("key")
    (machine.state / "memory/voidrunner").mkdir(parents=True)
    (machine.state / "memory/voidrunner/MEMORY.md").write_text("notes")
    (machine.state / "homes/voidrunner").mkdir(parents=True)
    (machine.state / "homes/voidrunner/rc").write_text("rc")
    (machine.agents / "voidrunner.toml").write_text("parent")
    (machine.root / "elsewhere.txt").write_text("elsewhere")


async def _probed(machine, listeners, **sandbox):
    """The probe's findings beside a living sibling session."""
    _furnish(machine)
    sibling = asyncio.ensure_future(
        machine.run(
            "sh", "-c", "echo $$ $PPID; sleep 60", session=2, agent="voidrunner", token="the-sibling-token"
        )
    )
    log = machine.state / "sessions/2/output.log"
    await until(lambda: log.exists() and log.read_text().endswith("\n"))
    child, supervisor = (int(pid) for pid in log.read_text().split())
    state, other = machine.state, machine.state / "sessions/2"
    facts = listeners | {
        "read": {
            "database": str(state / "swarmd.db"),
            "key": str(state / "operator.key"),
            "state": str(state),
            "sessions": str(state / "sessions"),
            "runtime": str(machine.root / "run"),
            "sibling's folder": str(other),
            "sibling's memory": str(other / "memory/MEMORY.md"),
            "sibling's prompt": str(other / "prompt"),
            "another's memory": str(state / "memory/voidrunner/MEMORY.md"),
            "another's home": str(state / "homes/voidrunner/rc"),
            "own log": str(state / "sessions/1/output.log"),
        },
        "write": {
            "sibling": str(other / "memory/MEMORY.md"),
            "database": str(state / "swarmd.db"),
            "definition": str(machine.agents / "voidrunner.toml"),
            "home": str(state / "homes/voidrunner/rc"),
            "elsewhere": str(machine.root / "elsewhere.txt"),
            "prompt": str(state / "sessions/1/prompt"),
        },
        "pids": {"sibling": child, "its supervisor": supervisor, "daemon": os.getpid()},
    }
    try:
        probe = machine.python(PROBE, "probe.py")
        result = await machine.run(probe, json.dumps(facts), sandbox=sandbox)
        assert result.outcome == "success", result
        return json.loads(text_of(result))
    finally:
        sibling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sibling


@needs_scopes
async def test_a_session_reaches_nothing_of_its_siblings_or_of_swarmd(machine, listeners):
    found = await _probed(machine, listeners, network=False)
    harmless = {name: how for name, how in found.items() if not how.startswith("reached")}
    # Each attempt failed for want of permission, not because the test looked at a wrong place.
    allowed = {
        "PermissionError",
        "OSError",
        "ProcessLookupError",
        "EOFError",
        "ZeroDivisionError('division by zero')",
    }
    assert found == harmless
    assert {
        how for name, how in harmless.items() if name.startswith(("read", "write", "unlink", "truncate"))
    } == {"PermissionError"}
    assert set(harmless.values()) <= allowed
    assert len(harmless) > 50


async def test_without_a_sandbox_the_same_attempts_succeed(machine, listeners):
    found = await _probed(machine, listeners, level="none")
    for name in (
        "read database",
        "read sibling's memory",
        "write elsewhere",
        "abstract",
        "tcp",
        "signal sibling",
    ):
        assert found[name].startswith("reached"), name


@needs_landlock
async def test_a_session_reaches_its_own_places(machine):
    place = machine.root / "game"
    place.mkdir()
    (machine.agents / "data.txt").write_text("beside the agent\n")
    script = f"""
        set -e
        cat $SWARMD_PROMPT >/dev/null; cat {machine.agents}/data.txt
        echo x >$SWARMD_MEMORY/new.md; mkdir $SWARMD_MEMORY/d; mv $SWARMD_MEMORY/new.md $SWARMD_MEMORY/d/
        echo x >$HOME/x; echo x >$TMPDIR/x; mv $TMPDIR/x $HOME/y; echo x >{place}/x; rm {place}/x
        mkfifo $TMPDIR/pipe; ln -s x $HOME/z
        echo x >/dev/null; head -c 1 /dev/urandom >/dev/null; ls /usr/bin >/dev/null; cat /etc/passwd >/dev/null
        ls -l /proc/self/exe >/dev/null; sh -c 'exit 0'
        printf '#!/bin/sh\\necho made here\\n' >$TMPDIR/run; chmod +x $TMPDIR/run; $TMPDIR/run
    """
    result = await machine.run("sh", "-c", script, sandbox={"write": [str(place)]})
    assert (result.outcome, text_of(result)) == ("success", "beside the agent\nmade here\n"), result.stderr


@needs_landlock
async def test_the_home_is_kept_from_session_to_session_and_is_the_agents_own(machine):
    await machine.run("sh", "-c", "echo kept >$HOME/file")
    assert text_of(await machine.run("sh", "-c", "cat $HOME/file", session=2)) == "kept\n"
    assert (await machine.run("sh", "-c", "cat ../polybreak/file", session=3, agent="other")).exit == 1
    home = machine.root / "home"
    home.mkdir()
    result = await machine.run("sh", "-c", "echo x >$HOME/x; pwd", session=4, sandbox={"home": str(home)})
    assert text_of(result) == f"{home}\n"
    assert (home / "x").exists()


@needs_landlock
async def test_a_state_folder_beside_the_work_leaves_the_work_readable(machine):
    """As `swarmd init` in a project makes it: the project holds ./.swarmd, and is the working folder."""
    (machine.root / "main.lua").write_text("-- game\n")
    (machine.root / "src").mkdir()
    _furnish(machine)
    script = "ls; cat main.lua src/* ; ls src agents.d; cat state/swarmd.db || cat state/memory/voidrunner/MEMORY.md"
    result = await machine.run("sh", "-c", script, workdir=str(machine.root))
    assert {"main.lua", "src"} <= set(text_of(result).split())
    assert b"rows" not in result.stdout.head
    assert b"notes" not in result.stdout.head


@needs_landlock
async def test_a_link_to_a_hidden_place_and_a_link_to_root_open_nothing(machine):
    _furnish(machine)
    (machine.root / "way").symlink_to("/")
    (machine.root / "short").symlink_to(machine.state)
    script = f"cat {machine.root}/way{machine.state}/swarmd.db || cat {machine.root}/short/swarmd.db"
    assert (await machine.run("sh", "-c", script)).exit == 1


@needs_landlock
async def test_a_place_to_write_that_was_made_a_link_reaches_nothing(machine):
    _furnish(machine)
    place = machine.root / "place"
    place.symlink_to(machine.state)
    result = await machine.run("true", sandbox={"write": [str(place)]})
    assert result.outcome == "failed"
    assert result.reason.startswith(
        f"sandbox: '{place}' reaches {machine.state} (it leads to {machine.state})"
    )


def test_places_to_write_may_not_reach_swarmds_own(machine):
    root = machine.root
    (root / "link").symlink_to(machine.state)
    forbidden = [str(machine.agents), str(machine.state), str(root / "run")]
    good = [str(root / "game"), str(root / "stat"), str(root / "state2"), "/srv/not-there"]
    assert write_problems(good, forbidden) == []
    for path in (
        "/",
        str(root),
        f"{machine.state}/homes",
        f"{root}/link",
        f"{root}/link/x",
        f"{root}/x/../state",
    ):
        assert len(write_problems([path], forbidden)) == 1, path
    assert write_problems(["relative", "~/x"], forbidden) == [
        "'relative' is not an absolute path",
        "'~/x' is not an absolute path",
    ]
    assert write_problems([str(root)], forbidden)[0].endswith(f"{machine.agents}, which no session may write")


def test_a_missing_place_is_named():
    assert missing_problems(["/etc", "/nosuch"]) == [
        "sandbox.write: /nosuch does not exist; make it, or take it out of the agent's file"
    ]


def _policy(**changes):
    values = {
        "level": "auto",
        "network": True,
        "hidden": ["/var/lib/swarmd"],
        "read": [],
        "write": ["/tmp"],
        "workdir": "/",
        "abi": 7,
    }
    return policy(**(values | changes))


def test_the_level_in_force_follows_the_kernel():
    assert _policy().level == "landlock"
    assert _policy(abi=0).level == "none"
    assert "no Landlock" in _policy(abi=0).notes[0]
    assert _policy(level="none").level == "none"
    assert _policy(abi=3).notes == (
        "this kernel's Landlock (version 3) does not keep a session from signalling others",
    )
    with pytest.raises(Failed, match="this kernel has no Landlock"):
        _policy(level="landlock", abi=0)


@pytest.mark.parametrize("changes", [{"abi": 0}, {"abi": 3}, {"level": "none"}])
def test_a_network_that_cannot_be_closed_is_an_error_and_not_a_hope(changes):
    with pytest.raises(Failed, match="nothing here keeps a session off the network"):
        _policy(network=False, **changes)


def test_a_policy_in_words():
    lines = describe(_policy(network=False))
    assert lines[0] == "sandbox: landlock"
    assert "writes: /tmp" in lines
    assert "network: no TCP; UDP and Unix sockets are not covered" in lines
    assert any("/var/lib/swarmd" in line for line in lines)
    assert describe(_policy(level="none"))[-1].startswith("note: sandbox.level is 'none'")


@dataclass
class Places:
    state: Path
    runtime: Path
    agents: Path


def test_an_agents_fence_in_words_makes_nothing(machine):
    where = Places(state=machine.state, runtime=machine.root / "run", agents=machine.agents)
    level, lines = fence(Agent(name="polybreak", sandbox=Sandbox(write=("/etc",))), where)
    assert level == ("landlock" if landlock.abi() else "none")
    assert not (machine.state / "homes").exists()
    if level == "landlock":
        assert "writes: /etc" in lines
        assert f"writes: {os.path.realpath(machine.state)}/homes/polybreak" in lines
    refused = fence(Agent(name="polybreak", sandbox=Sandbox(write=(str(machine.state),))), where)
    assert refused[0] == "none"
    assert refused[1][0].startswith("no session can start: sandbox: ")


def test_the_way_to_a_hidden_place_is_left_out_and_all_beside_it_is_not(machine):
    root = os.path.realpath(machine.root)
    beside = list(landlock._outside([f"{root}/state", f"{root}/state/sessions", "/dev"]))
    assert f"{root}/run" in beside
    assert "/etc" in beside
    for path in ("/", "/dev", "/tmp", root, f"{root}/state", f"{root}/state/sessions"):
        assert path not in beside
    assert not any(stat.S_ISLNK(os.lstat(path).st_mode) for path in beside if os.path.lexists(path))


def _command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


async def test_the_supervisor_does_not_see_the_environment_and_argv_holds_no_secret(machine):
    session = asyncio.ensure_future(machine.run("sh", "-c", "echo $PPID; sleep 60", env={"K": "value-of-k"}))
    log = machine.state / "sessions/1/output.log"
    await until(lambda: log.exists() and log.read_text().endswith("\n"))
    supervisor = int(log.read_text())
    line = _command_line(supervisor)
    assert TOKEN.encode() not in line
    assert b"value-of-k" not in line
    assert b"keep Polybreak" not in line
    assert sys.executable.encode() in line
    session.cancel()
    with pytest.raises(asyncio.CancelledError):
        await session
