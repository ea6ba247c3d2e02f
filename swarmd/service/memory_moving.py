"""A memory folder whole, to be taken elsewhere: every file to the byte, archives too."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from swarmd.core.documents import memory_doc
from swarmd.service.view import JSON, Args, View, items

if TYPE_CHECKING:
    from swarmd.core.world import Document


def memory_export(view: View, args: Args) -> JSON:
    """All files of an agent's memory with their bytes, as they are now."""
    agent = view.memory_of(args)
    found = (view.world.document(agent, file.path) for file in view.world.files(agent))
    return items(
        [_whole(document) for document in found if document is not None and document.data is not None]
    )


def _whole(document: Document) -> JSON:
    data = document.data or b""
    shown = data.decode("utf-8", "replace")
    raw = None if shown.encode() == data else base64.b64encode(data).decode()
    return {**memory_doc(document), "text": shown if raw is None else None, "base64": raw}
