"""Searches: who may see what is decided here by the rules of core.authority, before the index is asked and again for
each hit on the rows as they are now, so that an index which lags behind shows nothing that is gone.
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from swarmd.core import authority
from swarmd.core.names import unknown_agent
from swarmd.core.owners import agent_of_owner, subject_of
from swarmd.core.searching import NothingToFind, Query, place_of, query_of
from swarmd.core.snippets import Snippet, snippet_of
from swarmd.errors import BadInput, NotFound, Refused, StoreUnusable
from swarmd.service.quarantined import Untainted
from swarmd.service.view import JSON, Args, View, text, window
from swarmd.store import queries, search, search_file
from swarmd.store.connections import Row, StoreError
from swarmd.store.documents import session_of
from swarmd.store.search_units import BY_MEMORY, KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from swarmd.store.search import Hit, Owner

SHOWN = 20
BY_SESSION = ("transcript", "output")
RECENCY = 0.5
"""What the newest hit has ahead of the oldest that was looked at; how well a text fits counts up to 2."""


def memory_search(view: View, args: Args) -> JSON:
    """All that the caller may read and that has all the words: memory, archives, keys, handoffs, sessions."""
    kind = text(args, "kind", required=False)
    if kind and kind not in KINDS:
        raise BadInput(f"kind: {kind[:40]!r} is none of {', '.join(KINDS)}")
    return _search(view, args, (kind,) if kind else None)


def session_search(view: View, args: Args) -> JSON:
    """What sessions said, called, were answered and printed."""
    return _search(view, args, BY_SESSION)


def _search(view: View, args: Args, kinds: Sequence[str] | None) -> JSON:
    begin = place_of(args.get("until"))
    asked = window(args if begin is None else {**args, "until": begin.until}, SHOWN)
    try:
        query = query_of(text(args, "text"))
    except NothingToFind as error:
        raise BadInput(str(error)) from None
    agent = text(args, "agent", required=False) or None
    if agent is not None:
        _must_know(view, agent)
    if problem := search_file.obstacle(view.places.state):
        raise StoreUnusable(problem)
    found, complete = search.Found(), search.Complete(until=None, acts=None)
    try:
        connection = search_file.open_to_read(view.places.state)
        if connection is not None:
            with closing(connection):
                complete = search.complete_until(connection)
                seen = _seen(view, search.owners(connection), agent)
                wish = search.Wish(query=query, seen=seen, kinds=kinds, since=asked.since, until=asked.until,
                                   begin=begin)  # fmt: skip
                found = search.search(connection, wish)
    except StoreError as error:
        raise _unanswered(view, error) from error
    before = 0 if begin is None else begin.shown
    standing = _standing(view, _best_first(found.hits, query))
    shown = list(islice(standing, before, before + asked.n + 1))
    more = len(shown) > asked.n and found.window is not None
    rest = replace(found.window, shown=before + asked.n) if more and found.window is not None else found.rest
    return {
        "items": shown[: asked.n],
        "next": None if rest is None else str(rest),
        "more": more,
        "indexed_until": complete.stands(view.connection),
    }


def _unanswered(view: View, error: StoreError) -> StoreUnusable:
    """Why the index did not answer. One that is damaged is removed: whoever holds the lock makes it anew."""
    path = search_file.path_of(view.places.state)
    if not search_file.is_damage(error):
        return StoreUnusable(f"{path} could not be read ({error}); try again")
    with suppress(OSError):
        search_file.remove(view.places.state)
        return StoreUnusable(
            f"{path} was damaged ({error}); it is made anew from the store: search again in a while"
        )
    return StoreUnusable(f"{path} is damaged ({error}): remove it; it is made anew from the store")


# -- who may see what ----------------------------------------------------------------------------------------


def _must_know(view: View, agent: str) -> None:
    """Raises Refused for an agent of which the caller may see nothing, in the words for one that does not exist."""
    if view.actor.agent is None:
        if agent_of_owner(agent) is not None and not queries.is_known(
            view.connection, agent_of_owner(agent) or ""
        ):
            raise NotFound(unknown_agent(agent))
        return
    refusal = authority.may_read_memory(view.actor, agent, view.tree)
    if refusal is not None and not view.sees(agent):
        raise Refused(refusal)


def _seen(view: View, owners: Sequence[Owner], agent: str | None) -> search.Seen | None:
    """Whose rows the search is about, as far as the caller may see them; None: all there are."""
    actor, tree = view.actor, view.tree if view.actor.agent is not None else None
    if agent is not None:
        owners = [owner for owner in owners if agent in (owner.name, agent_of_owner(owner.name))]
    elif tree is None:
        return None
    if tree is None:
        ids = frozenset(owner.id for owner in owners)
        return search.Seen(memory=ids, rest=ids, hidden=ids)
    memory = (owner.id for owner in owners if authority.may_read_memory(actor, owner.name, tree) is None)
    rest = (owner.id for owner in owners if _may_read_rest(view, owner.name))
    return search.Seen(memory=frozenset(memory), rest=frozenset(rest))


def _may_read_rest(view: View, owner: str) -> bool:
    """Keys, handoffs and sessions: of an agent, or of its sessions about a subject."""
    agent = agent_of_owner(owner)
    return (
        agent is not None
        and authority.may_read_session(view.actor, agent, subject_of(owner), view.tree) is None
    )


# -- what is shown -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranked:
    hit: Hit
    snippet: Snippet
    score: float


def _best_first(hits: Sequence[Hit], query: Query) -> list[_Ranked]:
    ranked = []
    for place, hit in enumerate(hits):
        snippet = snippet_of(hit.marked, len(query.parts))
        score = snippet.fit + RECENCY * (1 - place / len(hits))
        ranked.append(_Ranked(hit=hit, snippet=snippet, score=round(score, 3)))
    return sorted(ranked, key=lambda one: one.score, reverse=True)  # of equals the newest first


def _standing(view: View, ranked: Sequence[_Ranked]) -> Iterator[dict[str, JSON]]:
    """The documents of those that the caller may see as things are now."""
    untainted: dict[str, Untainted] = {}
    for one in ranked:
        facts = _facts(view, one.hit)
        if facts is not None and one.hit.kind == "archive":
            shown = untainted.setdefault(one.hit.owner, Untainted(view, one.hit.owner))
            if not _is_clean(view, one.hit, shown):
                continue
        if facts is not None:
            yield {
                "kind": one.hit.kind, "agent": one.hit.owner, "file": None, "key": None, "handoff": None,
                "sender": None, "session": session_of(one.hit.by), "line": None, "seq": None,
                "at": one.hit.at, "by": one.hit.by, "snippet": one.snippet.text, "score": one.score,
                "quarantined": False, **facts,
            }  # fmt: skip


def _is_clean(view: View, hit: Hit, shown: Untainted) -> bool:
    """Whether a piece of an archive has no line of a session in quarantine: what is left of the file has all of it."""
    if shown.marks(hit.name, b"") is None:
        return True  # there is no such session, or an operator asks
    document = view.world.document(hit.owner, hit.name)
    data = None if document is None else document.data
    return data is not None and search.holds(shown.text(hit.name, data), hit)


def _facts(view: View, hit: Hit) -> dict[str, Any] | None:
    """What is particular to its kind; None where it is gone, or not for the caller."""
    if hit.kind in BY_SESSION:
        return _session_facts(view, hit)
    if hit.kind == "handoff":
        handoff = view.world.handoff(int(hit.name))
        if handoff is None or view.handoff_refusal(handoff) is not None:
            return None
        return {"handoff": handoff.id, "agent": handoff.receiver, "sender": handoff.sender, "seq": hit.place}
    rule = authority.may_read_memory if hit.kind in BY_MEMORY else authority.may_read_keys
    if view.actor.agent is not None and rule(view.actor, hit.owner, view.tree) is not None:
        return None
    if not search.is_current(view.connection, hit):
        return None
    return {"key": hit.name} if hit.kind == "key" else {"file": hit.name, "line": hit.place}


def _session_facts(view: View, hit: Hit) -> dict[str, Any] | None:
    row: Row | None = search.session_of(view.connection, hit)
    if row is None:
        return None
    if view.actor.agent is not None and (
        row["quarantined"] is not None
        or authority.may_read_session(view.actor, row["agent"], row["subject"], view.tree) is not None
    ):
        return None
    place = "line" if hit.kind == "output" else "seq"
    return {
        "session": row["id"],
        "agent": row["agent"],
        place: hit.place,
        "quarantined": row["quarantined"] is not None,
    }
