"""Two sessions' change sets side by side: what both wanted, what only one did, and where they wanted other things."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swarmd.core.changes import AppendMemory, Change, WriteMemory, act_of, target_of
from swarmd.core.counts import counted
from swarmd.core.world import World
from swarmd.service.view import JSON, View
from swarmd.session import journal

DIFF_LINES = 200
Target = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Wish:
    """A change as a session asked for it. `content` is what decides whether two are the same."""

    doc: Mapping[str, Any]
    content: str | None


def compared(view: View, there: Mapping[str, Any], here: Mapping[str, Any]) -> JSON:
    """The document of the earlier session, and the changes of both: `what` is same, changed, added or removed."""
    olds, news = _wishes(view, there), _wishes(view, here)
    rows = [row for target in dict.fromkeys([*olds, *news])
            for row in _paired(target, olds.get(target, []), news.get(target, []))]  # fmt: skip
    return {"session": dict(there), "changes": rows}


def _wishes(view: View, session: Mapping[str, Any]) -> dict[Target, list[_Wish]]:
    """Every change and refused act of a session, by act and target, in order."""
    texts = _memory_texts(view.places.state / "sessions" / str(session["id"]), view.world)
    found: dict[Target, list[_Wish]] = {}
    for change in session["changes"]:
        target = change["act"], change["target"]
        written = texts.get(target)
        content = written.pop(0) if written else change["after"]
        found.setdefault(target, []).append(_Wish(change, content))
    known = {(c["act"], c["target"]) for c in session["changes"] if c["verdict"] in ("refused", "superseded")}
    for verdict, notes in (("refused", session["refusals"]), ("superseded", session["superseded"])):
        for note in notes:
            target = note["act"], note["target"]
            if target not in known:
                doc = {**note, "before": None, "after": None, "verdict": verdict}
                found.setdefault(target, []).append(_Wish(doc, None))
    return found


def _memory_texts(folder: Path, world: World) -> dict[Target, list[str]]:
    """What a session wrote into memory files, out of the journal in its folder: the rows have only its size."""
    staged, _ = journal.read(folder, 0)
    found: dict[Target, list[str]] = {}
    for change in (*staged, *(journal.left(folder, journal.text_in(world)) or ())):
        text = _text(change)
        if text is not None:
            found.setdefault((act_of(change), target_of(change)), []).append(text)
    return found


def _text(change: Change) -> str | None:
    if isinstance(change, AppendMemory):
        return change.text
    if isinstance(change, WriteMemory):
        return "" if change.data is None else change.data.decode("utf-8", "backslashreplace")
    return None


def _paired(target: Target, olds: Sequence[_Wish], news: Sequence[_Wish]) -> Iterator[dict[str, JSON]]:
    """Of several wishes about one thing those that are the same belong together, then the rest in order."""
    left, right = list(olds), list(news)
    for old in olds:
        same = next((new for new in right if new.content == old.content), None)
        if same is not None:
            left.remove(old)
            right.remove(same)
            yield _row("same", target, old, same)
    for number in range(max(len(left), len(right))):
        before = left[number] if number < len(left) else None
        after = right[number] if number < len(right) else None
        what = "changed" if before and after else "removed" if before else "added"
        yield _row(what, target, before, after)


def _row(what: str, target: Target, there: _Wish | None, here: _Wish | None) -> dict[str, JSON]:
    act, name = target
    diff = None
    if what == "changed" and act.startswith("memory_") and there is not None and here is not None:
        diff = _diff(there.content, here.content)
    return {"what": what, "act": act, "target": name, "there": _doc(there), "here": _doc(here), "diff": diff}


def _doc(wish: _Wish | None) -> JSON:
    if wish is None:
        return None
    return {name: wish.doc.get(name) for name in ("before", "after", "verdict", "reason")}


def _diff(there: str | None, here: str | None) -> str | None:
    if there is None or here is None:
        return None
    lines: Iterable[str] = difflib.unified_diff(there.splitlines(), here.splitlines(), lineterm="", n=1)
    shown = [line for line in lines if not line.startswith(("---", "+++"))]
    more = [f"... {counted(len(shown) - DIFF_LINES, 'more line')}"] if len(shown) > DIFF_LINES else []
    return "\n".join([*shown[:DIFF_LINES], *more])
