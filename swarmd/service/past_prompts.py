"""The prompt that a session was given, made again from what is kept; it is shown only where it is the very same."""

from __future__ import annotations

import os

from swarmd.core.digests import prompt_digest
from swarmd.core.prompt import assemble
from swarmd.errors import Refused
from swarmd.service.view import JSON, View
from swarmd.session.tokens import TokenCounter
from swarmd.store.bases import rebuilt
from swarmd.store.queries import Row


def prompt_text(view: View, row: Row) -> dict[str, JSON]:
    """`system` and `user` with `from` "rebuilt", or nulls and `why_not`. Prompts themselves are not kept."""
    try:
        made = assemble(
            rebuilt(view.connection, row), TokenCounter(None, os.environ, lambda _warning: None).count
        )
    except Refused as gone:
        return _none(str(gone))
    if prompt_digest(made.system, made.user) != row["prompt_hash"]:
        return _none(
            "made again it comes out differently: by another version of swarmd, or with other token counts"
        )
    return {"from": "rebuilt", "system": made.system, "user": made.user, "why_not": None}


def _none(why: str) -> dict[str, JSON]:
    return {"from": None, "system": None, "user": None, "why_not": why}
