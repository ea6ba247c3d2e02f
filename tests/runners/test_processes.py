"""Nobody is left alive, whatever a session does, and whatever is done to the daemon."""

import asyncio
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from swarmd.runners import cgroup
from swarmd.runners.leftovers import kill_leftovers
from swarmd.runners.outcomes import RunCancelled
from tests.runners.machines import needs_scopes, processes, text_of, until


@pytest.fixture
def nap():
    """A length of sleep that nobody else sleeps, by which a process is found."""
    return f"6{random.randrange(10**7, 10**8)}"


FORK_AND_GO = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.execvpe("sleep", ["sleep", sys.argv[1]], {"PATH": os.environ["PATH"]})
"""

HOP = """
import os
if os.fork(): os._exit(0)
while True:  # a process that is never there when one looks
    if os.fork(): os._exit(0)
    os.setsid()
"""


async def test_grandchildren_are_dead_before_run_returns_and_none_comes_back(machine, nap):
    fork_and_go = machine.python(FORK_AND_GO)
    scripts = [
        f"sleep {nap} & exec sleep {nap}",
        f"setsid sleep {nap} & exec sleep {nap}",
        f"trap '' TERM; sleep {nap} & while :; do sleep {nap}; done",
        f"sleep {nap} & echo the output is held open",
        f"env -i setsid sleep {nap} & exit 3",
        f"{machine.agents}/{fork_and_go} {nap} & sleep 0.3",
        f"{machine.agents}/{fork_and_go} {nap}; exec sleep {nap}",
        f"(setsid sh -c 'kill -STOP $$; sleep {nap}' & ) ; sleep 0.1",
    ]
    started = time.monotonic()
    runs = [
        machine.run("sh", "-c", script, session=number, timeout_seconds=0.5)
        for number, script in enumerate(scripts, 1)
    ]
    results = await asyncio.gather(*runs)
    assert processes(nap) == []
    assert time.monotonic() - started < 10
    outcomes = [result.outcome for result in results]
    assert outcomes == ["timed_out"] * 3 + ["success", "failed", "success", "timed_out", "success"]
    assert "ended with all its processes" in results[0].reason
    ended = [detail for kind, detail in machine.desk.events if kind == "ended"]
    assert sum(detail["leftovers"] for detail in ended) >= 8
    await asyncio.sleep(1)
    assert processes(nap) == []


async def test_a_process_that_forks_on_and_on_is_caught(machine):
    hop = machine.python(HOP, "hop-on-and-on.py")
    for _ in range(3):
        result = await asyncio.wait_for(machine.run(hop), 20)
        assert result.outcome == "success"
        assert processes("hop-on-and-on") == []


async def test_a_stop_is_polite_first(machine):
    script = "trap 'echo goodbye; exit 7' TERM; echo begun; sleep 60 & wait"
    result = await machine.run("sh", "-c", script, timeout_seconds=0.5)
    assert (result.outcome, result.exit, text_of(result)) == ("timed_out", 7, "begun\ngoodbye\n")


async def test_a_second_cancellation_does_not_wait_for_the_grace(machine, nap):
    # In quotes, so that the mark is seen when the trap is set, and not in the words that set it.
    slept = f"{nap[:2]}''{nap[2:]}"
    session = asyncio.ensure_future(machine.run("sh", "-c", f"trap '' TERM; sleep {slept}; sleep {slept}"))
    await until(lambda: processes(nap))
    session.cancel()
    await asyncio.sleep(0.2)
    assert not session.done()
    before = time.monotonic()
    session.cancel()
    with pytest.raises(RunCancelled):
        await session
    assert time.monotonic() - before < 1.5
    assert processes(nap) == []


DAEMON = """
import asyncio, sys
sys.path[:0] = {path!r}
from swarmd.runners import command
from swarmd.runners.host import Host
from tests.runners.machines import Machine
from pathlib import Path
root = Path({root!r})
host = Host.here(state=f"{{root}}/state", runtime=f"{{root}}/run", agents=f"{{root}}/agents.d")
asyncio.run(Machine(root=root, host=host).run("sh", "-c", {script!r}, sandbox={{"level": {level!r}}}))
"""


def _daemon(machine, script: str, level: str = "auto") -> subprocess.Popen:
    code = DAEMON.format(path=sys.path, root=str(machine.root), script=script, level=level)
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL)


async def test_sessions_end_with_a_daemon_that_is_killed(machine, nap):
    daemon = _daemon(machine, f"setsid sleep {nap} & trap '' TERM; sleep {nap}; sleep {nap}")
    await until(lambda: len(processes(nap)) >= 3)
    daemon.kill()
    daemon.wait()
    await until(lambda: not processes(nap), 5)


async def test_what_outlives_both_daemon_and_supervisor_is_found_by_its_environment(machine, nap):
    daemon = _daemon(machine, f"setsid sleep {nap} & sleep {nap}; true")
    await until(lambda: len(processes(f"sleep\0{nap}")) == 2)
    mine = _supervisors(machine)
    daemon.send_signal(signal.SIGSTOP)  # or one of the two would have time to end the session
    for pid in mine:
        os.kill(pid, signal.SIGKILL)
    daemon.kill()
    daemon.wait()
    assert await asyncio.to_thread(kill_leftovers, f"{machine.root}/run/elsewhere") == []
    assert processes(f"sleep\0{nap}")  # the one in a session of its own is left
    assert await asyncio.to_thread(kill_leftovers, f"{machine.root}/run/s/")
    assert processes(nap) == []


def _supervisors(machine) -> list[int]:
    mine = set(processes(f"{machine.root}/run/s/"))
    return [pid for pid in processes("swarmd.runners.launch") if pid in mine]


async def test_without_a_sandbox_a_session_that_kills_its_supervisor_ends_all_the_same(machine, nap):
    script = f"setsid sleep {nap} & sleep 0.1; kill -KILL $PPID; exec sleep {nap}"
    result = await machine.run("sh", "-c", script, sandbox={"level": "none"})
    assert result.outcome == "failed"
    assert result.reason == "the supervisor of the session was killed, and the session with it"
    assert processes(nap) == []


async def test_without_a_sandbox_a_session_that_stops_its_supervisor_ends_at_its_deadline(machine, nap):
    script = f"sleep {nap} & kill -STOP $PPID; exit 0"
    result = await machine.run("sh", "-c", script, sandbox={"level": "none"}, timeout_seconds=1)
    assert result.outcome == "timed_out"
    assert processes(nap) == []


@needs_scopes
async def test_in_the_sandbox_it_can_do_neither(machine):
    result = await machine.run("sh", "-c", "kill -KILL $PPID || kill -STOP $PPID || exit 5")
    assert result.exit == 5


async def test_a_supervisor_lets_signals_of_a_terminal_pass(machine, nap):
    session = asyncio.ensure_future(machine.run("sh", "-c", f"sleep {nap}; exit 0", timeout_seconds=2))
    await until(lambda: processes(nap))
    assert _supervisors(machine)
    for pid in _supervisors(machine):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, number)
    await asyncio.sleep(0.2)
    assert processes(nap)
    assert (await session).outcome == "timed_out"


def _a_delegated_group() -> str | None:
    with open("/proc/self/mountinfo") as file:
        mount = cgroup._mount(file.read())
    if mount is None:
        return None
    folder = f"{mount}/swarmd-test-{os.getpid()}"
    try:
        os.mkdir(folder)
    except OSError:
        return None
    return folder


async def test_a_control_group_covers_a_double_fault(machine, nap):
    base = _a_delegated_group()
    if base is None:
        pytest.skip("no control group (v2) may be made here")
    machine = machine.with_host(cgroup=base)
    try:
        ended = await machine.run("sh", "-c", "grep -o session-1 /proc/self/cgroup")
        script = f"env -i setsid sleep {nap} & sleep 0.2; kill -KILL $PPID; sleep {nap}"
        result = await machine.run("sh", "-c", script, session=2, sandbox={"level": "none"})
        assert text_of(ended) == "session-1\n"
        assert result.outcome == "failed"
        assert processes(nap) == []
        assert [name for name in os.listdir(base) if name.startswith("session-")] == []
    finally:
        cgroup.end_leftovers(base)
        os.rmdir(base)


def _children() -> set[str]:
    """Every child of this process, dead or alive; other tests of the same run may have some."""
    tasks = Path("/proc/self/task").iterdir()
    return {pid for task in tasks for pid in (task / "children").read_text().split()}


async def test_no_descriptor_and_no_zombie_is_left_behind(machine):
    await machine.run("true")
    before, children = sorted(os.listdir("/proc/self/fd")), _children()
    await asyncio.gather(*(machine.run("sh", "-c", "sleep 9 & true", session=number) for number in range(20)))
    for argv in (["nosuch"], ["sleep", "9"]):
        await machine.run(*argv, timeout_seconds=0.2)
    assert len(os.listdir("/proc/self/fd")) <= len(before)
    assert _children() <= children


async def test_no_descriptors_left_to_open_is_a_failure_and_not_a_mess(machine):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The limit is on numbers: those below the highest that tests before have left free would be room, too.
    highest = max(map(int, os.listdir("/proc/self/fd")))
    fillers = [os.open(os.devnull, os.O_RDONLY)]
    while fillers[-1] < highest:
        fillers.append(os.open(os.devnull, os.O_RDONLY))
    outcomes = set()
    for room in range(2, 24, 3):
        resource.setrlimit(resource.RLIMIT_NOFILE, (fillers[-1] + 1 + room, hard))
        try:
            result = await machine.run("true")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        outcomes.add(result.outcome)
        assert result.outcome == "success" or "Too many open files" in result.reason
    for fd in fillers:
        os.close(fd)
    assert outcomes == {"unavailable", "success"}, (
        "what the machine lacks for a while is no fault of the agent's"
    )
    assert (await machine.run("true")).outcome == "success"
