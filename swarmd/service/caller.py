"""Who calls: an operator by name, for himself or with one agent's authority. Sessions come by their desks."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from typing import TYPE_CHECKING

from swarmd.core.world import Actor
from swarmd.errors import NotFound

if TYPE_CHECKING:
    from swarmd.core.tree import Tree

_NO_SHELLS = frozenset({"", "nologin", "false", "sync"})
"""Of accounts that nobody logs in to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """A person. `as_agent`: acts with that agent's authority only, and is recorded so."""

    name: str
    as_agent: str | None = None

    @property
    def by(self) -> str:
        """As history names them."""
        own = f"operator:{self.name}"
        return own if self.as_agent is None else f"{own} as {self.as_agent}"

    def actor(self, tree: Tree) -> Actor:
        """Whom the rules judge. Raises NotFound for an agent that is not in force."""
        if self.as_agent is not None and self.as_agent not in tree:
            raise NotFound(
                f"no agent is named {self.as_agent!r}, so that nobody can act as it; swarmd agent list shows all"
            )
        return Actor(by=self.by, agent=self.as_agent)


def name_of(uid: int) -> str:
    """The login name of a uid, or the number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def this_operator(as_agent: str | None = None) -> Operator:
    """The person who runs this process, by the uid that it has: under sudo that is root."""
    return Operator(name=name_of(os.getuid()), as_agent=as_agent)


def hand_of(uid: int) -> str:
    """Who has edited a file in place that belongs to the daemon's own user, this one. None but that user and root may
    write it: of root's, and of an account that somebody logs in to, it is that user; of a system's account, which
    nobody is, it is not known.
    """
    try:
        account = pwd.getpwuid(uid)
    except KeyError:
        return "unknown"
    is_person = uid == 0 or account.pw_shell.rpartition("/")[2] not in _NO_SHELLS
    return account.pw_name if is_person else "unknown"
