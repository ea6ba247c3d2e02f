"""A sample of every document, with texts that are hard to print."""

from __future__ import annotations

from typing import Any

AT = "2026-11-30T09:00:00.000000Z"
NASTY = "\x1b[31mred\x1b[0m\u202e\r\n$(x)\x07"
Document = dict[str, Any]


def listing(*rows: Document) -> Document:
    return {"items": list(rows), "next": None}


AGENT = {
    "name": "studio", "parent": None, "enabled": True, "paused": False, "problem": None, "schedule": "0 * * * *",
    "timezone": "UTC", "next": AT, "running": None, "last_session": 7, "last_outcome": "committed", "open_handoffs": 2,
}  # fmt: skip
KEY = {"agent": "studio", "key": "status", "value": "POLISH", "version": 3, "updated": AT, "by": "studio#7"}
HANDOFF = {
    "id": 7, "sender": "operator", "receiver": "studio", "text": f"do it\nwell {NASTY}", "priority": "normal",
    "status": "open", "created": AT, "due": None, "expires": None,
    "thread": [{"at": AT, "by": "studio#7", "kind": "ask", "text": NASTY}], "cause": {"session": None, "handoff": None},
    "depth": 1, "dedupe": None, "by": "operator:root",
}  # fmt: skip
CHANGE = {"act": "set_key", "target": "studio status", "before": None, "after": NASTY, "verdict": "done"}
SESSION = {
    "id": 7, "agent": "studio", "attempt": 1, "trigger": "cron", "slot": AT, "state": "ended", "outcome": "committed",
    "reason": None, "queued": AT, "started": AT, "ended": AT, "by": "system", "exit": 0, "draft": None,
    "changes": [CHANGE], "refusals": [], "superseded": [], "tokens_in": None, "tokens_out": None, "cache_read": None,
    "usd": None, "cache_write": None, "subject": None,
}  # fmt: skip
QUARANTINED = {
    "session": 7, "agent": "studio", "quarantined": {"at": AT, "by": "operator:root", "reason": NASTY},
    "in_force": [{"kind": "memory", "target": f"studio:{NASTY}", "lines": [NASTY], "count": 3},
                 {"kind": "memory_alike", "target": f"studio:topics-{NASTY}", "lines": [NASTY], "count": 1}],
    "undone": [{"act": "ctx_set", "target": "studio/k"}, {"act": "memory_write", "target": f"studio:{NASTY}", "lines": 3}],
    "not_undone": [{"act": "report", "target": "parent", "reason": "a report that was made cannot be taken back"}],
    "next_step": "swarmd session quarantine 7 --revert takes it out",
}  # fmt: skip
SHOWN = {
    **SESSION,
    "usage": [
        {
            "model": "m",
            "tokens_in": 5,
            "tokens_out": 1,
            "cache_read": 0,
            "cache_write": 0,
            "usd": 0.1,
            "priced_by": "list",
        }
    ],
}
SLOT = {"agent": "studio", "slot": AT, "last": AT, "count": 1, "decision": "skipped", "reason": "session 6 runs",
        "session": None, "at": AT}  # fmt: skip
REPORT = {"id": 1, "agent": "studio", "parent": None, "text": NASTY, "at": AT, "by": "studio#7"}
MEMORY = {
    "agent": "studio",
    "path": "MEMORY.md",
    "rev": 2,
    "by": "studio#7",
    "at": AT,
    "bytes": 6,
    "conflicts": 0,
}
LOG = {
    "session": 7, "output": f"hello\n{NASTY}\n", "bytes": 30, "done": True, "outcome": "committed", "reason": "",
    "events": [{"seq": 1, "at": AT, "kind": "text", "turn": 1, "text": NASTY}],
}  # fmt: skip
HIT = {
    "kind": "memory", "agent": "studio", "file": "MEMORY.md", "key": None, "handoff": None, "sender": None, "session": 7,
    "line": 4, "seq": None, "at": AT, "by": "studio#7", "snippet": f"the **disk** {NASTY}", "score": 1.5, "quarantined": False,
}  # fmt: skip
CHILD = {**AGENT, "name": "polybreak", "parent": "studio", "paused": True, "children": []}

