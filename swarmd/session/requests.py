"""From an agent's definition and prompt to the request that its runner is given."""

from __future__ import annotations

from collections.abc import Mapping

from swarmd.core.agent import Agent
from swarmd.core.snapshot import Prompt
from swarmd.core.wire import JSON, MemoryTree, Request

EMPTY = Prompt(system="", user="", tokens=0, sections=())


def request_of(
    agent: Agent,
    *,
    session: int = 0,
    epoch: int = 0,
    attempt: int = 1,
    trigger: str = "manual",
    prompt: Prompt = EMPTY,
    memory: MemoryTree = MemoryTree(),  # noqa: B008 - frozen
    archived: int = 0,
    revisions: Mapping[str, Mapping[str, JSON]] = {},
    token: str = "",
    secrets: tuple[str, ...] = (),
    subject: str | None = None,
) -> Request:
    """The request of one session; with nothing but the agent, that of a session which will never be (for `doctor` and
    `--dry-run`).
    """
    box = agent.sandbox
    return Request(
        agent=agent.name, session=session, epoch=epoch, attempt=attempt, trigger=trigger, system=prompt.system,
        user=prompt.user, user_ends=prompt.ends, memory=memory, read_only=(*agent.memory.read_only, "archive/**"),
        held=agent.memory.approval, keeps_memory=agent.memory.persistent, archived=archived,
        revisions=revisions,
        options=agent.runner_options, folder=agent.folder, timezone=agent.when.timezone,
        sandbox={"level": box.level, "write": list(box.write), "home": box.home, "network": box.network},
        timeout_seconds=agent.limits.timeout_seconds, token_limit=agent.limits.tokens_per_session, token=token,
        secrets=secrets, subject=subject,
    )  # fmt: skip
