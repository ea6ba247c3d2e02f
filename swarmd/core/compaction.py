"""When a memory is to be made small, and what its file then holds: rules on texts and figures, nothing of models.

What is shortened is MEMORY.md, which goes into every prompt; its whole text moves into a file of `archive/`, which does
not. Texts that have to stay what they are to the byte are handled as bytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from swarmd.core import interaction_log
from swarmd.core.agent import Agent, MemoryRules
from swarmd.core.memory import appended
from swarmd.core.room import Count

TOKENS_PER_BYTE = 2.5
"""No text has more tokens than that: a shorter file is not counted. (The estimate and its correction lean high.)"""
POINTER_TOKENS = 60
"""For the line that says where older blocks are."""
HEADING = "## Summary of earlier notes"
FIRST_DELAY, LONGEST_DELAY = timedelta(minutes=5), timedelta(days=1)
"""After a compaction that failed the next one waits, twice as long each time."""
OUTPUT_BYTES = 256 * 1024
"""So much a program may print at least, however small its summary is to be."""
THINKING_TOKENS = 8_000
"""What a model that thinks by itself may take for that, beyond the summary."""
_ABOUT = r"\(Made by swarmd on [0-9: -]+UTC; the whole text is in archive/\S+\.md\.\)"
_SEED = re.compile(rf"{re.escape(HEADING)}\s+{_ABOUT}\s+")
_SEED_ALONE = re.compile(rf"^{_ABOUT}[ \t\r]*\n?", re.MULTILINE)
"""Where somebody has written between the heading and it: its date is none of the notes'."""
_POINTER = re.compile(rb"\(Older blocks are in archive/\S+\.md\.\)\r?\n(\r?\n)?")


# -- when -------------------------------------------------------------------------------------------------------------


def room(rules: MemoryRules) -> int:
    """How many tokens MEMORY.md may have in a prompt, or in the summarizer's window where that is smaller."""
    return rules.room


def due_at(rules: MemoryRules) -> int:
    """From so many tokens on it is to be shortened."""
    return max(int(room(rules) * rules.compact_at), 1)


