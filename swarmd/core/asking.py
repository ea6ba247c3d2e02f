"""From a call to changes: the arguments are checked against the table of acts, then become core.changes values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, cast

from swarmd.core import authority, instants
from swarmd.core.acts import ACTS, Arg
from swarmd.core.changes import (
    AppendMemory,
    Change,
    ChangeHandoff,
    MoveHandoff,
    Report,
    SendHandoff,
    SetKey,
    UnsetKey,
    WriteMemory,
)
from swarmd.core.handoffs import PRIORITIES, Move, Priority
from swarmd.core.world import Actor, World
from swarmd.errors import BadInput, NotFound

_TEXT_OF: Mapping[str, str] = {"handoff_complete": "reply", "handoff_decline": "reply", "handoff_ask": "text",
                               "handoff_answer": "text"}  # fmt: skip


def checked(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """The call's arguments as the act wants them. Raises BadInput naming the first that is unknown, missing or of
    a wrong kind, NotFound for an unknown act.
    """
    act = ACTS.get(name)
    if act is None:
        raise NotFound(f"there is no act {name!r}")
    known = {arg.name for arg in act.args}
    for given in args:
        if given not in known:
            raise BadInput(
                f"{name}: no argument is named {given!r}; it takes {', '.join(sorted(known)) or 'none'}"
            )
    values: dict[str, Any] = {}
    for arg in act.args:
        value = args.get(arg.name)
        if value is None:
            if arg.required:
                raise BadInput(f"{name}: {arg.name} is missing: {arg.help}")
            continue
        values[arg.name] = _value(name, arg, value)
    return values


def _value(name: str, arg: Arg, value: Any) -> Any:
    where = f"{name}: {arg.name}"
    if arg.kind == "int":
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**62:
            raise BadInput(f"{where}: a whole number above 0 is expected, not {value!r:.60}")
        return value
    if not isinstance(value, str):
        raise BadInput(f"{where}: text is expected, not {type(value).__name__}")
    if arg.kind == "priority" and value not in PRIORITIES:
        raise BadInput(f"{where}: {value[:40]!r} is none of {', '.join(PRIORITIES)}")
    if arg.kind == "time":
        return _time(where, value)
    return value


def _time(where: str, value: str) -> datetime:
    try:
        moment = instants.from_text(value)
    except ValueError:
        raise BadInput(f"{where}: {value[:40]!r} is no time; write it as 2026-12-24T18:00+01:00") from None
    if moment.tzinfo is None:
        raise BadInput(f"{where}: {value[:40]!r} has no offset; write it as 2026-12-24T18:00+01:00")
    return moment


def build(
    name: str,
    args: Mapping[str, Any],
    actor: Actor,
    world: World,
    *,
    reserve: Callable[[], int],
    seen: Mapping[tuple[str, str], int] | None = None,
    made_from: Mapping[tuple[str, str], tuple[int, str | None]] | None = None,
) -> list[Change]:
    """The changes that a call means (several only for `--to children`). `reserve` gives a new handoff's id;
    `seen` the version at which a session has read a key; None: an operator, who overwrites whatever is there.
    `made_from` says of memory files what a session's text is made from: revision, and digest where it is none; of a
    file that is not in it, the head.

    Raises BadInput and NotFound as `checked` does.
    """
    values = checked(name, args)
    if name.startswith("ctx_"):
        agent = _own(values, actor, name)
        version = None if seen is None else _seen(agent, values["key"], world, seen)
        if name == "ctx_set":
            return [SetKey(agent=agent, key=values["key"], value=values["value"], seen=version)]
        return [UnsetKey(agent=agent, key=values["key"], seen=version)]
    if name == "handoff_send":
        return _sends(values, actor, world, reserve)
    if name == "handoff_change":
        if "priority" not in values and "due" not in values:
            raise BadInput("nothing to change: give a priority or a due time")
        priority = cast(Priority | None, values.get("priority"))
        return [ChangeHandoff(id=values["id"], priority=priority, due=values.get("due"))]
    if name.startswith("handoff_"):
        text = values.get(_TEXT_OF.get(name, ""), "")
        return [MoveHandoff(id=values["id"], move=Move(name.removeprefix("handoff_")), text=text)]
    if name.startswith("memory_"):
        return [_memory(name, values, actor, world, made_from or {})]
    return [Report(text=values["text"])]


def _own(values: Mapping[str, Any], actor: Actor, name: str) -> str:
    agent = values.get("agent") or actor.agent
    if agent is None:
        raise BadInput(f"{name}: name the agent")
    return str(agent)


def _seen(agent: str, key: str, world: World, seen: Mapping[tuple[str, str], int]) -> int:
    """A key that the session has not read counts as read at the moment of asking."""
    known = seen.get((agent, key))
    if known is not None:
        return known
    row = world.key(agent, key)
    return 0 if row is None else row.version


def _sends(values: Mapping[str, Any], actor: Actor, world: World, reserve: Callable[[], int]) -> list[Change]:
    receivers = [values["to"]]
    if values["to"] == "children":
        receivers = world.tree.children(actor.agent)
        if not receivers:
            raise NotFound(f"{actor.name} has no agents directly below it")
    rest = {k: v for k, v in values.items() if k != "to"}
    return [SendHandoff(id=reserve(), to=receiver, **rest) for receiver in receivers]


def _memory(
    name: str,
    values: Mapping[str, Any],
    actor: Actor,
    world: World,
    made_from: Mapping[tuple[str, str], tuple[int, str | None]],
) -> Change:
    agent = str(values.get("agent") or actor.owner or _own(values, actor, name))
    if name == "memory_append":
        return AppendMemory(agent=agent, path=values["file"], text=values["text"])
    head = world.document(agent, values["file"])
    base, base_hash = made_from.get((agent, values["file"]), (head.rev if head is not None else 0, None))
    if name == "memory_delete":
        deleted = WriteMemory(agent=agent, path=values["file"], data=None, base=base, base_hash=base_hash)
        # Whoever may not write there is refused, and does not learn by it whether there is such a file.
        is_gone = head is None or head.data is None
        if is_gone and authority.refusal(actor, deleted, world) is None:
            raise NotFound(f"{agent} has no memory file {values['file'][:100]!r}")
        return deleted
    try:
        data = values["text"].encode("utf-8")
    except UnicodeEncodeError:
        raise BadInput(f"{name}: the text must be UTF-8; it holds bytes that are not") from None
    return WriteMemory(agent=agent, path=values["file"], data=data, base=base, base_hash=base_hash)
