"""A session's end is written whatever comes: a late cancellation, a disk that is full for an hour."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from swarmd.errors import NotFound, Refused, SwarmdError
from swarmd.session.ending import Ending
from swarmd.store.connections import StoreError
from swarmd.store.database import OutcomeUnknown, StoreClosed

log = logging.getLogger("swarmd")
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0


async def surely(
    attempt: Callable[[Ending], Awaitable[str]], ending: Ending, *, agent: str, session: int
) -> str:
    """Make `attempt` end the session, and return its outcome; cancelling the task is too late now and changes nothing.

    Where the store does not take the end, its change set becomes a draft and the session `failed`, for that reason;
    and where it does not take that either, it is tried until it does. After OutcomeUnknown nothing is repeated, nor
    where the store is closed; and where the store says that the session has ended, it has.
    """
    pause = FIRST_PAUSE_SECONDS
    while True:
        ending_now = asyncio.ensure_future(attempt(ending))
        await through(ending_now)
        try:
            return ending_now.result()
        except (OutcomeUnknown, StoreClosed, Refused, NotFound):
            raise
        except Exception as error:  # noqa: BLE001 - whatever it was, a session that runs for ever would be worse
            reason = f"its end could not be written: {_words(error)}"
            log.warning("%s", f"{reason}; trying again", extra={"agent": agent, "session": session})
            if ending.result is not None and not isinstance(error, SwarmdError | StoreError | OSError):
                # No trouble of the store's: something in what the runner gave back cannot be written, now or later.
                ending = replace(ending, outcome="failed", reason=reason, result=None)
                continue
            if ending.outcome == "success":
                # What it did is judged at another time by a person, not after an hour by us.
                ending = replace(ending, outcome="failed", reason=reason)
                continue
        await through(asyncio.ensure_future(asyncio.sleep(pause)))
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


async def through(task: asyncio.Future[Any]) -> None:
    """Wait for its end, whoever cancels the waiter."""
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            continue


def _words(error: Exception) -> str:
    return str(error) or repr(error)
