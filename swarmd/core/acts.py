"""Every act, defined once: name, arguments, who may ask for it, and the sentence that a model reads.

CLI, session socket and a model's tools (core.tools) are made from this table; core.asking turns a call into changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from swarmd.errors import NotFound, Refused

ArgKind = Literal["text", "int", "time", "priority", "agent", "status", "flag", "texts", "files"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arg:
    """One argument of an act. `time` is ISO 8601 text with an offset; an absent `agent` means one's own. `flag`, a
    boolean, `texts`, a list, and `files`, a list of objects with `path` and `text` (or `base64`), are taken by calls
    that are no acts of this table.
    """

    name: str
    kind: ArgKind = "text"
    required: bool = True
    help: str = ""
    choices: tuple[str, ...] = ()
    """The only texts that are taken, where not every one is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """An act that a session or an operator can ask for; `rule` is INTERFACE section 4's line in words."""

    name: str
    args: tuple[Arg, ...]
    sentence: str
    rule: str


_AGENT = Arg(name="agent", kind="agent", required=False, help="whose; left out: one's own")
_OWNER = Arg(name="agent", kind="agent", required=False,
             help="whose; left out: one's own; @NAME: the shared folder of that name")  # fmt: skip
_KEY = Arg(name="key", help="the key's name")
_ID = Arg(name="id", kind="int", help="the handoff's number")
_PRIORITY = Arg(name="priority", kind="priority", required=False, help="low, normal, high or urgent")
_DUE = Arg(name="due", kind="time", required=False, help="when it should be done")
_WRITING = "own, and shared with write = true; except read_only and archive/"
_FILE = Arg(name="file", help="the file's path in the memory folder, as MEMORY.md")


def _text(required: bool, help: str, name: str = "text") -> Arg:
    return Arg(name=name, required=required, help=help)


class OperatorsAct(Refused):
    """An act that only operators have, asked for by somebody else."""


class UnknownCall(NotFound):
    """No act and no read has this name."""


ACTS: Mapping[str, Act] = {
    act.name: act
    for act in (
        Act(name="ctx_set", args=(_AGENT, _KEY, _text(True, "the value", "value")),
            sentence="Set a context key, your own or that of an agent below you; it is shown in every prompt.",
            rule='own, and below unless authority.keys = "own"'),
        Act(name="ctx_unset", args=(_AGENT, _KEY), sentence="Remove a context key.",
            rule='own, and below unless authority.keys = "own"'),
        Act(name="handoff_send",
            args=(Arg(name="to", kind="agent", help="the receiver, or `children`: each agent directly below"),
                  _text(True, "what is to be done"), _PRIORITY, _DUE,
                  Arg(name="expires", kind="time", required=False, help="when it is not worth doing any more"),
                  Arg(name="dedupe", required=False, help="a second send of this key while the first is open: none")),
            sentence="Hand work to an agent below you.", rule="only to an agent below"),
        Act(name="handoff_ack", args=(_ID,), sentence="Say that you have taken up a handoff.",
            rule="only its receiver"),
        Act(name="handoff_complete", args=(_ID, _text(False, "the result, for the sender", "reply")),
            sentence="Say that a handoff is done, with its result.", rule="only its receiver"),
        Act(name="handoff_decline", args=(_ID, _text(True, "why not", "reply")),
            sentence="Say that you will not do a handoff, and why.", rule="only its receiver"),
        Act(name="handoff_ask", args=(_ID, _text(True, "the question")),
            sentence="Ask the sender; the handoff waits until it is answered.", rule="only its receiver"),
        Act(name="handoff_answer", args=(_ID, _text(True, "the answer")),
            sentence="Answer a question about a handoff that you sent.",
            rule="its sender, or an agent above the sender"),
        Act(name="handoff_cancel", args=(_ID,), sentence="Take back a handoff that you sent.",
            rule="its sender, or an agent above the sender"),
        Act(name="handoff_change", args=(_ID, _PRIORITY, _DUE), sentence="Change a handoff's priority or due time.",
            rule="its sender, or an agent above the sender"),
        Act(name="handoff_requeue", args=(_ID,), sentence="Make a handoff that has ended or got stuck open again.",
            rule="operators only"),
        Act(name="memory_write", args=(_OWNER, _FILE, _text(True, "the whole new text")),
            sentence="Write a file of your memory.", rule=_WRITING),
        Act(name="memory_append", args=(_OWNER, _FILE, _text(True, "what to add")),
            sentence="Add text at the end of a file of your memory.", rule=_WRITING),
        Act(name="memory_delete", args=(_OWNER, _FILE), sentence="Remove a file of your memory.",
            rule=_WRITING),
        Act(name="report", args=(_text(True, "what your parent should know"),),
            sentence="Tell the agent above you something; it is data to it, not a command.", rule="to its parent"),
    )
}  # fmt: skip

OPERATORS_ONLY = frozenset({"handoff_requeue"})
"""Acts of this table that no agent has."""

SEARCH_KINDS = ("memory", "archive", "key", "handoff", "transcript", "output")
"""What is searched."""
SEARCHES = frozenset({"memory_search", "session_search"})
"""Reads of the search index, which who may write it brings up to date first, and which take longer than a loop has."""
