"""The tables, as migrations that are only ever appended to; each runs in its own transaction.

`PRAGMA user_version` holds the number of the newest migration that ran, so that a program can tell a newer
store at once. Times are text, ISO 8601 UTC with microseconds, which sorts as time does.
"""

from __future__ import annotations

FIRST = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE sums (name TEXT PRIMARY KEY, rows INTEGER NOT NULL, sum BLOB NOT NULL) WITHOUT ROWID;

CREATE TABLE definitions (hash TEXT PRIMARY KEY, json TEXT NOT NULL, text TEXT NOT NULL, seen TEXT NOT NULL)
  WITHOUT ROWID;
CREATE TABLE agents (
  name TEXT PRIMARY KEY, hash TEXT NOT NULL REFERENCES definitions, file TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('in_force', 'removed')),
  absent_since TEXT, problem TEXT, handled_until TEXT, since TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE agent_history (
  id INTEGER PRIMARY KEY, agent TEXT NOT NULL, at TEXT NOT NULL, hash TEXT, what TEXT NOT NULL, by TEXT NOT NULL
);
CREATE INDEX agent_history_agent ON agent_history (agent, id);
CREATE TABLE problems (file TEXT NOT NULL, line INTEGER, field TEXT, severity TEXT NOT NULL, text TEXT NOT NULL,
  since TEXT NOT NULL);

CREATE TABLE pauses (agent TEXT PRIMARY KEY, reason TEXT NOT NULL, by TEXT NOT NULL, at TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE slots (
  agent TEXT NOT NULL, slot TEXT NOT NULL, last TEXT NOT NULL, count INTEGER NOT NULL DEFAULT 1,
  decision TEXT NOT NULL CHECK (decision IN ('started', 'skipped', 'missed', 'coalesced', 'deferred')),
  reason TEXT NOT NULL DEFAULT '', session INTEGER, at TEXT NOT NULL,
  PRIMARY KEY (agent, slot)
) WITHOUT ROWID;
CREATE INDEX slots_at ON slots (at);
CREATE INDEX slots_unstarted ON slots (at) WHERE decision != 'started';
CREATE INDEX slots_session ON slots (session) WHERE session IS NOT NULL;

CREATE TABLE sessions (
  id INTEGER PRIMARY KEY AUTOINCREMENT, agent TEXT NOT NULL, attempt INTEGER NOT NULL DEFAULT 1,
  trigger TEXT NOT NULL, slot TEXT, cause_handoff INTEGER, depth INTEGER NOT NULL DEFAULT 0,
  note TEXT NOT NULL DEFAULT '',
  state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'ended')), outcome TEXT, reason TEXT NOT NULL DEFAULT '',
  queued TEXT NOT NULL, not_before TEXT, started TEXT, ended TEXT, by TEXT NOT NULL, exit INTEGER,
  mode TEXT NOT NULL DEFAULT 'commit' CHECK (mode IN ('commit', 'no_commit', 'dry_run')),
  epoch INTEGER NOT NULL DEFAULT 0, token_hash TEXT, definition TEXT, prompt_hash TEXT, prompt TEXT,
  base TEXT, checkpoints INTEGER NOT NULL DEFAULT 0, draft TEXT NOT NULL DEFAULT 'none',
  tokens_in INTEGER, tokens_out INTEGER, cache_read INTEGER, cache_write INTEGER, usd REAL,
  retry_of INTEGER, cancel_wanted TEXT
);
CREATE INDEX sessions_agent ON sessions (agent, id);
CREATE INDEX sessions_live ON sessions (state, id) WHERE state != 'ended';
CREATE INDEX sessions_draft ON sessions (agent, id) WHERE draft = 'open';
-- With all that sums of usage ask for: in the row that stands behind texts of any length.
CREATE INDEX sessions_ended ON sessions
  (ended, state, started, agent, tokens_in, tokens_out, cache_read, cache_write, usd) WHERE state = 'ended';
CREATE INDEX sessions_queued ON sessions (queued);
CREATE INDEX sessions_cause ON sessions (cause_handoff) WHERE cause_handoff IS NOT NULL;

CREATE TABLE usage (
  session INTEGER NOT NULL, model TEXT NOT NULL, tokens_in INTEGER, tokens_out INTEGER, cache_read INTEGER,
  cache_write INTEGER, usd REAL, priced_by TEXT CHECK (priced_by IN ('client', 'list')), PRIMARY KEY (session, model)
) WITHOUT ROWID;
-- An agent's last sessions: how many tokens we counted in the first request, and how many its provider did.
CREATE TABLE counted (
  agent TEXT NOT NULL, measured TEXT NOT NULL, session INTEGER NOT NULL, ours INTEGER NOT NULL, tools INTEGER,
  theirs INTEGER NOT NULL, PRIMARY KEY (agent, measured, session)
) WITHOUT ROWID;

