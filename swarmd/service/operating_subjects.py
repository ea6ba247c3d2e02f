"""What only an operator does about the subjects of an agent: have one forgotten."""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from swarmd.core.owners import subject_owner
from swarmd.errors import BadInput, Busy, NotFound
from swarmd.service.caller import Operator
from swarmd.service.view import JSON, Args, subject_of
from swarmd.store import audit, moving, owners
from swarmd.store.connections import Connection, StoreError
from swarmd.store.indexing import SEARCH_SECONDS

if TYPE_CHECKING:
    from swarmd.service.acting import Service


def forget_subject(service: Service, caller: Operator, args: Args) -> JSON:
    """Remove all that is kept about a subject of an agent: its folder with all its past, and what sessions about it
    said. What they wrote elsewhere (keys, handoffs, reports, shared folders) is the agent's, and stays.

    Stopped half way, it can be called again.
    """
    view = service.view(caller)
    agent, subject = view.agent(args), subject_of(args)
    if subject is None:
        raise BadInput("subject is missing: name whom or what is to be forgotten")
    owner, folders = subject_owner(agent, subject), service.store.folders
    if subject not in owners.subjects(view.connection, agent) and owner not in folders.about_subjects(
        [agent]
    ):
        raise NotFound(
            f"{agent} has nothing about {subject!r}; swarmd memory subjects {agent} lists what it has"
        )
    found = owners.sessions_about(view.connection, agent, subject)
    if any(row["state"] != "ended" for row in found):
        raise Busy(f"a session of {agent} about {subject} waits or runs; wait for it, or cancel it")
    # First what no row would tell of any more.
    state = service.places.state
    for place in (*(state / "sessions" / str(row["id"]) for row in found), state / "homes" / owner):
        shutil.rmtree(place, ignore_errors=True)

    def work(connection: Connection) -> list[str]:
        audit.write(connection, at=service.now(), by=caller.by, act="forget_subject", target=owner)
        return owners.forget_subject(connection, agent, subject)

    texts = service.store.writer.do(work)
    folders.remove(owner)
    service.store.writer.do(lambda connection: moving.forget_texts(connection, texts))
    with suppress(StoreError, OSError):  # the index is made of what there is, sooner or later
        service.index.look_again_at(row["id"] for row in found)
        service.index.bring_up_to_date(SEARCH_SECONDS)
    return {"agent": agent, "subject": subject, "sessions": len(found), "forgotten": True}
