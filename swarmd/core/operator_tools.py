"""An operator's calls as an assistant's model sees them: every read, every act, and the acts that only operators have.

`swarmd mcp --operator` is made from this table. What would run a program of the caller's choice is not in it: an
edited agent file is tried out by a person, with `--file`. Nor is the yes to what was held: that is a person's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from swarmd.core.acts import ACTS, SEARCH_KINDS, Act, Arg
from swarmd.core.sessions import OUTCOMES
from swarmd.core.tools import Tool

_AGENT = Arg(name="agent", kind="agent", help="the agent's name")
_OWNER = Arg(
    name="agent", kind="agent", help="the agent's name; @NAME: a shared folder; AGENT@SUBJECT: of a subject"
)
_SUBJECT = Arg(name="subject", required=False, help="whom or what the session is about; left out: nobody")
_ONE = Arg(name="agent", kind="agent", required=False, help="only of this agent; left out: of all")
_SESSION = Arg(name="session", help="a number, an agent's name for its last session, or AGENT@TIME")
_KEY = Arg(name="key", help="the key's name")
_TEXT = Arg(name="text", help="the words to find, few and telling")
_FILE = Arg(name="file", required=False, help="the file's path in the memory folder; left out: MEMORY.md")
_REV = Arg(name="rev", kind="int", help="the revision's number, as memory_history tells it")
_COUNT = Arg(name="n", kind="int", required=False, help="how many at most")
_SINCE = Arg(name="since", kind="time", required=False, help="none older than this")
_UNTIL = Arg(
    name="until", kind="time", required=False, help="none that is not older; a list's `next` goes here"
)
_ONWARD = Arg(name="until", required=False,
              help="a time: only older; or `next` of an answer, with the same words: what it did not show")  # fmt: skip
_LIST = (_SINCE, _UNTIL, _COUNT)
_POINT = Arg(name="agent", kind="agent", help="the agent, with all below it; or `all`")
_APPROVAL = Arg(name="id", kind="int", help="the approval's number")
_REASON = Arg(name="reason", required=False, help="why, for those who ask later")


def _read(name: str, description: str, *args: Arg) -> Tool:
    return Tool(name=name, description=description, args=args, reads=True)


def _act(name: str, description: str, *args: Arg) -> Tool:
    return Tool(name=name, description=description, args=args, reads=False)


_READS = (
    _read("status", "Where everything is, whether the daemon runs, and how much waits for a person."),
    _read("attention", "What needs a person: failures, refusals, conflicts, overdue work, pauses, bad files."),
    _read("approval_list", "What sessions wanted written and an operator has to approve, newest first.", _ONE,
          Arg(name="all", kind="flag", required=False, help="also what was decided on"), *_LIST),
    _read("approval_show", "One of these, with what it would change.", _APPROVAL),
    _read("doctor", "What this machine offers to sessions; or what one agent's sessions may read and write.",
          Arg(name="agent", kind="agent", required=False, help="left out: the machine")),
    _read("usage", "Tokens and cost of the sessions that have ended, as far as they are known.",
          Arg(name="by", required=False, choices=("agent", "model", "day", "subtree"), help="a line for each of these"),
          *_LIST),
    _read("verify", "Check that the store and its history are whole. It takes a while."),
    _read("agent_list", "Every agent: state, schedule, last outcome, open handoffs."),
    _read("agent_tree", "Every agent with the one above it."),
    _read("agent_show", "One agent with its definition.", _AGENT,
          Arg(name="at", required=False, help="as it was for this session")),
    _read("agent_history", "How an agent's definition has changed, and when it was paused or renamed.", _AGENT),
    _read("why", "Why an agent did or did not run lately, and what comes next.", _AGENT,
          Arg(name="time", kind="time", required=False, help="around this moment"), _COUNT),
    _read("next", "When agents are due.", _ONE, _COUNT),
    _read("log", "What has happened, newest first: sessions, slots that did not start, acts of operators, approvals.",
          _ONE, *_LIST),
    _read("prompt", "Exactly what a session of the agent would be given now; nothing is spent.", _AGENT,
          Arg(name="trigger", required=False, help="as if this had started it: cron, every, at, manual, handoff ..."),
          Arg(name="at", kind="time", required=False, help="as of this moment"), _SUBJECT),
    _read("session_list", "Sessions, newest first.", _ONE,
          Arg(name="outcome", required=False, help="only those that ended so", choices=OUTCOMES), *_LIST),
    _read("session_show", "One session: outcome, reason and every change with its verdict.", _SESSION),
    _read("session_log", "What a session printed, as far as it is kept.", _SESSION),
    _read("session_trace", "What a session wrote, and which later sessions were shown it.", _SESSION),
    _read("ctx_list", "An agent's context keys, with values and versions.", _AGENT),
    _read("ctx_get", "One context key.", _AGENT, _KEY),
    _read("ctx_history", "Every value that a key has had, who set it and when.", _AGENT, _KEY),
    _read("handoff_list", "Handoffs, newest first.",
          Arg(name="to", kind="agent", required=False, help="only those to this agent"),
          Arg(name="from", kind="agent", required=False, help="only those from this agent, or `operator`"),
          Arg(name="status", kind="status", required=False, help="only those with this status"), *_LIST),
    _read("handoff_show", "One handoff with its thread.", Arg(name="id", kind="int", help="the handoff's number")),
    _read("report_list", "What agents have reported to those above them, newest first.",
          Arg(name="from", kind="agent", required=False, help="only those of this agent"), *_LIST),
    _read("memory_list", "The files of an agent's memory.", _OWNER),
    _read("memory_show", "The text of a memory file.", _OWNER, _FILE,
          Arg(name="rev", kind="int", required=False, help="as of this revision; left out: as it is")),
    _read("memory_search", "Search memory and archives, keys, handoffs, and what sessions said, did and printed. All "
          'words must be there; "several words" stand together; word* is a beginning.', _TEXT, _ONE,
          Arg(name="kind", required=False, help="only this kind",
              choices=SEARCH_KINDS), _SINCE, _ONWARD, _COUNT),
    _read("session_search", "Search what sessions said, called, were answered and printed.", _TEXT, _ONE, _SINCE,
          _ONWARD, _COUNT),
    _read("memory_history", "The revisions of an agent's memory, newest first.", _OWNER,
          Arg(name="file", required=False, help="only of this file")),
    _read("memory_diff", "What has changed in a memory file since a revision.", _OWNER, _FILE, _REV,
          Arg(name="other", kind="int", required=False, help="up to this revision; left out: up to now")),
    _read("memory_blame", "Who wrote each line of a memory file, and when.", _OWNER, _FILE),
    _read("skill_list", "An agent's skills: the operator's and its own, with what is wrong with some.", _AGENT),
    _read("skill_show", "The text of a skill and the names of its other files, or one of these.", _AGENT,
          Arg(name="name", help="the skill's name"),
          Arg(name="file", required=False, help="one of its other files; left out: SKILL.md")),
    _read("memory_conflicts", "Lines of the agent's that met a person's edit and stand aside.", _OWNER),
    _read("memory_subjects", "Whom or what an agent's sessions were about, and what it keeps about each.", _AGENT),
    _read("memory_shared", "The folders that agents share: who has each, who may write it, what is in it."),
    _read("memory_export", "Every file of an agent's memory with its whole text; it may be much.", _OWNER),
)  # fmt: skip

_SENTENCES: Mapping[str, str] = {
    "ctx_set": "Set a context key of an agent; it is shown in its every prompt.",
    "ctx_unset": "Remove a context key of an agent.",
    "handoff_send": "Hand work to an agent, in the operator's name.",
    "handoff_ack": "Mark a handoff as taken up, for its receiver.",
    "handoff_complete": "Mark a handoff as done, with its result.",
    "handoff_decline": "Mark a handoff as declined, with the reason.",
    "handoff_ask": "Ask the sender of a handoff; it waits until it is answered.",
    "handoff_answer": "Answer a question about a handoff.",
    "handoff_cancel": "Take a handoff back.",
    "memory_write": "Write a file of an agent's memory.",
    "memory_append": "Add text at the end of a file of an agent's memory.",
    "memory_delete": "Remove a file of an agent's memory; its revisions stay.",
    "report": "Report to the agent above; it works with `--as AGENT` only.",
}
"""What an act is to an operator, where the sentence for agents does not fit."""
_BASE = Arg(name="base", kind="int", required=False,
            help="the revision that the text was made from: what was written since is merged in")  # fmt: skip

_OPERATORS_ACTS = (
    _act("pause", "Let an agent and all below it start nothing.", _POINT, _REASON,
         Arg(name="now", kind="flag", required=False, help="also cancel what runs there")),
    _act("resume", "Lift the pause that was set at this agent.", _POINT),
    _act("run", "Run an agent now and wait for its end, which may take as long as its timeout.", _AGENT,
         Arg(name="text", required=False, help="work to hand it with this"),
         Arg(name="mode", required=False, choices=("commit", "no_commit", "dry_run"),
             help="no_commit: run for real and save nothing; dry_run: start nothing, only tell what would be"),
         Arg(name="force", kind="flag", required=False, help="also where it is paused"), _SUBJECT,
         Arg(name="trigger", required=False, choices=("manual", "consolidate"),
             help="consolidate: no work, but a session that puts its memory in order")),
    _act("session_cancel", "End a session; what it has staged stays as a draft.", _SESSION),
    _act("session_apply", "Save what a session has left as a draft, judged as its agent's.", _SESSION,
         Arg(name="as_operator", kind="flag", required=False, help="judged as the operator's")),
    _act("session_discard", "Give up what a session has left as a draft.", _SESSION),
    _act("session_revert", "Undo what sessions wrote, as far as nobody has built on it; the rest is named.",
         Arg(name="sessions", kind="texts", help="numbers, or agents' names for their last sessions")),
    _act("session_quarantine", "Take a session's texts out of prompts, agents' reads and consolidations; what it wrote "
         "that still stands is named.", _SESSION, _REASON,
         Arg(name="revert", kind="flag", required=False, help="also undo what it wrote, as far as that can be")),
    _act("session_unquarantine", "Let the texts of a session in quarantine be seen again.", _SESSION),
    _act("attention_ack", "Take an item of `attention` off the list, until it happens anew.",
         Arg(name="id", help="the item's id")),
    _act("approval_deny", "Deny what waits for an operator's yes; only a person approves, with `swarmd approval`.",
         _APPROVAL, _REASON),
    _act("reload", "Take up changed agent files now.",
         Arg(name="allow_empty", kind="flag", required=False, help="also where no file is left")),
    _act("rename", "Give the state of an agent whose file was renamed to its new name.",
         Arg(name="old", kind="agent", help="its name before"), Arg(name="new", kind="agent", help="its name now")),
    _act("forget", "Remove keys and memory of an agent whose file is gone, for good.",
         Arg(name="name", kind="agent", help="the agent's name")),
    _act("forget_subject", "Remove for good all that an agent keeps about a subject.", _AGENT,
         Arg(name="subject", help="as memory_subjects lists it")),
    _act("memory_compact", "Put a summary in the place of an agent's MEMORY.md; its whole text goes to the archive.",
         _AGENT,
         Arg(name="summary", required=False, help="your own summary; left out: the agent's summarizer makes one")),
    _act("memory_restore", "Make an earlier revision of a memory file the newest.", _OWNER, _FILE, _REV),
    _act("memory_take", "Settle a conflict of an agent's memory.", _OWNER,
         Arg(name="conflict", kind="int", help="its id, as memory_conflicts tells it"),
         Arg(name="side", choices=("ours", "theirs"),
             help="theirs leaves the file as it is, ours puts the agent's lines in")),
    _act("memory_import", "Write several files into an agent's memory at once, all of them or none.", _AGENT,
         Arg(name="files", kind="files", help="each with its path, and its text or its bytes as base64"),
         Arg(name="existing", required=False, choices=("refuse", "merge", "replace"),
             help="what becomes of files that are there with another text; left out: nothing is written"),
         Arg(name="mode", required=False, choices=("dry_run",), help="write nothing, only tell what would be")),
)  # fmt: skip


def _of(act: Act) -> Tool:
    """An act as an operator has it, who is no agent and names the one that is meant."""
    whose = _OWNER if act.name.startswith("memory_") else _AGENT
    args = [whose if arg.name == "agent" else arg for arg in act.args]
    if act.name == "memory_write":
        args.append(_BASE)
    return _act(act.name, _SENTENCES.get(act.name, act.sentence), *args)


READING: Mapping[str, Tool] = {tool.name: tool for tool in _READS}
"""The tools of `swarmd mcp --operator`."""
ACTING: Mapping[str, Tool] = {tool.name: tool for tool in (*map(_of, ACTS.values()), *_OPERATORS_ACTS)}
"""Those that `--write` adds."""


def with_authority_of(tools: Mapping[str, Tool], operators_only: frozenset[str]) -> dict[str, Tool]:
    """What is left for one who acts with an agent's authority only: nothing that only operators have, and the agent
    may be left out, since it is the one that is meant.
    """
    return {
        name: replace(tool, args=tuple(_own(arg) for arg in tool.args))
        for name, tool in tools.items()
        if name not in operators_only
    }


def _own(arg: Arg) -> Arg:
    return replace(arg, required=False, help="left out: the one acted as") if arg in (_AGENT, _OWNER) else arg
