"""The prompt that a session was given, made again from what is kept; it is shown only where it is the very same."""

from __future__ import annotations

import os

from swarmd.errors import Refused
from swarmd.service.view import JSON, View
from swarmd.session.given_again import prompt_again
from swarmd.session.tokens import TokenCounter
from swarmd.store.windows import Row


def prompt_text(view: View, row: Row) -> dict[str, JSON]:
    """`system` and `user` with `from` "rebuilt", or nulls and `why_not`. Prompts themselves are not kept."""
    counter = TokenCounter(None, os.environ, lambda _warning: None)
    try:
        made = prompt_again(view.connection, row, counter.count, str(view.places.state))
    except Refused as gone:
        return {"from": None, "system": None, "user": None, "why_not": str(gone)}
    return {"from": "rebuilt", "system": made.system, "user": made.user, "why_not": None}
