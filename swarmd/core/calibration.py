"""How far our counts of tokens are from a provider's, learnt from the first requests of an agent's last sessions.

Each session shows one pair: what we count in its prompt (and in the tools that its runner says it sends along), and
what the provider counted in the first request. Where the runner tells of its tools nothing else is sent, and one ratio
says all. Where it does not, because the client is a program with instructions of its own, a line is laid through the
pairs: its slope is the ratio, and what no prompt explains is the overhead. While all prompts have one size a slope of 1
is as good as any other, and is taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from swarmd.core.agent import Agent

LOOKED_AT = 20
"""The last sessions that count: an agent's mix of prose, code and data changes slowly."""
STEPS_OF_ONE = 20
"""Steps of 5 %: the ratio stands in the prompt's budgets, and a prompt should not change for less."""
LEAST, MOST = 0.5, 2.5
"""No tokenizer is further from ours; beyond, something else was counted."""
_FAITH = 0.1
"""As much spread of the prompts' sizes (a part of their mean) is worth as much as what we believe without any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One session's first request: `ours` is our count of the prompt, `tools` that of what the runner has said it
    sends beside it (None: it has not), `theirs` the provider's of all.
    """

    ours: int
    theirs: int
    tools: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """An estimate is `ratio` times our count of the prompt, and `overhead` tokens."""

    ratio: float = 1.0
    overhead: int = 0


def measured_as(agent: Agent) -> str:
    """What the counts of an agent's sessions hang on beside its texts: the kind of runner and the model asked for."""
    return f"{agent.runner_kind}:{agent.runner_options.get('model') or ''}"


def correction(pairs: Sequence[Pair]) -> Correction:
    """The correction that the newest of these pairs (newest first) call for; none gives none."""
    usable = [pair for pair in pairs if pair.ours > 0 and pair.theirs > 0][:LOOKED_AT]
    if not usable:
        return Correction()
    tools = usable[0].tools
    if tools is not None:
        alike = [pair for pair in usable if pair.tools is not None]
        ratio = _stepped(
            sum(pair.theirs for pair in alike) / sum(pair.ours + (pair.tools or 0) for pair in alike)
        )
        return Correction(ratio=ratio, overhead=math.ceil(tools * ratio))
    alike = [pair for pair in usable if pair.tools is None]
    ratio = _stepped(_slope(alike))
    if _rest(alike, ratio) < 0:
        # Nothing is sent in negative amounts: the tokenizer is the thriftier one.
        ratio = _stepped(sum(pair.theirs for pair in alike) / sum(pair.ours for pair in alike))
    return Correction(ratio=ratio, overhead=max(round(_rest(alike, ratio)), 0))


def _slope(pairs: Sequence[Pair]) -> float:
    """The slope of the line through the pairs, drawn towards 1 while their sizes hardly differ."""
    mean_ours = sum(pair.ours for pair in pairs) / len(pairs)
    mean_theirs = sum(pair.theirs for pair in pairs) / len(pairs)
    spread = sum((pair.ours - mean_ours) ** 2 for pair in pairs)
    together = sum((pair.ours - mean_ours) * (pair.theirs - mean_theirs) for pair in pairs)
    faith = (_FAITH * mean_ours) ** 2
    return (together + faith) / (spread + faith)


def _rest(pairs: Sequence[Pair], ratio: float) -> float:
    """What the ratio leaves unexplained, in tokens."""
    rests = sorted(pair.theirs - ratio * pair.ours for pair in pairs)
    return (
        rests[(len(rests) - 1) // 2] + rests[len(rests) // 2]
    ) / 2  # the median: one odd session is no matter


def _stepped(ratio: float) -> float:
    return min(max(round(ratio * STEPS_OF_ONE) / STEPS_OF_ONE, LEAST), MOST)
