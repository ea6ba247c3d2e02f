"""Takes memory from elsewhere into an agent's folder: all of it in one transaction, or none."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from swarmd.core.changes import Change, WriteMemory
from swarmd.core.interaction_log import HEADING, Block, appended_under, blocks, moment, section
from swarmd.core.judge import fold
from swarmd.core.memory import FIRST_FILE, ended_as
from swarmd.core.merge import added, keys_of, lines_of, merge
from swarmd.core.staging import Folded, MemoryWritten
from swarmd.core.takeover import too_much
from swarmd.core.world import Actor, World
from swarmd.errors import KINDS, BadInput, Refused
from swarmd.service.caller import Operator
from swarmd.service.view import JSON, Args
from swarmd.store import commit as committing
from swarmd.store.connections import Connection
from swarmd.store.world import SqlWorld

if TYPE_CHECKING:
    from swarmd.service.acting import Service

EXISTING = ("refuse", "merge", "replace")
"""What becomes of files that are there already and hold something else."""
NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file that is to come; `log`: it is an interaction log and nothing else."""

    path: str
    data: bytes
    log: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is to be done with one file; nothing where it stands there already."""

    file: File
    what: str
    change: WriteMemory | None = None


def memory_import(service: Service, caller: Operator, args: Args) -> JSON:
    """Write these files into an agent's memory. `existing` says what becomes of those that are there; with the mode
    `dry_run` nothing is written.
    """
    view = service.view(caller)
    agent, files = view.memory_of(args), _files(args.get("files"))
    existing = args.get("existing", "refuse")
    if existing not in EXISTING:
        raise BadInput(f"existing: {existing!r:.40} is none of {', '.join(EXISTING)}")
    actor = Actor(by=caller.by)
    if args.get("mode") == "dry_run":
        steps = _steps(view.world, agent, files, existing)
        folded = fold(actor, _changes(steps), view.world, asked=True)
        _must_stand(folded)
        return _document(agent, steps, folded, saved=False)
    service.store.folders.settle(agent)

    def work(connection: Connection) -> tuple[list[Step], committing.Committed]:
        now = service.now()
        steps = _steps(SqlWorld(connection, now), agent, files, existing)
        done = committing.commit(connection, actor, _changes(steps), now, asked=True, act="memory_import",
                                 target=agent, always_told=True, how="import")  # fmt: skip
        done.must_stand()
        return steps, done

    steps, done = service.store.writer.do(work)
    service.publish(done.memory_of)
    service.control.wake()
    return _document(agent, steps, done.folded, saved=True)


def _files(given: Any) -> list[File]:
    """The call's files. Raises BadInput."""
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise BadInput("files: a list of objects is expected")
    found: dict[str, File] = {}
    for each in given:
        path, data = each.get("path"), _data(each)
        if not isinstance(path, str) or data is None:
            raise BadInput("files: each needs path, and text or base64")
        if path in found:
            raise BadInput(f"files: {path[:100]!r} is there twice")
        found[path] = File(path=path, data=data, log=bool(each.get("log")))
    if problem := too_much(len(found), sum(len(file.data) for file in found.values())):
        raise BadInput(f"files: {problem}")
    return list(found.values())


def _data(file: Mapping[str, Any]) -> bytes | None:
    """The bytes of a file of the call; None where it has none that can be read."""
    raw, text = file.get("base64"), file.get("text")
    try:
        if isinstance(raw, str):
            return base64.b64decode(raw, validate=True)
        return text.encode("utf-8") if isinstance(text, str) else None
    except (binascii.Error, ValueError):
        return None


def _steps(world: World, agent: str, files: Sequence[File], existing: str) -> list[Step]:
    """What is to be done. Raises Refused where files are there already and nobody has said what becomes of them."""
    steps, there = [], []
    for file in files:
        head = world.document(agent, file.path)
        old = head.data if head is not None else None
        rev = head.rev if head is not None else 0
        data, what = file.data, "new" if old is None else "replaced"
        if old is not None and old != file.data and existing != "replace":
            there.append(file.path)
            data, what = (_both(file, old) if existing == "merge" else data), "merged"
        if data == old:
            steps.append(Step(file=file, what="same"))
        else:
            steps.append(
                Step(
                    file=file, what=what, change=WriteMemory(agent=agent, path=file.path, data=data, base=rev)
                )
            )
    if there and existing == "refuse":
        named = ", ".join(there[:NAMED]) + (f" and {len(there) - NAMED} more" if len(there) > NAMED else "")
        raise Refused(
            f"{agent} has {named} already, with another text; --merge keeps both texts, --replace the one that comes "
            "(the old one stays in history)"
        )
    return steps


def _both(file: File, old: bytes) -> bytes:
    """Both texts: a log goes under the log that is there, the rest behind the rest. What stands there already comes
    once, whatever its line ends are and whether the text has a byte order mark; what is added is as the file is.
    """
    if not old:
        return file.data
    there = old.removeprefix(BOM_UTF8)
    coming = ended_as(file.data.removeprefix(BOM_UTF8), there)
    return old[: len(old) - len(there)] + _merged(file, coming, there)


