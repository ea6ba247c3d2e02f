"""An operator's yes or no to what a session wanted written and had to wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarmd.core.approvals import Approval, lines_aside
from swarmd.core.changes import AppendMemory, WriteMemory
from swarmd.core.names import REASON_BYTES, text_problem
from swarmd.errors import BadInput, Refused
from swarmd.service.caller import Operator
from swarmd.service.reading import read
from swarmd.service.sessions_named import next_part
from swarmd.service.view import JSON, Args, number, text
from swarmd.store import approvals, approving, trees
from swarmd.store.commit import Committed
from swarmd.store.connections import Connection

if TYPE_CHECKING:
    from swarmd.core.agent import Agent
    from swarmd.service.acting import Service


def approval_approve(service: Service, caller: Operator, args: Args) -> JSON:
    """Write what was held, judged anew as the agent's; its hooks are asked and told as for a session's own commit."""
    found = _open(service, number(args, "id"))
    approving.must_be_whole(found)
    approving.must_be_trusted(service.store.reader(), found)
    agent = trees.tree_of(service.store.reader()).agent(found.agent)
    for owner in {c.agent for c in found.changes if isinstance(c, WriteMemory | AppendMemory)}:
        service.store.folders.settle(owner)
    _ask(service, caller, found, agent)
    part = next_part(service.store.reader(), found.session or 0)

    def work(connection: Connection) -> Committed:
        return approving.approve(connection, found.id, by=caller.by, part=part, now=service.now())

    done = service.store.writer.do(work)
    service.publish(done.memory_of)
    service.control.wake()
    if agent is not None and agent.hooks.after_commit:
        service.control.tell_hook(agent, found, caller.by, done)
    return {**_shown(service, caller, found.id), "set_aside": lines_aside(done.folded.conflicts)}


def _ask(service: Service, caller: Operator, found: Approval, agent: Agent | None) -> None:
    """Raises Refused where the agent's hook says no: it stays open."""
    if agent is not None and agent.hooks.before_commit:
        problem = service.control.ask_hook(agent, found, caller.by)
        if problem is not None:
            raise Refused(f"approval {found.id} stays open: {problem}")


def approval_deny(service: Service, caller: Operator, args: Args) -> JSON:
    """Nothing of it is written; the agent is told, with the reason."""
    found, reason = _open(service, number(args, "id")), text(args, "reason", required=False)
    if problem := text_problem("a reason", reason, REASON_BYTES, may_be_empty=True):
        raise BadInput(problem)

    def work(connection: Connection) -> None:
        approving.deny(connection, found.id, by=caller.by, reason=reason, now=service.now())

    service.store.writer.do(work)
    return _shown(service, caller, found.id)


def _open(service: Service, id: int) -> Approval:
    """The approval, which must be open still. Those whose time is over are marked first."""
    found = approvals.by_id(service.store.reader(), id)
    if found.state == "open" and found.state_at(service.now()) == "expired":
        service.store.writer.do(lambda connection: approvals.expire(connection, service.now()))
        found = approvals.by_id(service.store.reader(), id)
    approving.must_be_open(found, service.now())
    return found


def _shown(service: Service, caller: Operator, id: int) -> dict[str, JSON]:
    return dict(read(service.view(caller), "approval_show", {"id": id}))