CREATE TABLE changes (
  session INTEGER NOT NULL, seq INTEGER NOT NULL, part INTEGER NOT NULL, act TEXT NOT NULL, target TEXT NOT NULL,
  before TEXT, after TEXT, verdict TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '', effect TEXT,
  PRIMARY KEY (session, seq)
) WITHOUT ROWID;
CREATE TABLE drafts (session INTEGER PRIMARY KEY, changes TEXT NOT NULL, at TEXT NOT NULL);

CREATE TABLE keys (
  agent TEXT NOT NULL, key TEXT NOT NULL, value TEXT, version INTEGER NOT NULL, updated TEXT NOT NULL, by TEXT NOT NULL,
  PRIMARY KEY (agent, key)
) WITHOUT ROWID;
CREATE TABLE key_history (
  agent TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, value TEXT, at TEXT NOT NULL, by TEXT NOT NULL,
  PRIMARY KEY (agent, key, version)
) WITHOUT ROWID;

CREATE TABLE handoffs (
  id INTEGER PRIMARY KEY, sender TEXT NOT NULL, receiver TEXT NOT NULL, text TEXT NOT NULL, priority TEXT NOT NULL,
  status TEXT NOT NULL, created TEXT NOT NULL, due TEXT, expires TEXT, depth INTEGER NOT NULL,
  cause_session INTEGER, cause_handoff INTEGER, dedupe TEXT, by TEXT NOT NULL, moved TEXT NOT NULL
);
-- SQLite uses these two only where a query has the very condition, and is told to (rows.UNSETTLED, INDEXED BY).
CREATE INDEX handoffs_work ON handoffs (receiver, status) WHERE status IN ('open', 'acknowledged', 'waiting');
CREATE INDEX handoffs_asked ON handoffs (sender, status) WHERE status IN ('open', 'acknowledged', 'waiting');
CREATE INDEX handoffs_sent ON handoffs (sender, moved);
CREATE INDEX handoffs_receiver ON handoffs (receiver, id);
CREATE INDEX handoffs_created ON handoffs (created);
CREATE INDEX handoffs_session ON handoffs (cause_session) WHERE cause_session IS NOT NULL;
CREATE TABLE handoff_entries (
  handoff INTEGER NOT NULL, seq INTEGER NOT NULL, at TEXT NOT NULL, by TEXT NOT NULL, kind TEXT NOT NULL,
  text TEXT NOT NULL, PRIMARY KEY (handoff, seq)
) WITHOUT ROWID;

CREATE TABLE reports (
  id INTEGER PRIMARY KEY, agent TEXT NOT NULL, parent TEXT, text TEXT NOT NULL, at TEXT NOT NULL,
  session INTEGER, by TEXT NOT NULL, acked TEXT
);
CREATE INDEX reports_parent ON reports (parent, id);
CREATE INDEX reports_agent ON reports (agent, id);

