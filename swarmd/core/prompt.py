"""The prompt of a session, made from a snapshot and a token counter; it reads nothing else, and writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

from swarmd.core import consolidation_prompt
from swarmd.core.consolidation_prompt import consolidation_rules
from swarmd.core.fences import Mark, code_for, render, section, text_of
from swarmd.core.prompt_approvals import approvals_part
from swarmd.core.prompt_memory import memory_part
from swarmd.core.prompt_shared import general_part, readable_part, shared_part
from swarmd.core.prompt_skills import skills_part
from swarmd.core.prompt_state import below_part, files_part, keys_part
from swarmd.core.prompt_work import handoffs_part, last_part, sent_part, time_part, why_part
from swarmd.core.room import Count, corrected
from swarmd.core.sections import Part
from swarmd.core.sessions import CONSOLIDATE
from swarmd.core.snapshot import Prompt, Section, Snapshot
from swarmd.core.standing import standing_for

PARTS = (
    skills_part, shared_part, readable_part, general_part, memory_part, files_part, keys_part, below_part,
    handoffs_part, sent_part, approvals_part, last_part, why_part, time_part,
)  # fmt: skip
"""The sections of the user part, from what changes least to what changes most: a provider's cache of the beginning
stays good for as long as nothing before it has changed."""
UNMENTIONED = frozenset({"skills", "shared", "readable", "general", "approvals"})
"""Sections that are not even named where they are empty: most agents never have anything in them."""

OPENING = "opens this message: this is its code"
"""The words of the first mark; it says the code before any foreign text has been read."""


def assemble(snapshot: Snapshot, count: Callable[[str], int], *, standing: str | None = None) -> Prompt:
    """The prompt. Equal snapshots (and counts) give equal bytes.

    The system part is the agent's own system prompt, byte for byte, and `standing` (None: the rules for its kind of
    runner). The user part is the sections, fenced by a code that stands in no text of either part.
    """
    counted = corrected(count, snapshot.token_ratio)
    system, parts = _made(snapshot, counted, standing)
    fenced = [section(part.name, part.about, part.pieces) for part in parts]
    texts = [system, *(text_of(piece) for pieces in fenced for piece in pieces)]
    code = code_for(snapshot.fence, snapshot.agent.name, texts)
    fenced[0] = (Mark(words=OPENING), *fenced[0])
    rendered = [render(pieces, code) for pieces in fenced]
    sections = [Section(name="system", tokens=counted(system))]
    sections += [
        Section(name=part.name, tokens=counted(text), left_out=part.left_out)
        for part, text in zip(parts, rendered, strict=True)
    ]
    tokens = sum(each.tokens for each in sections) + snapshot.token_overhead
    # Asked for again: a counter remembers.
    uncorrected = sum(count(text) for text in (system, *rendered) if text)
    return Prompt(
        system=system, user="".join(rendered), tokens=tokens, sections=tuple(sections),
        ends=tuple(accumulate(map(len, rendered))), ratio=snapshot.token_ratio, overhead=snapshot.token_overhead,
        counted=uncorrected,
    )  # fmt: skip


def _made(snapshot: Snapshot, count: Count, standing: str | None) -> tuple[str, list[Part]]:
    """The system part, and the sections before they are fenced."""
    kind = snapshot.agent.runner_kind
    if snapshot.trigger.kind == CONSOLIDATE:
        return consolidation_rules(kind), [make(snapshot, count) for make in consolidation_prompt.PARTS]
    rules = standing
    if rules is None:
        rules = standing_for(kind, persistent=snapshot.agent.memory.persistent)
    made = [make(snapshot, count) for make in PARTS]
    parts = [part for part in made if part.pieces or part.name not in UNMENTIONED]
    return system_part(snapshot.agent.system_prompt, rules), parts


def system_part(system_prompt: str, standing: str) -> str:
    """The system prompt, untouched, then the standing rules."""
    return f"{system_prompt}\n\n{standing}" if system_prompt else standing
