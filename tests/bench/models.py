"""h. Sessions of models, all at once in one daemon, against the scripted server; a call's way to the desk and back.

The floor is the same conversation by the SDK alone, in one process: no tree, no store, nothing kept.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

from tests.bench.scale import Scale
from tests.bench.swarm import environment, served, write_agents
from tests.bench.table import Series, facts, show
from tests.model_server import answers as say
from tests.model_server.scripts import turns
from tests.model_server.server import ModelServer

TICK = os.sysconf("SC_CLK_TCK")
MODEL = "claude-sonnet-5-5"
THINKS_SECONDS = 2.0
"""The model takes its time for its first answer, so that all sessions are there at once."""
CALLS = 50
PATIENCE_SECONDS = 600.0


def run(scale: Scale) -> None:
    root = scale.folder / "models"
    with ModelServer(_conversation) as server:
        alone = _alone(server.url, scale.models)
        found = _sessions(root, server, scale.models)
        trips = _round_trips(root, server)
    show("h. a call of the model's, to the desk and back", [trips])
    facts(f"h. {scale.models} sessions of models at once", [*found, *alone])


def _conversation(body):
    if "50 calls" in json.dumps(body.get("system", "")):
        return turns(say.tools(*[say.call("ctx_set", key=f"k{n}", value="v") for n in range(CALLS)]))(body)
    return turns(
        say.tools(say.call("ctx_set", key="k", value="v"), text="let me see").slow(before=THINKS_SECONDS)
    )(body)


def _runner(url: str) -> str:
    return f'{{ kind = "anthropic", model = "{MODEL}", base_url = "{url}" }}'


def _sessions(root: Path, server: ModelServer, count: int) -> list[tuple[str, str]]:
    """All agents are due at one moment."""
    write_agents(root, count, runner=_runner(server.url), sessions=count)
    database = root / "state" / "swarmd.db"
    command = [sys.executable, "-m", "swarmd", "serve"]
    env = {**environment(root), "ANTHROPIC_API_KEY": "sk-bench"}
    with served(command, "ready:", env) as process:
        at = (datetime.now(UTC) + timedelta(seconds=2 + count / 50)).isoformat(timespec="seconds")
        for path in (root / "agents.d").glob("*.toml"):
            path.write_text(f'{path.read_text()}schedule = {{ at = "{at}", catch_up = "last" }}\n')
        before = _usage(process.pid)
        begun = _wait(lambda: server.most_open >= min(count, 2), None)
        _wait(lambda: _ended(database) >= count, process)
        took = time.monotonic() - begun
        daemon, (worker,) = _usage(process.pid), _workers(process.pid)
        ran = _usage(worker)
    outcomes = _rows(database, "SELECT outcome, count(*) FROM sessions GROUP BY 1")
    return [
        ("outcomes", ", ".join(f"{n} {outcome}" for outcome, n in outcomes)),
        ("answers at once, at most", str(server.most_open)),
        ("from the first request to the last session's end", f"{took:.1f} s, of which the model thinks {THINKS_SECONDS:g} s"),
        ("CPU a session: daemon", f"{(daemon[0] - before[0]) / count * 1e3:.1f} ms"),
        ("CPU a session: worker", f"{ran[0] / count * 1e3:.1f} ms (its start included)"),
        ("memory of the daemon at most", f"{daemon[1]:.0f} MiB ({before[1]:.0f} MiB when idle)"),
        ("memory of the worker at most", f"{ran[1]:.0f} MiB"),
    ]  # fmt: skip


def _round_trips(root: Path, server: ModelServer) -> Series:
    """A model that makes 50 calls in one answer: the time from one result to the next, as the transcript has it."""
    (root / "agents.d" / "caller.toml").write_text(
        f'system_prompt = "Make 50 calls."\nrunner = {_runner(server.url)}\n'
    )
    env = {**environment(root), "ANTHROPIC_API_KEY": "sk-bench"}
    subprocess.run(
        [sys.executable, "-m", "swarmd", "run", "caller"], env=env, cwd=root, check=True, capture_output=True
    )
    (id,) = _rows(root / "state" / "swarmd.db", "SELECT max(id) FROM sessions")[0]
    lines = (root / "state" / "sessions" / str(id) / "transcript.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    times = [datetime.fromisoformat(e["at"]) for e in events if e["kind"] == "tool_result"]
    assert len(times) == CALLS, f"{len(times)} results in {[e['kind'] for e in events]}"
    seconds = [(later - sooner).total_seconds() for sooner, later in pairwise(times)]
    return Series(f"a ctx_set, {CALLS} in a row", seconds)


# -- the floor ----------------------------------------------------------------------------------------------


def _alone(url: str, count: int) -> list[tuple[str, str]]:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.bench.models", url, str(count)], capture_output=True, text=True, check=True,
        cwd=Path(__file__).resolve().parents[2],
    )  # fmt: skip
    took, cpu, memory = json.loads(ran.stdout)
    return [
        ("the SDK alone: time", f"{took:.1f} s"),
        ("the SDK alone: CPU a conversation", f"{cpu / count * 1e3:.1f} ms (its start included)"),
        ("the SDK alone: memory at most", f"{memory:.0f} MiB"),
    ]


async def _converse_all(url: str, count: int) -> None:
    import anthropic

    client = anthropic.AsyncAnthropic(api_key="sk-bench", base_url=url, max_retries=0)
    tool = {"name": "ctx_set", "input_schema": {"type": "object"}, "description": "Set a key."}

    async def one() -> None:
        messages = [{"role": "user", "content": "go on"}]
        while True:
            async with client.messages.stream(
                model=MODEL, max_tokens=1000, messages=messages, tools=[tool]
            ) as stream:
                answer = await stream.get_final_message()
            if answer.stop_reason != "tool_use":
                return
            messages.append({"role": "assistant", "content": answer.content})
            results = [{"type": "tool_result", "tool_use_id": b.id, "content": "{}"} for b in answer.content
                       if b.type == "tool_use"]  # fmt: skip
            messages.append({"role": "user", "content": results})

    await asyncio.gather(*(one() for _ in range(count)))


def _main(url: str, count: int) -> None:
    begun = time.monotonic()
    asyncio.run(_converse_all(url, count))
    took, used = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps([took, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))


# -- looking ------------------------------------------------------------------------------------------------


def _usage(pid: int) -> tuple[float, float]:
    """Seconds of CPU and MiB of memory at most of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return (int(fields[11]) + int(fields[12])) / TICK, peak / 1024


def _workers(daemon: int) -> list[int]:
    children = Path(f"/proc/{daemon}/task/{daemon}/children").read_text().split()
    return [int(pid) for pid in children if b"worker\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def _ended(database: Path) -> int:
    return int(_rows(database, "SELECT count(*) FROM sessions WHERE state = 'ended'")[0][0])


def _rows(database: Path, sql: str) -> list[tuple]:
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def _wait(holds, process) -> float:
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < PATIENCE_SECONDS, "nothing happens any more"
        assert process is None or process.poll() is None, "the daemon has ended"
        time.sleep(0.02)
    return time.monotonic()


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
