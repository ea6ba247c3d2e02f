"""The names users give (agents, keys) and the limits on what a session may write; nothing here does I/O."""

from __future__ import annotations

import re

RESERVED_NAMES = frozenset({"operator", "all", "self", "children", "system"})
AGENT_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)
KEY_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}", re.ASCII)

VALUE_BYTES = 64 * 1024
KEYS_PER_AGENT = 256
HANDOFF_BYTES = 8 * 1024
REPORT_BYTES = 2 * 1024
REASON_BYTES = 2 * 1024
DEDUPE_BYTES = 128


def agent_name_problem(name: str) -> str | None:
    """Why `name` may not name an agent, or None where it may."""
    if name in RESERVED_NAMES:
        return f"the name {name!r} is reserved"
    if not AGENT_NAME.fullmatch(name):
        return (
            f"an agent's name has 1 to 63 of a-z, 0-9, '_' and '-', and starts with a letter or digit; "
            f"{name[:80]!r} does not"
        )
    return None


def key_name_problem(key: str) -> str | None:
    """Why `key` may not name a context key, or None where it may."""
    if KEY_NAME.fullmatch(key):
        return None
    return f"a key's name has 1 to 128 of A-Z a-z 0-9 _ . : / -; {key[:80]!r} does not"


def text_problem(what: str, text: str, limit: int, *, may_be_empty: bool = False) -> str | None:
    """Why `text` may not be stored as `what` (a noun, as 'a handoff'), or None; `limit` in bytes of UTF-8."""
    if not may_be_empty and not text.strip():
        return f"{what} may not be empty"
    if "\x00" in text:
        return f"{what} may not hold a NUL character"
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return f"{what} must be UTF-8; it holds bytes that are not"
    if size > limit:
        return f"{what} may have {limit} bytes; this one has {size}"
    return None


def unknown_folder(name: str) -> str:
    """The sentence for a shared folder that no agent in force has."""
    return f"no agent has a shared folder {name!r}; swarmd memory shared lists those that files name in memory.shared"


def unknown_agent(name: str) -> str:
    """The sentence for a name that no agent in force has, with what to do next."""
    return f"no agent is named {name!r}; swarmd agent list shows all, and swarmd reload takes up new files"
