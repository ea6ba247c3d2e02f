"""Speed by shape: what is read often is read by an index, and takes as long with much history as with none."""

import pytest

from swarmd.core.agent import Agent, MemoryRules, SharedFolder
from swarmd.core.snapshot import Trigger
from swarmd.core.world import Actor
from swarmd.store import (
    consolidated,
    folders_seen,
    lineage,
    owners,
    queries,
    session_reads,
    sessions,
    snapshots,
    trees,
    windows,
)
from tests.swarm import NOW, Swarm

HISTORY = 100_000
OWN = 20_000
SMALL = {"agents", "a", "pauses", "acks", "raised", "problems", "meta", "definitions"}
"""Tables (and `agents` by its short name) that have a row an agent at most."""
OF_LITTLE = {
    "handoffs_work",
    "handoffs_asked",
    "sessions_live",
    "conflicts_open",
    "slots_unstarted",
    "audit_operators",
    "sessions_quarantined",
}
"""Indexes that hold little: what is open, or out of the ordinary."""
IN_ORDER = {"sessions_queued", "handoffs_created"}
"""Indexes that a LIMIT walks from the newest on."""


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A store with a long history: mostly of others, much of the agent itself, all of it over."""
    swarm = Swarm(tmp_path_factory.mktemp("old"))
    swarm.write(_fill)
    yield swarm
    swarm.close()


def _fill(connection):
    many = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {HISTORY})"
    own = f"CASE WHEN i % {HISTORY // OWN} = 0 THEN 'studio' ELSE 'garage' END"
    at = "strftime('%Y-%m-%dT%H:%M:%S.000000Z', '2026-01-01', '+' || i || ' minutes')"
    connection.execute(
        f"INSERT INTO sessions (agent, trigger, state, outcome, queued, started, ended, by, cause_handoff, base) {many} "
        f"SELECT {own}, 'cron', 'ended', 'committed', {at}, {at}, {at}, 'schedule', i, NULL FROM n"
    )
    connection.execute(
        "INSERT INTO handoffs (id, sender, receiver, text, priority, status, created, depth, cause_session, by, moved) "
        f"{many} SELECT i, {own}, 'studio', 't', 'normal', 'completed', {at}, 1, i, 'x#1', {at} FROM n"
    )
    connection.execute(f"INSERT INTO handoff_entries {many} SELECT i, 1, {at}, 'x#1', 'complete', '' FROM n")
    connection.execute(f"INSERT INTO slots {many} SELECT {own}, {at}, {at}, 1, 'started', '', i, {at} FROM n")
    connection.execute(
        f"INSERT INTO changes (session, seq, part, act, target, verdict) {many} SELECT i, 1, 1, 'a', 't', 'done' FROM n"
    )
    connection.execute(f"INSERT INTO key_history {many} SELECT 'studio', 'k', i, 'v', {at}, 'x#1' FROM n")
    connection.execute(
        f"INSERT INTO reports (agent, parent, text, at, by) {many} SELECT {own}, 'house', 't', {at}, 'x#1' FROM n"
    )
    connection.execute(
        f"INSERT INTO audit {many} SELECT i + 1000000, {at}, 'x#1', 'commit', 'studio', '{{}}', i, 'h' FROM n"
    )


@pytest.fixture
def scans(old, monkeypatch):
    """Every statement that a read makes is explained; the tables of which it looks at every row."""
    found = []

    def explain(sql):
        if not sql.lstrip().upper().startswith(("SELECT", "WITH")):
            return
        for row in _other(old).execute(f"EXPLAIN QUERY PLAN {sql}"):
            words = row[3].split()
            small = words[1] in SMALL or words[-1] in OF_LITTLE or (words[-1] in IN_ORDER and "LIMIT" in sql)
            if words[0] == "SCAN" and not small:
                found.append(f"{row[3]}: {sql}")

    old.reader.set_trace_callback(explain)
    yield found
    old.reader.set_trace_callback(None)


_connections = {}


def _other(swarm):
    """Not the traced connection itself."""
    from swarmd.store.connections import open_reading

    return _connections.setdefault(id(swarm), open_reading(swarm.places.state / "swarmd.db"))


SHARING = Agent(name="studio", memory=MemoryRules(shared=(SharedFolder(name="team"),)))
STUDIO = Actor(by="studio#999999", agent="studio", session=999_999)
PAGE = windows.Window(n=50)
SINCE = windows.Window(n=50, since="2026-03-01T00:00:00.000000Z", until="2026-03-02T00:00:00.000000Z")
HOT = {
    "the open work of all": queries.open_work,
    "what has expired": lambda c: queries.expired(c, "2027-01-01T00:00:00.000000Z"),
    "what is overdue": lambda c: queries.overdue(c, "2027-01-01T00:00:00.000000Z"),
    "what waits for nobody": queries.undeliverable,
    "what lives": session_reads.live,
    "how many live": session_reads.counts,
    "what a handoff caused": lambda c: session_reads.caused(c, 5),
    "the last about a subject": lambda c: snapshots._last(c, "studio", 5, "alice"),
    "the last about none": lambda c: snapshots._last(c, "studio", 5, None),
    "an agent's subjects": lambda c: owners.subjects(c, "studio"),
    "sessions about a subject": lambda c: owners.sessions_about(c, "studio", "alice"),
    "whether a subject is known": lambda c: owners.folder_is_known(c, "studio@alice"),
    "conflicts of an agent's lines": lambda c: queries.conflicts(c, "@team", of=("studio", None)),
    "conflicts to be shown": lambda c: folders_seen.conflicts_now(c, SHARING, "studio", None),
    "the last of all": session_reads.last_sessions,
    "the newest draft": lambda c: sessions.newest_draft(c, "studio"),
    "failures in a row": lambda c: sessions.failures(c, "studio"),
    "what acts there were": lambda c: queries.operator_acts(c, PAGE),
    "the newest sessions": lambda c: session_reads.sessions(c, PAGE),
    "sessions of a day": lambda c: session_reads.sessions(c, SINCE),
    "sessions of an agent": lambda c: session_reads.sessions(c, PAGE, agents=["studio"]),
    "the changes of a page": lambda c: session_reads.changes(c, [1, 2, 3]),
    "slots that did not start": lambda c: queries.slots(c, PAGE, unstarted=True),
    "slots of an agent": lambda c: queries.slots(c, PAGE, agents=["studio"]),
    "a slot by its moment": lambda c: queries.slots_around(c, "studio", "2026-02-01T00:00:00.000000Z"),
    "the newest handoffs": lambda c: queries.handoffs(c, PAGE),
    "handoffs of a day": lambda c: queries.handoffs(c, SINCE),
    "reports to the operator": lambda c: queries.reports(c, PAGE, to_operator=True),
    "reports of an agent": lambda c: queries.reports(c, PAGE, agents=["studio"]),
    "the history of a key": lambda c: queries.key_history(c, "studio", "k", 20),
    "retries of a session": lambda c: session_reads.retries_of(c, 5),
    "open conflicts": queries.conflicts,
    "what a consolidation is due by": lambda c: consolidated.facts(c, "studio"),
    "what a consolidation is given": lambda c: consolidated.candidates(c, "studio", 20),
    "failed consolidations": lambda c: consolidated.failed(c, "studio"),
    "sessions in quarantine": lambda c: lineage.quarantined(c, "studio"),
}


@pytest.mark.parametrize("name", HOT)
def test_a_read_that_is_made_often_looks_at_no_whole_table(old, scans, name):
    HOT[name](old.reader)
    assert scans == []


def test_a_snapshot_looks_at_no_whole_table(old, scans):
    agent = trees.tree_of(old.reader).agent("studio")

    snapshots.snapshot(old.reader, agent, Trigger(kind="cron"), NOW)
    assert scans == []
    old.reader.set_trace_callback(None)