def _merged(file: File, coming: bytes, there: bytes) -> bytes:
    new, known = (data.decode("utf-8", "surrogateescape") for data in (coming, there))
    its, place = (section(text) if file.path == FIRST_FILE else None for text in (new, known))
    if place is None and (its is None or not file.log):
        return _beside(coming, there, file)
    start, end = place or (len(known), len(known))
    notes, log, after = _bytes(known[:start]), known[start:end], _bytes(known[end:])
    first, last = (coming, b"") if its is None else (_bytes(new[: its[0]]), _bytes(new[its[1] :]))
    if not file.log:
        both = notes + after
        if added(first, both):
            notes = _beside(first, notes, file)
        if added(last, both) and after.strip():
            after = _beside(last, after, file)
        elif added(last, both):
            notes = _beside(last, notes, file)
    gap = b"" if not log or notes.endswith(b"\n") or not notes else ended_as(b"\n", there)
    earlier, latest = log, b""
    if its:
        more = _unknown(_body(new[its[0] : its[1]]), _body(log), known)
        earlier, latest = _in_order(log, more, there)
    whole = notes + gap + _bytes(earlier) + after
    return appended_under(whole, latest, HEADING) if latest.strip() else whole


def _in_order(log: str, more: Sequence[_Piece], there: bytes) -> tuple[str, bytes]:
    """The log with what is older than one of its entries before that, and what goes below all: the newest entries of a
    log are its last.
    """
    entries = [(at, block.start) for block in blocks(log) if (at := moment(block.at)) is not None]
    newest = list(accumulate((at for at, _ in entries), max))  # rises, though a foreign log may not
    puts: dict[int, list[str]] = {}
    latest, last = [], None
    for piece in more:
        last = piece.at or last  # what stands behind an entry stays behind it
        before = len(entries) if last is None else bisect_right(newest, last)
        if before == len(entries):
            latest.append(piece.data)
        elif piece.data.strip():
            text = ended_as(piece.data.strip(b"\r\n") + b"\n\n", there)
            puts.setdefault(entries[before][1], []).append(text.decode("utf-8", "surrogateescape"))
    out, done = list[str](), 0
    for place in sorted(puts):
        out += [log[done:place], *puts[place]]
        done = place
    return "".join([*out, log[done:]]), b"".join(latest)


def _beside(new: bytes, there: bytes, file: File) -> bytes:
    """Both; blank lines alone are nothing new."""
    if not added(new, there):
        return there
    merged = merge(b"", new, there)
    if merged.conflicts:
        raise Refused(f"{file.path}: the text that is there is not UTF-8, so nothing can be put beside it; "
                      "--replace puts the one that comes in its place (the old one stays in history)")  # fmt: skip
    return merged.data


def _body(log: str) -> str:
    return log.partition("\n")[2]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a log that comes; `at`: of an entry with a date."""

    data: bytes
    at: datetime | None = None


def _unknown(log: str, there: str, known: str) -> list[_Piece]:
    """What of the log is new to the one that is there, in the text `known`: entries, and what stands before and
    behind them.
    """
    have = {_key(known[block.start : block.end]) for block in blocks(known)}
    lines = {line for text in _pieces(there)[1] for line in _lines(text)}
    entries, behind = _pieces(log)
    new = [_Piece(b"" if lines.issuperset(_lines(behind[0])) else added(_bytes(behind[0]), _bytes(there)))]
    for block, text in zip(entries, behind[1:], strict=True):
        entry = log[block.start : block.end]
        new.append(_Piece(b"" if _key(entry) in have else _bytes(entry), moment(block.at)))
        new.append(_Piece(b"" if lines.issuperset(_lines(text)) else _bytes(text)))
    return new


def _pieces(log: str) -> tuple[list[Block], list[str]]:
    """The log's entries, and what stands before the first of them and behind each."""
    found = blocks(log)
    starts = [*(block.start for block in found), len(log)]
    behind = [log[a:b] for a, b in zip([0, *(block.end for block in found)], starts, strict=True)]
    return found, behind


def _key(text: str) -> bytes:
    """What a piece of a log is compared by."""
    return b"\n".join(keys_of(lines_of(_bytes(text)))).strip()


def _lines(text: str) -> list[bytes]:
    """What the lines that say something are compared by."""
    return [key for key in keys_of(lines_of(_bytes(text))) if key.strip()]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _changes(steps: Sequence[Step]) -> list[Change]:
    return [step.change for step in steps if step.change is not None]


def _must_stand(folded: Folded) -> None:
    refused = [verdict for verdict in folded.verdicts if verdict.decision == "refused"]
    if refused:
        raise KINDS[refused[0].kind]("; ".join(dict.fromkeys(verdict.reason for verdict in refused)))


def _document(agent: str, steps: Sequence[Step], folded: Folded, *, saved: bool) -> JSON:
    """What became of each file, or would."""
    revs = {e.document.path: e.document.rev for e in folded.effects if isinstance(e, MemoryWritten)}
    return {
        "agent": agent, "saved": saved,
        "items": [
            {"path": step.file.path, "what": step.what, "rev": revs.get(step.file.path) if saved else None,
             "bytes": len(step.file.data if step.change is None else step.change.data or b"")}
            for step in steps
        ],
        "next": None,
    }  # fmt: skip
