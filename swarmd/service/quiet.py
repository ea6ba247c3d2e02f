"""When an agent's memory is put in order next: what the daemon goes by and `swarmd why` tells."""

from __future__ import annotations

from swarmd.core.agent import Agent
from swarmd.core.consolidation import is_asked, problem_of
from swarmd.core.consolidation_due import Due, due
from swarmd.store import consolidated
from swarmd.store.connections import Connection


def next_consolidation(connection: Connection, agent: Agent) -> Due | None:
    """The moment and why; None where the agent's file asks for none."""
    if not is_asked(agent.consolidate):
        return None
    if problem := problem_of(agent):
        return Due(at=None, reason=problem)
    return due(agent.consolidate, agent.when.timezone, consolidated.facts(connection, agent.name))
