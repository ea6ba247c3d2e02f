"""What is judged of memory, its upkeep and its schedule from several fields of an agent file."""

from __future__ import annotations

from swarmd.config.kinds import Kinds
from swarmd.config.model import AgentFile, MemoryTable
from swarmd.config.problems import Complaint
from swarmd.core.memory import FIRST_FILE, matches


def spanning_memory(model: AgentFile, kinds: Kinds) -> list[Complaint]:
    """Fields of these tables that do not go together."""
    return [*_memory(model), *_consolidate(model), *_consolidator(model, kinds), *_adaptive(model)]


def _memory(model: AgentFile) -> list[Complaint]:
    memory, found = model.memory, []
    if not memory.persistent:
        for name, given in (
            ("log", memory.log),
            ("summarizer_model", memory.summarizer_model),
            ("summarizer_command", memory.summarizer_command),
        ):
            if given:
                text = "is for a memory that is kept, and persistent = false keeps none"
                found.append(Complaint(path=("memory", name), text=text))
    found += _log(memory) if memory.persistent and memory.log else []
    if memory.summarizer_model is not None and memory.summarizer_command:
        text = "only one of it and `summarizer_model` may be there"
        found.append(Complaint(path=("memory", "summarizer_command"), text=text))
    room = min(memory.prompt_tokens, memory.context_tokens or memory.prompt_tokens)
    full = int(room * memory.compact_at)
    if memory.summary_tokens is not None and memory.summary_tokens >= full:
        text = f"must be below compact_at times the memory's room, {full:,} tokens, or each summary is summarized again"
        found.append(Complaint(path=("memory", "summary_tokens"), text=text))
    return found + _shared(memory)


def _log(memory: MemoryTable) -> list[Complaint]:
    """Rules of MEMORY.md that a log in it cannot live with."""
    texts = (
        (
            memory.read_only,
            f"is written into {FIRST_FILE}, and read_only keeps this agent's sessions from writing it",
        ),
        (
            memory.approval,
            f"adds to {FIRST_FILE} with each session, and approval would hold each: leave it out there",
        ),
    )
    return [
        Complaint(path=("memory", "log"), text=text) for globs, text in texts if matches(FIRST_FILE, globs)
    ]


def _shared(memory: MemoryTable) -> list[Complaint]:
    found: list[Complaint] = []
    names: set[str] = set()
    for index, folder in enumerate(memory.shared):
        if folder.name in names:
            found.append(
                Complaint(path=("memory", "shared", index, "name"), text=f"{folder.name!r} is listed twice")
            )
        names.add(folder.name)
        if folder.approval and not folder.write:
            text = "is for a folder that it may write: add write = true"
            found.append(Complaint(path=("memory", "shared", index, "approval"), text=text))
    return found


def _consolidate(model: AgentFile) -> list[Complaint]:
    table, found = model.consolidate, []
    if table.cron is not None and table.after is not None:
        found.append(
            Complaint(
                path=("consolidate", "after"), text="only one of cron and after may be there, and cron is"
            )
        )
    asked = table.cron is not None or table.after is not None
    if asked and not model.memory.persistent:
        text = "there is no memory to put in order: persistent = false"
        found.append(Complaint(path=("consolidate",), text=text))
    if table.command and table.model is not None:
        found.append(
            Complaint(path=("consolidate", "command"), text="only one of it and `model` may be there")
        )
    return found


def _consolidator(model: AgentFile, kinds: Kinds) -> list[Complaint]:
    """Whether there is anybody to put the memory in order: a model, or a program of its own."""
    table, kind = model.consolidate, str(model.runner.get("kind"))
    if kind not in kinds:
        return []
    if table.command:
        if table.tokens_per_session is None:
            return []
        text = "is for a model: a command does not tell how many tokens it uses"
        return [Complaint(path=("consolidate", "tokens_per_session"), text=text)]
    found = []
    if table.model is not None and "model" not in kinds[kind].options.model_fields:
        text = f"the runner {kind!r} has no model to replace: give `command`"
        found.append(Complaint(path=("consolidate", "model"), text=text))
    asked = table.cron is not None or table.after is not None
    if asked and kind == "command" and table.model is None:
        text = "is missing: the runner is a command, which would do the agent's own work"
        found.append(Complaint(path=("consolidate", "command"), text=text))
    if table.tokens_per_session is not None and "tokens_per_session" not in kinds[kind].measures:
        text = f"a limit that the runner cannot measure: {kind!r} tells too late, or not, how many tokens it uses"
        found.append(Complaint(path=("consolidate", "tokens_per_session"), text=text))
    return found


def _adaptive(model: AgentFile) -> list[Complaint]:
    adaptive = model.schedule.adaptive
    if adaptive is not None and adaptive.max < adaptive.min:
        return [Complaint(path=("schedule", "adaptive", "max"), text="must not be below min")]
    return []
