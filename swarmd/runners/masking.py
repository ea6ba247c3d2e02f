"""Keeping known secrets out of what is stored of a session: the values as they are, as JSON, in a URL and as base64,
also across chunks. Other disguises are not known here.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

SHORTEST = 8
MASK = b"[secret]"


def mask(data: bytes, secrets: Iterable[str]) -> bytes:
    """`data` with every secret of SHORTEST characters or more replaced."""
    masker = Masker(secrets)
    return masker.feed(data) + masker.close()


def mask_text(text: str, secrets: Iterable[str]) -> str:
    """The same for text."""
    return mask(text.encode("utf-8", "surrogateescape"), secrets).decode("utf-8", "surrogateescape")


def mask_value(value: Any, secrets: Iterable[str]) -> Any:
    """A JSON value with every secret in its texts replaced, also in the names of fields."""
    if isinstance(value, str):
        return mask_text(value, secrets)
    if isinstance(value, Mapping):
        return {mask_text(str(name), secrets): mask_value(inner, secrets) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [mask_value(inner, secrets) for inner in value]
    return value


def forms(secret: str) -> set[bytes]:
    """How a secret looks where programs write it down: as it is, inside a JSON text, in a URL, as base64."""
    raw = secret.encode("utf-8", "surrogateescape")
    in_json = {json.dumps(secret, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    return {
        raw,
        *(text.encode("utf-8", "surrogateescape") for text in in_json),
        quote(raw, safe="").encode(),
        base64.b64encode(raw).rstrip(b"="),
    }


class Masker:
    """Masks a stream. It holds back only what may be the beginning of a secret, so that a log can be followed."""

    def __init__(self, secrets: Iterable[str]) -> None:
        long_enough = {text for text in secrets if len(text) >= SHORTEST}
        self._secrets = sorted({form for text in long_enough for form in forms(text)})
        self._held = b""
        self._covered = 0
        """How many of the held bytes belong to a secret whose mask has been put out already."""

    def feed(self, chunk: bytes) -> bytes:
        """The next masked bytes; some may be held back until more is known."""
        if not self._secrets:
            return chunk
        data = self._held + chunk
        return self._put_out(data, self._undecided_from(data))

    def close(self) -> bytes:
        """What was held back, at the end of the stream."""
        return self._put_out(self._held, len(self._held))

    def _put_out(self, data: bytes, end: int) -> bytes:
        pieces = []
        covered = self._covered
        for start, stop in self._found(data, end):
            if start >= covered:
                pieces += [data[covered:start], MASK]
            covered = max(covered, stop)
        if covered < end:
            pieces.append(data[covered:end])
            covered = end
        self._held = data[end:]
        self._covered = covered - end
        return b"".join(pieces)

    def _found(self, data: bytes, end: int) -> list[tuple[int, int]]:
        """Where secrets stand that start before `end`, also those that overlap others."""
        found = []
        for secret in self._secrets:
            start = data.find(secret)
            while 0 <= start < end:
                found.append((start, start + len(secret)))
                start = data.find(secret, start + 1)
        return sorted(found)

    def _undecided_from(self, data: bytes) -> int:
        """Where the last bytes begin that are the beginning of a secret, and not yet all of it."""
        first = len(data)
        for secret in self._secrets:
            start = data.find(secret[:1], max(0, len(data) - len(secret) + 1))
            while 0 <= start < first:
                if secret.startswith(data[start:]):
                    first = start
                    break
                start = data.find(secret[:1], start + 1)
        return first
