"""The secrets that swarmd knows of a session, and how they are kept out of everything that is stored of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from swarmd.core.digests import digest
from swarmd.core.wire import MemoryTree
from swarmd.errors import Failed, Refused
from swarmd.runners import credentials
from swarmd.runners.masking import Masker, mask, mask_text

NAMES = ("key", "file", "dedupe")
"""The arguments by which things are told apart."""
TEXTS = ("value", "text", "reply", "dedupe", "reason", "key", "file")
"""The arguments of calls that are stored as they come. Names of agents are not: they are looked up, and a secret that
is one would change whom an act is for."""
_SPARE = 4096
"""Characters beyond a limit that are looked at, so that a secret which the limit cuts is seen whole."""


def passed_by(environ: Mapping[str, str]) -> Callable[[Mapping[str, Any], str], tuple[str, ...]]:
    """For runner options and the folder of their file: the values of `pass_env` in this environment, and the
    credentials that they name, also those of `mcp_servers` (of 8 characters or more all are masked).
    """

    def secrets(options: Mapping[str, Any], folder: str) -> tuple[str, ...]:
        passed: list[str] = []
        for table in credentials.tables(options):
            passed += [environ[name] for name in table.get("pass_env") or () if name in environ]
            reference = table.get("credential")
            if isinstance(reference, str):
                with suppress(Failed):  # where there is none, the runner says so
                    passed.append(credentials.resolve(reference, environ, folder))
        return tuple(passed)

    return secrets


@dataclass(frozen=True, slots=True)
class Masking:
    """What is done to all that a session hands in."""

    secrets: tuple[str, ...] = ()

    def text(self, text: str) -> str:
        """The text with every secret replaced, and what is no UTF-8 escaped: it is sure to be stored."""
        plain = text.encode("utf-8", "backslashreplace").decode()
        return mask_text(plain, self.secrets) if self.secrets else plain

    def head(self, text: str, limit: int) -> tuple[str, int]:
        """The first `limit` characters of the masked text, and how many characters are left out after them. No more
        of a long text is looked at than is needed, and none of a secret is shown that goes on beyond what was.
        """
        if len(text) <= limit + _SPARE:
            shown = self.text(text)
            return shown[:limit], max(len(shown) - limit, 0)
        start = text[: limit + _SPARE].encode("utf-8", "backslashreplace")
        # Fed and not closed: what may be the beginning of a secret is held back.
        shown = Masker(self.secrets).feed(start).decode("utf-8", "ignore")
        return shown[:limit], max(len(shown) - limit, 0) + len(text) - limit - _SPARE

    def args(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """A call's arguments, as they may be stored. Raises Refused for a name that holds a secret: masked, two names
        would become one.
        """
        for name in NAMES:
            value = args.get(name)
            if isinstance(value, str) and _is_utf8(value) and self.text(value) != value:
                raise Refused(
                    f"{name}: it holds a secret that was passed to this session, and may not be stored"
                )
        return {
            name: self.text(value) if name in TEXTS and isinstance(value, str) and _is_utf8(value) else value
            for name, value in args.items()
        }

    def tree(self, memory: MemoryTree, base: MemoryTree) -> MemoryTree:
        """A memory folder: files that the session has not touched stay as they are, whatever they hold."""
        if not self.secrets:
            return memory
        known = set(base.files.values())
        files: dict[str, str] = {}
        blobs: dict[str, bytes] = {}
        for path, name in memory.files.items():
            old = memory.blobs[name]
            data = old if name in known else mask(old, self.secrets)
            kept = path if path in base.files else self.text(path)
            files[kept] = name if data == old else digest(data)
            blobs[files[kept]] = data
        return MemoryTree(files=dict(sorted(files.items())), blobs=blobs)


def _is_utf8(text: str) -> bool:
    """Whether the text can be stored at all; what cannot is refused later, with the reason."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
