"""Workers: sessions in a process of their own, which may die, stall or be told to stop without harm to the daemon."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

import pytest

from swarmd.core.wire import Reply
from swarmd.runners import workers as module
from swarmd.runners.host import Host
from swarmd.runners.workers import WorkerLost, Workers
from tests.daemon.kit import until
from tests.model_server import answers as say
from tests.model_server.answers import Gate
from tests.model_server.server import ModelServer
from tests.runners.model.talking import SmallDesk, job


class Asked:
    """What of a desk the pool needs."""

    def __init__(self) -> None:
        self.desk = SmallDesk()

    async def answer(self, message) -> Reply:
        return await self.desk.ask(message.call, message.args)

    def event(self, kind, detail) -> None:
        self.desk.event(kind, detail)


@pytest.fixture
async def pool(tmp_path):
    host = Host.here(state=str(tmp_path), runtime=str(tmp_path), agents=str(tmp_path))
    workers = Workers(host)
    yield workers
    await workers.close()


def run(pool, server, asked, **how):
    return asyncio.ensure_future(pool.run(job(server, **how), asked.answer, asked.event))


def pid(pool) -> int:
    return pool._workers[0]._process.pid


async def test_sessions_run_side_by_side_in_one_process_each_at_its_own_desk(pool):
    desks = [Asked() for _ in range(20)]
    with ModelServer(lambda body: say.tools(say.call("ctx_set", key="k", value="v"))
                     if len(body["messages"]) == 1 else "done") as server:  # fmt: skip
        done = await asyncio.gather(
            *(run(pool, server, asked, session=n) for n, asked in enumerate(desks, 1))
        )
        assert server.complaints == []
    assert {one.outcome for one in done} == {"success"}
    assert all(asked.desk.keys == {"k": "v"} for asked in desks)
    assert all(len(asked.desk.of("result")) == 1 for asked in desks)
    assert len({id(worker) for worker in pool._workers}) == 1


async def test_a_worker_has_nothing_of_the_daemons_environment_that_names_a_key(pool, monkeypatch):
    pool._host.environ["ANTHROPIC_API_KEY"] = "sk-ant-secret"  # type: ignore[index]
    with ModelServer() as server:
        await run(pool, server, Asked())
        names = _environment(pid(pool))
    assert "PATH" in names
    assert not [name for name in names if "ANTHROPIC" in name or "KEY" in name]


def _environment(number: int) -> list[str]:
    with open(f"/proc/{number}/environ", "rb") as file:
        return [entry.split(b"=")[0].decode() for entry in file.read().split(b"\0") if entry]


async def test_a_worker_that_is_killed_loses_its_sessions_and_the_next_one_gets_a_new_worker(pool):
    gate = Gate()
    with ModelServer(scripts={"slow": say.text("late").behind(gate), "fast": "ok"}) as server:
        lost = [run(pool, server, Asked(), model="slow", session=n) for n in (1, 2)]
        await asyncio.to_thread(server.wait, 2)
        first = pid(pool)
        os.kill(first, signal.SIGKILL)
        for waiting in lost:
            with pytest.raises(WorkerLost, match="killed by signal 9"):
                await waiting
        assert (await run(pool, server, Asked(), model="fast", session=3)).outcome == "success"
        assert pid(pool) != first
        gate.open()


async def test_a_worker_that_stands_still_is_given_up(pool, monkeypatch):
    monkeypatch.setattr(module, "PING_SECONDS", 0.1)
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.6)
    gate = Gate()
    with ModelServer(say.text("late").behind(gate)) as server:
        waiting = run(pool, server, Asked())
        await asyncio.to_thread(server.wait, 1)
        os.kill(pid(pool), signal.SIGSTOP)
        with pytest.raises(WorkerLost, match=r"it has not answered for 0\.6 seconds"):
            await waiting
        gate.open()


async def test_a_session_that_outlives_its_time_brings_its_worker_down(pool, monkeypatch):
    monkeypatch.setattr(module, "CANCEL_SECONDS", 0.5)
    monkeypatch.setattr(module, "PING_SECONDS", 60.0)
    gate = Gate()
    with ModelServer(say.text("late").behind(gate)) as server:
        waiting = run(pool, server, Asked(), seconds=1.5)
        await asyncio.to_thread(server.wait, 1)
        os.kill(pid(pool), signal.SIGSTOP)
        with pytest.raises(WorkerLost, match="it did not end a session in time"):
            await waiting
        gate.open()


async def test_a_cancelled_session_ends_with_what_it_has_started_and_the_others_go_on(pool, tmp_path):
    gate, asked = Gate(), Asked()
    sleeping = say.tools(say.call("bash", command=f"touch {tmp_path}/begun; sleep 600"))
    with ModelServer(scripts={"sleepy": sleeping, "other": say.text("there").behind(gate)}) as server:
        waiting = run(pool, server, asked, model="sleepy", tools=["bash"], workdir=tmp_path)
        other = run(pool, server, Asked(), model="other", session=2)
        await until((tmp_path / "begun").exists)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert _sleepers() == []
        gate.open()
        assert (await other).outcome == "success"


def _sleepers() -> list[str]:
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{number}/cmdline", "rb") as file:
            if file.read() == b"sleep\x00600\x00":
                found.append(number)
    return found


async def test_the_worker_ends_when_its_daemon_does(tmp_path):
    host = Host.here(state=str(tmp_path), runtime=str(tmp_path), agents=str(tmp_path))
    workers = Workers(host)
    with ModelServer() as server:
        await run(workers, server, Asked())
    number = pid(workers)
    await workers.close()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


async def test_a_worker_that_cannot_start_says_so(tmp_path):
    host = Host.here(state=str(tmp_path), runtime=str(tmp_path), agents=str(tmp_path))
    workers = Workers(Host(**{**{f: getattr(host, f) for f in host.__slots__}, "python": "/bin/false"}))
    with ModelServer() as server, pytest.raises(WorkerLost, match="did not start \\(exit status 1\\)"):
        await run(workers, server, Asked())
    await workers.close()
