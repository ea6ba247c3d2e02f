"""Errors by whose fault they are, each with the exit status a user sees; the sentence says what, where, why, next.

INTERFACE: 0 done, 1 it failed, 2 wrong usage or bad input, 3 refused, 4 no such thing, 5 the store cannot be
used or another daemon has it, 6 busy.
"""

from typing import ClassVar


class SwarmdError(Exception):
    """Base of everything a user may be told in one sentence; `exit_status` is the command's exit status."""

    exit_status: ClassVar[int] = 1
    kind: ClassVar[str] = "failed"


class Failed(SwarmdError):
    """What was asked for was tried and did not succeed."""


class BadInput(SwarmdError):
    """Wrong usage, or a value that can never be right."""

    exit_status = 2
    kind = "bad_input"


class Refused(SwarmdError):
    """Not allowed: authority, a move the handoff's status does not permit, or a limit."""

    exit_status = 3
    kind = "refused"


class NotFound(SwarmdError):
    """There is no such agent, key, handoff, session, revision or file."""

    exit_status = 4
    kind = "not_found"


class StoreUnusable(SwarmdError):
    """The store is damaged, newer than the program, missing beside other state, or held by another daemon."""

    exit_status = 5
    kind = "store"


class Busy(SwarmdError):
    """The agent already runs, or something else must end first."""

    exit_status = 6
    kind = "busy"


NO_UTF8 = "what was given must be UTF-8; it holds bytes that are not"
"""The sentence for a text that no store and no socket takes, wherever that shows."""

KINDS: dict[str, type[SwarmdError]] = {
    cls.kind: cls for cls in (Failed, BadInput, Refused, NotFound, StoreUnusable, Busy)
}