CREATE TABLE blobs (hash TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE revisions (
  agent TEXT NOT NULL, path TEXT NOT NULL, rev INTEGER NOT NULL, parent INTEGER NOT NULL, hash TEXT,
  size INTEGER NOT NULL, at TEXT NOT NULL, by TEXT NOT NULL, how TEXT NOT NULL DEFAULT 'write',
  PRIMARY KEY (agent, path, rev)
) WITHOUT ROWID;
CREATE TABLE heads (agent TEXT NOT NULL, path TEXT NOT NULL, rev INTEGER NOT NULL, hash TEXT,
  PRIMARY KEY (agent, path)) WITHOUT ROWID;
CREATE TABLE published (agent TEXT NOT NULL, path TEXT NOT NULL, rev INTEGER NOT NULL, hash TEXT,
  PRIMARY KEY (agent, path)) WITHOUT ROWID;
CREATE TABLE pending (agent TEXT NOT NULL, path TEXT NOT NULL, rev INTEGER NOT NULL,
  swap INTEGER NOT NULL UNIQUE DEFAULT (random() & 4611686018427387903),
  phase TEXT NOT NULL CHECK (phase IN ('todo', 'done')), PRIMARY KEY (agent, path)) WITHOUT ROWID;
CREATE INDEX pending_phase ON pending (phase, agent);
CREATE TABLE conflicts (
  id INTEGER PRIMARY KEY, agent TEXT NOT NULL, path TEXT NOT NULL, line INTEGER NOT NULL, ours TEXT NOT NULL,
  theirs TEXT NOT NULL, session INTEGER, by TEXT NOT NULL, at TEXT NOT NULL, resolved TEXT
);
CREATE INDEX conflicts_open ON conflicts (agent, id) WHERE resolved IS NULL;

CREATE TABLE raised (id TEXT PRIMARY KEY, kind TEXT NOT NULL, agent TEXT, since TEXT NOT NULL, text TEXT NOT NULL,
  next_step TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE acks (id TEXT PRIMARY KEY, since TEXT NOT NULL, by TEXT NOT NULL, at TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE audit (
  seq INTEGER PRIMARY KEY, at TEXT NOT NULL, by TEXT NOT NULL, act TEXT NOT NULL, target TEXT NOT NULL,
  detail TEXT NOT NULL, session INTEGER, hash TEXT NOT NULL
);
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_operators ON audit (seq) WHERE session IS NULL;
CREATE TRIGGER audit_update BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
CREATE TRIGGER audit_delete BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
"""

MEMORY = """
ALTER TABLE sessions ADD COLUMN subject TEXT;
ALTER TABLE sessions ADD COLUMN quarantined TEXT;
-- The last session about a subject, or about none, however many there were about others.
CREATE INDEX sessions_subject ON sessions (agent, subject, id);
-- Few sessions are one of these: who asks for them walks past none of the others.
CREATE INDEX sessions_compact ON sessions (agent, id) WHERE trigger = 'compact';
CREATE INDEX sessions_consolidate ON sessions (agent, id) WHERE trigger = 'consolidate';
CREATE INDEX sessions_quarantined ON sessions (agent, id) WHERE quarantined IS NOT NULL;

-- A text with a base is kept as its difference from that one: see store.texts, which alone reads and writes `data`.
ALTER TABLE blobs ADD COLUMN base TEXT;
CREATE INDEX blobs_base ON blobs (base) WHERE base IS NOT NULL;

-- What waits for an operator's yes, one row a target, bound to its digest; `state` ends once. `told`: the session whose
-- prompt has told the agent what became of it.
CREATE TABLE approvals (
  id INTEGER PRIMARY KEY AUTOINCREMENT, agent TEXT NOT NULL, session INTEGER, by TEXT NOT NULL, target TEXT NOT NULL,
  changes TEXT NOT NULL, hash TEXT NOT NULL, reason TEXT NOT NULL, created TEXT NOT NULL, expires TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'approved', 'denied', 'expired', 'superseded')),
  decided TEXT, decided_by TEXT, decided_reason TEXT NOT NULL DEFAULT '', told INTEGER
);
CREATE INDEX approvals_open ON approvals (expires, agent) WHERE state = 'open';
CREATE INDEX approvals_target ON approvals (agent, target, id);
CREATE INDEX approvals_untold ON approvals (agent, id) WHERE told IS NULL;

-- Rewrites that lost most of a file: the revision that did it, the one before, how many lines that had and are kept.
CREATE TABLE losses (
  agent TEXT NOT NULL, path TEXT NOT NULL, rev INTEGER NOT NULL, before INTEGER NOT NULL, lines INTEGER NOT NULL,
  kept INTEGER NOT NULL, PRIMARY KEY (agent, path)
) WITHOUT ROWID;

-- How far an agent's sessions have been looked through for its memory.
CREATE TABLE consolidated (
  agent TEXT PRIMARY KEY, until_session INTEGER NOT NULL, at TEXT NOT NULL, session INTEGER
) WITHOUT ROWID;

-- Of an adaptive schedule: the moment that was chosen, when, and why. `base`: from when it is counted; `counted`: the
-- end of the last session that is in it, and which, with its outcome and how often in a row that came.
CREATE TABLE adaptive (
  agent TEXT PRIMARY KEY, next TEXT NOT NULL, step_seconds REAL NOT NULL, chosen TEXT NOT NULL, reason TEXT NOT NULL,
  base TEXT NOT NULL, counted TEXT NOT NULL, session INTEGER, outcome TEXT, times INTEGER NOT NULL
) WITHOUT ROWID;
"""

MIGRATIONS: tuple[tuple[str, str], ...] = (("0001_first", FIRST), ("0002_memory", MEMORY))
"""Name and SQL of each migration, oldest first. Append; never edit one that was released."""

VERSION = len(MIGRATIONS)
"""The version of the store that this program writes."""
