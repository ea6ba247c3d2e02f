"""Sessions that still stand as running though the daemon that ran them is dead: a person who looks is told."""

from __future__ import annotations

import os
from collections.abc import Iterable

from swarmd.cli import output
from swarmd.cli.invocation import Invocation
from swarmd.core.counts import counted


def tell_left_running(invocation: Invocation, states: Iterable[object]) -> None:
    """Of sessions in these states some may be shown as running. Where nobody holds the state none is: say so."""
    number = sum(state == "running" for state in states)
    if not number or invocation.in_session:
        return
    state = invocation.places().state
    if not os.access(state, os.R_OK):
        return  # a daemon has answered

    from swarmd.store import opening  # whoever reads the store by himself has it already

    if opening.is_locked(state):
        return
    sessions = counted(number, "session")
    was = "was" if number == 1 else "were"
    output.note(
        f"no daemon runs: {sessions} shown as running {was} left by one that died, and will be `lost` with the next "
        "start, or the next command that acts"
    )