def summary_most(rules: MemoryRules) -> int:
    """How many tokens a summary is to have at most. Of a small window two of it and the instructions leave room for
    notes.
    """
    usual = min(room(rules) // 2, rules.context_tokens // 5 if rules.context_tokens else room(rules))
    return max(min(rules.summary_tokens or usual, due_at(rules) - 1), 1)


def output_most(rules: MemoryRules) -> int:
    """After so many bytes a program that summarizes is ended: far more than a summary may have."""
    return max(OUTPUT_BYTES, 4 * 16 * summary_most(rules))


ERRORS_BYTES = 4 * 1024 * 1024
"""After so many bytes of standard error, too: more than any program has to say while it makes one summary."""


def may_be_due(rules: MemoryRules, size: int) -> bool:
    """Whether a file of so many bytes has to be counted at all."""
    return size * TOKENS_PER_BYTE >= due_at(rules)


def is_automatic(agent: Agent) -> bool:
    """Whether the agent's memory is shortened without being asked for: it has a summarizer, or a log to move away."""
    rules = agent.memory
    return rules.persistent and bool(rules.summarizer_command or rules.summarizer_model or rules.log)


def delay_after(failures: int) -> timedelta:
    """How long the next compaction waits after so many failures in a row."""
    return min(FIRST_DELAY * 2 ** min(failures - 1, 20), LONGEST_DELAY) if failures else timedelta(0)


# -- by whom ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarizer:
    """Who summarizes: a kind of runner with its options, and its name for people."""

    kind: str
    options: dict[str, Any]
    name: str


def summarizer_of(agent: Agent, *, asked: bool) -> Summarizer | None:
    """Who summarizes this agent's memory; None: nobody is named. An agent that is a model does it itself where it
    keeps a log, or where a person has `asked` for it.
    """
    rules, own = agent.memory, agent.runner_options
    if rules.summarizer_command:
        command = list(rules.summarizer_command)
        kept = {name: own[name] for name in ("workdir", "env", "pass_env") if own.get(name)}
        return Summarizer(kind="command", options={**kept, "command": command}, name=command[0])
    is_model = agent.runner_kind == "anthropic"
    model = rules.summarizer_model or (own.get("model") if is_model and (rules.log or asked) else None)
    if model is None:
        return None
    # Nothing of the agent's work: no tools, no servers, one answer, and no measure of thinking but the model's own.
    options: dict[str, Any] = {
        "model": model, "tools": [], "max_turns": 1,
        "max_tokens": min(summary_most(rules) * 5 // 4 + THINKING_TOKENS, 1_000_000),
    }  # fmt: skip
    same = (
        ("base_url", "credential")
        if rules.summarizer_model
        else ("base_url", "credential", "fallback_models")
    )
    if is_model:
        options |= {name: own[name] for name in same if own.get(name)}
    return Summarizer(kind="anthropic", options=options, name=str(model))


# -- what the file then holds -----------------------------------------------------------------------------------------


def archive_name(at: datetime, taken: Collection[str]) -> str:
    """Where the old text goes: named by the moment in UTC, so that no hour comes twice and names sort as time does.
    `taken`: every path that the folder has or ever had.
    """
    stem = at.astimezone(UTC).strftime("archive/history_%Y-%m-%d_%H-%M-%S")
    known = {path.casefold() for path in taken}
    name, number = f"{stem}.md", 1
    while name in known:
        number += 1
        name = f"{stem}_{number}.md"
    return name


def seeded(summary: str, archive: str, at: datetime) -> bytes:
    """What MEMORY.md begins with from now on."""
    moment = at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    about = f"(Made by swarmd on {moment}; the whole text is in {archive}.)"
    return f"{HEADING}\n\n{about}\n\n{summary.strip()}\n".encode()


def without_seed(text: str) -> str:
    """The notes without swarmd's own words about an earlier summary, which are no notes."""
    if HEADING in text:
        text = _SEED.sub("", text.removeprefix("\ufeff"), count=1)
    return _SEED_ALONE.sub("", text) if "(Made by swarmd on " in text else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A memory with an interaction log: what stands before its blocks, they, oldest first, and what comes after."""

    before: bytes
    blocks: tuple[bytes, ...]
    after: bytes
    strays: tuple[bytes, ...] = ()
    """For each block what somebody has written behind the line that closes it: no part of the log, though in it."""
    heading: int = 0
    """Where in `before` the log's heading begins."""


def log_of(data: bytes) -> Log | None:
    """The parts of a memory with a log; None where it has none."""
    text = data.decode("utf-8", "surrogateescape")
    place = interaction_log.section(text)
    if place is None:
        return None
    start, end = place
    found = [block for block in interaction_log.blocks(text) if start <= block.start < end]
    starts = [block.start for block in found]
    ends = [
        (block.end, after) for block, after in zip(found, [*starts[1:], end] if found else [], strict=True)
    ]
    parts = [text[a:b].encode("utf-8", "surrogateescape") for a, b in pairwise([0, *(starts or [end]), end])]
    return Log(
        before=parts[0], blocks=tuple(parts[1:]) if starts else (),
        after=text[end:].encode("utf-8", "surrogateescape"),
        strays=tuple(text[a:b].encode("utf-8", "surrogateescape") for a, b in ends),
        heading=len(text[:start].encode("utf-8", "surrogateescape")),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """A memory whose log has lost its oldest blocks to the archive."""

    before: bytes
    rest: bytes
    end: bytes

    def text(self, archive: str) -> bytes:
        """The whole, with a line that says where the older blocks are."""
        pointer = f"(Older blocks are in {archive}.)".encode()
        return self.before + pointer + self.end * 2 + self.rest


def rotated(data: bytes, rules: MemoryRules, count: Count) -> Rotation | str:
    """The memory with the newest blocks of its log alone, as many as a summary might have tokens; a sentence where
    that is not to be had.
    """
    log = log_of(data)
    if log is None or not log.blocks:
        return "its interaction log has no blocks that could move into the archive"
    before = _POINTER.sub(b"", _with_strays(log))
    beside = count(_text(before + log.after)) + POINTER_TOKENS
    if beside >= due_at(rules):
        return (
            f"what stands beside its interaction log has {beside:,} tokens, of {due_at(rules):,} that it may have: "
            "prune it, or set a summarizer"
        )
    left = min(summary_most(rules), due_at(rules) - 1 - beside)
    kept: list[bytes] = []
    alone = [block[: len(block) - len(stray)] for block, stray in zip(log.blocks, log.strays, strict=True)]
    for block in reversed(alone):
        left -= count(_text(block))
        if left < 0:
            break
        kept.insert(0, block)
    if len(kept) == len(log.blocks):
        return (
            "all blocks of its interaction log are within summary_tokens already: set a summarizer, a smaller "
            "summary_tokens, or give a summary with --summary-file"
        )
    end = b"\r\n" if log.blocks[0].endswith(b"\r\n") else b"\n"
    return Rotation(before=before, rest=b"".join(kept) + log.after, end=end)


def _with_strays(log: Log) -> bytes:
    """What stands before the blocks, with the strays at the end of the notes: where their block may go they stay."""
    strays = b"".join(stray for stray in log.strays if stray.strip())
    notes, heading = log.before[: log.heading], log.before[log.heading :]
    if not strays:
        return log.before
    end = b"\r\n" if b"\r\n" in strays else b"\n"
    return (
        appended(notes.rstrip(), strays.strip(b"\r\n")) + end + heading
        if notes.strip()
        else strays + end + heading
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
