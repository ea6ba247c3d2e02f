"""The reads by name, and which of them a session may ask for. It imports nothing heavy: every command loads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from swarmd.core.world import Actor, World
from swarmd.errors import NotFound, Refused
from swarmd.service import agent_reads, attention, overview, state_reads
from swarmd.service.view import JSON, Args, View

Read = Callable[[View, Args], JSON]


def _prompt(view: View, args: Args) -> JSON:
    # Imported when asked for: it counts tokens.
    from swarmd.service.prompting import prompt

    return prompt(view, args)


READS: Mapping[str, Read] = {
    "status": overview.status,
    "doctor": overview.doctor,
    "verify": overview.verify,
    "attention": attention.attention,
    "agent_list": agent_reads.agent_list,
    "agent_tree": agent_reads.agent_tree,
    "agent_show": agent_reads.agent_show,
    "agent_history": agent_reads.agent_history,
    "why": agent_reads.why,
    "log": agent_reads.log,
    "next": agent_reads.next_fires,
    "prompt": _prompt,
    "session_list": agent_reads.session_list,
    "session_show": agent_reads.session_show,
    "session_log": agent_reads.session_log,
    "session_trace": agent_reads.session_trace,
    "ctx_list": state_reads.ctx_list,
    "ctx_get": state_reads.ctx_get,
    "ctx_history": state_reads.ctx_history,
    "handoff_list": state_reads.handoff_list,
    "handoff_show": state_reads.handoff_show,
    "report_list": state_reads.report_list,
    "memory_list": state_reads.memory_list,
    "memory_show": state_reads.memory_show,
    "memory_history": state_reads.memory_history,
    "memory_diff": state_reads.memory_diff,
    "memory_blame": state_reads.memory_blame,
    "memory_conflicts": state_reads.memory_conflicts,
}

OPERATORS_ONLY = frozenset({"status", "doctor", "verify", "attention", "session_trace"})


OPERATORS_ACTS = frozenset(
    {
        "pause", "resume", "run", "session_cancel", "session_apply", "session_discard", "session_revert",
        "attention_ack", "reload", "rename", "forget", "memory_restore", "memory_take",
    }
)  # fmt: skip
"""The names of service.operating.ACTS, which is not imported here: a session that asks for one is refused."""


def read(view: View, name: str, args: Mapping[str, Any]) -> JSON:
    """The document of a read. Raises SwarmdError."""
    found = READS.get(name)
    if name in OPERATORS_ACTS:
        raise Refused(f"{name.replace('_', ' ')} is for operators only")
    if found is None:
        raise NotFound(f"there is no call {name!r}")
    if name in OPERATORS_ONLY and view.actor.agent is not None:
        raise Refused(
            f"{name.replace('_', ' ')} is for operators; an agent sees itself and the agents below it"
        )
    return found(view, args)


def session_read(places: Any, connection: Any) -> Callable[[Actor, World, str, Args], JSON]:
    """The reads as a session's desk asks for them, on the world as the session sees it."""

    def ask(actor: Actor, world: World, name: str, args: Args) -> JSON:
        return read(View(connection=connection, world=world, actor=actor, places=places), name, args)

    return ask
