"""The names of texts: their digests. By itself, so that reading commands need not load more for it."""

from __future__ import annotations

import hashlib


def digest(data: bytes) -> str:
    """The name of a blob: SHA-256, hexadecimal."""
    return hashlib.sha256(data).hexdigest()
