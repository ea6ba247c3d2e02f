"""The names of texts: their digests. By itself, so that reading commands need not load more for it."""

from __future__ import annotations

import hashlib


def digest(data: bytes) -> str:
    """The name of a blob: SHA-256, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def prompt_digest(system: str, user: str) -> str:
    """The hash by which a session's prompt is known."""
    return hashlib.sha256(f"{system}\x00{user}".encode("utf-8", "surrogatepass")).hexdigest()