SUM = {"sessions": 3, "tokens_in": 1200, "tokens_out": 30, "cache_read": None, "cache_write": None, "usd": 0.5,
       "tokens_unknown": 1, "usd_unknown": 2}  # fmt: skip

APPROVAL = {
    "id": 3, "agent": "studio", "session": 7, "by": "studio#7", "target": "studio/deploy", "acts": ["ctx_set"],
    "state": "open", "reason": "a change of the key deploy needs an operator's approval", "created": AT, "expires": AT,
    "decided": None, "decided_by": None, "decided_reason": None,
}  # fmt: skip
DECIDED = {
    **APPROVAL,
    "state": "denied",
    "decided": AT,
    "decided_by": "operator:root",
    "decided_reason": NASTY,
}
SKILL = {
    "name": "pdf", "whose": "operator", "description": NASTY, "folder": "/etc/swarmd/skills/pdf", "bytes": 6,
    "license": "", "compatibility": "", "allowed_tools": "", "problem": None,
}  # fmt: skip

SAMPLES: dict[str, Document] = {
    "approval_list": listing(APPROVAL, {**DECIDED, "id": 2, "target": f"studio:{NASTY}"}),
    "approval_show": {
        **DECIDED, "hash": "ab", "whole": True, "verdict": None, "problem": NASTY, "set_aside": 2,
        "changes": [
            {"act": "ctx_set", "target": "studio/deploy", "before": None, "after": NASTY, "diff": None, "conflicts": []},
            {"act": "memory_write", "target": "studio:a.md", "before": {"text": "a"}, "after": {"base64": "AA=="},
             "diff": f"-a\n+{NASTY}", "conflicts": [{"line": 2, "ours": f"b\n{NASTY}\n", "theirs": NASTY}]},
        ],
    },
    "status": {
        "places": {"agents": "/a", "state": "/s", "runtime": "/r", "config": "/c"}, "daemon": {"running": True},
        "agents": {"in_force": 2, "paused": 0, "problems": 0}, "running": {"running": 1, "queued": 0},
        "attention": {"count": 0, "oldest": None, "kinds": {}}, "today": {"since": AT, **SUM},
    },
    "agent_list": listing(AGENT, {**AGENT, "name": "b", "problem": NASTY}),
    "agent_tree": {"roots": [{**AGENT, "children": [CHILD, {**CHILD, "name": "z"}]}]},
    "agent_show": {**AGENT, "definition": {"a": {}}, "text": f'system_prompt = "x"\n{NASTY}'},
    "agent_history": listing({"at": AT, "what": "changed", "hash": "ab", "by": "operator:root"}),
    "why": {"items": [SLOT], "next_fire": AT, "consolidation": {"next": AT, "reason": "after 30m without a session"}},
    "log": listing(
        {"at": AT, "kind": "session", "agent": "studio", "session": 7, "what": "committed", "by": "system", "changes": [CHANGE], "usd": 0.5},
        {"kind": "slot", "what": "skipped", "by": "schedule", **SLOT},
        {"at": AT, "kind": "act", "agent": None, "what": "pause", "target": "studio", "by": "operator:root"},
        {"at": AT, "kind": "approval", "agent": "studio", "session": 7, "what": "held", "target": "approval 3: studio/deploy", "approval": 3, "by": "studio#7", "reason": NASTY},
    ),
    "next": {"fires": [{"agent": "studio", "slot": AT, "start": AT, "local": "Mon 2026-11-30 09:00:00+00:00 UTC", "timezone": "UTC"}], "next": None},
    "next_cron": {"fires": ["2026-11-29T09:00:00+00:00"]},
    "ctx_list": listing(KEY, {**KEY, "key": "wide", "value": "\u6f22\u5b57 \U0001f680"}),
    "ctx_get": KEY,
    "ctx_history": listing({**KEY, "value": None}),
    "handoff_list": listing(HANDOFF),
    "handoff_show": HANDOFF,
    "report_list": listing(REPORT),
    "memory_search": {**listing(HIT, {**HIT, "kind": "key", "key": "status"}, {**HIT, "kind": "handoff", "handoff": 7, "seq": 0, "sender": "house"}), "more": True, "indexed_until": AT},
    "session_search": {**listing({**HIT, "kind": "transcript", "seq": 3, "quarantined": True}, {**HIT, "kind": "output"}), "more": False, "indexed_until": None},
    "memory_list": listing({**MEMORY, "first_line": NASTY}),
    "memory_show": {**MEMORY, "text": "notes\n", "base64": None},
    "memory_history": listing({"rev": 2, "file": "MEMORY.md", "by": "studio#7", "at": AT, "bytes": 6, "note": "written"}),
    "memory_diff": {"agent": "studio", "file": "MEMORY.md", "rev": 1, "other": 2, "diff": "-a\n+b"},
    "memory_compact": {
        "agent": "studio", "file": "MEMORY.md", "session": 7, "outcome": "committed", "reason": NASTY, "rev": 3,
        "archive": "archive/history_2026-11-30_09-00-00.md", "tokens_before": 3700, "tokens_after": 640,
        "tokens_in": 4100, "tokens_out": 600, "usd": 0.02,
    },
    "memory_blame": {"agent": "studio", "file": "MEMORY.md", "lines": [{"line": 1, "text": NASTY, "rev": 2, "by": "studio#7", "at": AT}]},
    "memory_subjects": listing({"agent": "studio", "subject": "alice", "owner": "studio@alice", "files": 2, "bytes": 90, "sessions": 3, "last_session": None}),
    "memory_shared": listing({"name": "team", "owner": "@team", "files": 1, "bytes": 9, "agents": ["art", "studio"], "writers": ["studio"], "approval": []}),
    "memory_import": {
        "agent": "studio", "format": "swarms", "saved": True, "next": None,
        "items": [{"path": "MEMORY.md", "what": "new", "rev": 1, "bytes": 6, "source": NASTY}],
        "renamed": [{"file": NASTY, "path": "a.md", "why": NASTY}], "left_out": [{"file": ".git", "why": NASTY}],
        "skipped": [], "notes": [NASTY],
    },
    "memory_export": listing({**MEMORY, "text": f"notes\n{NASTY}", "base64": None}, {**MEMORY, "path": "a.md", "text": None, "base64": "/wA="}),
    "memory_conflicts": listing({"id": 1, "agent": "studio", "path": "MEMORY.md", "line": 3, "ours": NASTY, "theirs": "b", "at": AT}),
    "skill_list": listing(SKILL, {**SKILL, "whose": "own", "folder": "skills/pdf", "problem": NASTY}),
    "skill_show": {**SKILL, "agent": "studio", "file": "SKILL.md", "text": "notes\n", "base64": None, "files": [{"file": "scripts/a.py", "bytes": 12}]},
    "session_list": listing(SESSION),
    "session_show": SHOWN,
    "session_apply": {**SHOWN, "applied": [
        {"act": "ctx_set", "target": f"studio/{NASTY}", "verdict": "held", "reason": NASTY, "approval": 13},
        {"act": "ctx_set", "target": "studio/status", "verdict": "done", "reason": "", "approval": None},
    ]},
    "session_log": LOG,
    "session_trace": {**listing({"act": "set_key", "target": "k", "shown_to": [{"session": 8, "agent": "b", "how": "files", "through": 7}]}), "session": 7, "agent": "studio"},
    "session_export": {"session": SHOWN, "log": LOG, "prompt": {"from": "rebuilt", "system": "S", "user": NASTY, "why_not": None}},
    "attention": listing({"id": "failing:studio", "kind": "failing", "agent": "studio", "since": AT, "text": NASTY, "next_step": "look"}),
    "usage": {"by": "agent", **listing({"agent": "studio", **SUM}), "left_out": 0, "total": SUM},
    "prompt": {"system": "S", "user": "U", "tokens": 2, "sections": [{"name": "keys", "tokens": 1, "left_out": 0}], "overhead": 1, "ratio": 1.05},
    "doctor": listing({"name": "disk", "ok": True, "text": "100 MiB are free"}),
    "verify": {**listing(), "ok": True},
    "check": {
        **listing({"file": "a.toml", "line": 3, "column": None, "field": "parent", "text": "t", "found": None,
                   "expected": None, "hint": None, "severity": "error", "message": "a.toml:3: parent: t"}),
        "files": 1,
    },
}  # fmt: skip
