"""Reads that take longer than the loop has time for: asked in a thread, on a connection of its own."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from swarmd.core.wire import Message, Reply
from swarmd.core.world import Actor
from swarmd.errors import NO_UTF8, BadInput, Failed, SwarmdError
from swarmd.session.ports import Ports
from swarmd.store.connections import StoreError, reading
from swarmd.store.past import Past, world_at


async def looked_up(ports: Ports, actor: Actor, message: Message, past: Past | None) -> Reply:
    """The answer of a read on what is saved; what the session has staged is not in it."""
    try:
        return Reply(value=await asyncio.to_thread(_read, ports, actor, message, past))
    except (SwarmdError, StoreError, OSError) as error:
        return sorry(error)
    except UnicodeEncodeError:
        return sorry(BadInput(NO_UTF8))


def _read(ports: Ports, actor: Actor, message: Message, past: Past | None) -> Any:
    with suppress(StoreError, OSError):  # what there is is searched, and the answer says until when
        ports.make_index()
    connection = ports.reader if ports.own_reader is None else ports.own_reader()
    with reading(connection):
        world = world_at(connection, ports.clock.now(), past)
        return ports.read(actor, world, message.call, message.args, connection)


def sorry(error: Exception) -> Reply:
    """The answer to what went wrong."""
    if isinstance(error, SwarmdError):
        return Reply(error=str(error), kind=error.kind)
    return Reply(error=f"the store did not answer: {error}", kind=Failed.kind)
