"""The reads by name, and which of them a session may ask for. It imports nothing heavy: every command loads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from swarmd.core.acts import OperatorsAct, UnknownCall
from swarmd.errors import Refused
from swarmd.service.view import JSON, Args, View

if TYPE_CHECKING:
    from swarmd.core.world import Actor, World

Read = Callable[[View, Args], JSON]

_MODULES: Mapping[str, tuple[str, ...]] = {
    "overview": ("status", "doctor", "verify"),
    "attention": ("attention",),
    "approval_reads": ("approval_list", "approval_show"),
    "agent_reads": ("agent_list", "agent_tree", "agent_show", "why", "next"),
    "agent_past": ("agent_history",),
    "session_reads": ("session_list", "session_show", "session_log", "log"),
    "tracing": ("session_trace",),
    "prompting": ("prompt",),
    "usage_reads": ("usage",),
    "state_reads": ("ctx_list", "ctx_get", "ctx_history", "handoff_list", "handoff_show", "report_list"),
    "memory_moving": ("memory_export",),
    "search_reads": ("memory_search", "session_search"),
    "memory_reads": (
        "memory_list", "memory_show", "memory_history", "memory_diff", "memory_blame", "memory_conflicts",
        "memory_subjects", "memory_shared",
    ),
    "skill_reads": ("skill_list", "skill_show"),
}  # fmt: skip
READS: Mapping[str, str] = {name: module for module, names in _MODULES.items() for name in names}
"""Every read, and the module of this package that has it: a command loads only what it asks for."""

OPERATORS_ONLY = frozenset({
    "status", "doctor", "verify", "attention", "session_trace", "memory_export", "memory_subjects", "memory_shared",
    "approval_list", "approval_show",
})  # fmt: skip


OPERATORS_ACTS = frozenset(
    {
        "pause", "resume", "run", "session_cancel", "session_apply", "session_discard", "session_revert",
        "attention_ack", "reload", "rename", "forget", "forget_subject", "memory_restore", "memory_take",
        "memory_import", "memory_compact", "approval_approve", "approval_deny", "session_quarantine",
        "session_unquarantine",
    }
)  # fmt: skip
"""The names of service.operating.ACTS, which is not imported here: a session that asks for one is refused."""


def read(view: View, name: str, args: Mapping[str, Any]) -> JSON:
    """The document of a read. Raises SwarmdError."""
    if name in OPERATORS_ACTS:
        raise OperatorsAct(f"{name.replace('_', ' ')} is for operators only")
    if name not in READS:
        raise UnknownCall(f"there is no call {name!r}")
    if name in OPERATORS_ONLY and view.actor.agent is not None:
        raise Refused(
            f"{name.replace('_', ' ')} is for operators; an agent sees itself and the agents below it"
        )
    found: Read = getattr(import_module(f"swarmd.service.{READS[name]}"), name)
    return found(view, args)


def session_read(places: Any, connection: Any) -> Callable[..., JSON]:
    """The reads as a session's desk asks for them, on the world as the session sees it; `own` is the connection of who
    asks from another thread.
    """

    def ask(actor: Actor, world: World, name: str, args: Args, own: Any = None) -> JSON:
        return read(View(connection=own or connection, world=world, actor=actor, places=places), name, args)

    return ask
