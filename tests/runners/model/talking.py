"""Sessions of the model loop in this process: the real SDK over real HTTP against the scripted server, and a small desk."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from swarmd.core.wire import Reply
from swarmd.runners.anthropic import Options
from swarmd.runners.model.job import Done, Job, ProgramsJob
from swarmd.runners.model.running import run_session
from swarmd.runners.model.shared import SharedModels
from swarmd.runners.sandbox import Policy

SYSTEM = "You are studio.\n\nrules"
USER = "memory\nfiles\nkeys and the rest\n"
ENDS = (7, 13, len(USER))


@dataclass
class SmallDesk:
    """Keeps keys and memory files, and every event; refuses what is for an agent called `above`."""

    keys: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    async def ask(self, call: str, args: Mapping[str, Any]) -> Reply:
        self.calls.append((call, dict(args)))
        match call:
            case "ctx_set":
                self.keys[args["key"]] = args["value"]
            case "memory_list":
                return Reply(value={"items": [{"file": f, "bytes": len(t)} for f, t in self.files.items()]})
            case "memory_show":
                return Reply(value={"file": args["file"], "text": self.files[args["file"]]})
            case "memory_write":
                self.files[args["file"]] = args["text"]
            case "memory_delete":
                del self.files[args["file"]]
            case "handoff_send" if args.get("to") == "above":
                return Reply(error="above is not below studio", kind="refused")
        return Reply(value={"staged": True})

    def event(self, kind: str, detail: Mapping[str, Any]) -> None:
        self.events.append({"kind": kind, **detail})

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["kind"] == kind]


def job(server, *, seconds: float = 30.0, tokens: int | None = None, workdir: str = "/tmp", session: int = 1,
        user: str = USER, ends=ENDS, key: str = "sk-test", **options) -> Job:  # fmt: skip
    chosen = {"model": "claude-sonnet-5-5", "base_url": server.url, **options}
    return Job(
        session=session, agent="studio", system=SYSTEM, user=user, user_ends=tuple(ends),
        options=Options.model_validate(chosen).model_dump(mode="json"), key=key, keys={},
        timeout_seconds=seconds, token_limit=tokens, dated="2026-11-30T12:00+00:00",
        programs=ProgramsJob(
            session=session, workdir=str(workdir), env={"PATH": "/usr/bin:/bin", "HOME": str(workdir)},
            policy=Policy(level="none"), marker="swarmd-test-mark", secrets=("hunter2-secret",),
            python=sys.executable,
        ),
    )  # fmt: skip


async def converse(
    server, desk: SmallDesk | None = None, *, shared: SharedModels | None = None, **how
) -> Done:
    """One session to its end."""
    mine = shared or SharedModels()
    try:
        return await run_session(job(server, **how), desk or SmallDesk(), mine)
    finally:
        if shared is None:
            await mine.close()
