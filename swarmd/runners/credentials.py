"""A model's credential by reference: `env:NAME`, `file:PATH` or `systemd:NAME`, never the key itself.

An agent's file is kept in history, shown and logged; so it names where the key is, and the key is read at the start
of each session, by the daemon.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator

from swarmd.errors import Failed

BYTES = 16 * 1024
EXPECTED = "env:NAME, file:PATH or systemd:NAME"
_NAMES = {"env": r"[A-Za-z_][A-Za-z0-9_]*", "systemd": r"[A-Za-z0-9_.@-]+", "file": r"[^\0]+"}


def _reference(text: str) -> str:
    where, _, name = text.partition(":")
    pattern = _NAMES.get(where)
    if pattern is None:
        raise ValueError(
            f"expected {EXPECTED}: a credential is named by where it is, and never written here itself"
        )
    if re.fullmatch(pattern, name, re.ASCII if where != "file" else 0) is None or name in (".", ".."):
        raise ValueError(f"expected {EXPECTED}, and what follows {where}: names none")
    return text


Reference = Annotated[str, AfterValidator(_reference)]
"""The type of an option that names a credential."""


def resolve(reference: str, environ: Mapping[str, str], folder: str) -> str:
    """The credential itself; a relative `file:` starts at `folder`. Raises Failed with a sentence that tells nothing of
    its value.
    """
    try:
        where, _, name = _reference(reference).partition(":")
    except ValueError as error:
        raise Failed(f"credential: {error}") from None
    if where == "env":
        text = environ.get(name)
        if text is None:
            raise Failed(f"credential {reference}: the daemon's environment has no {name}")
    elif where == "systemd":
        credentials = environ.get("CREDENTIALS_DIRECTORY")
        if not credentials:
            raise Failed(
                f"credential {reference}: the daemon was given no credentials by systemd; the unit needs "
                f"LoadCredential={name}:/path/of/the/file"
            )
        text = _read(os.path.join(credentials, name), reference)
    else:
        text = _read(os.path.join(folder, name), reference)
    value = text.strip()
    if not value:
        raise Failed(f"credential {reference}: it is empty")
    if not value.isascii() or not value.isprintable() or " " in value:
        raise Failed(f"credential {reference}: it is no single word of ASCII, so it cannot be a key")
    return value


def tables(options: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The tables of a runner's options that may name a credential: the options themselves, and their `mcp_servers`."""
    servers = options.get("mcp_servers")
    return [options, *(servers.values() if isinstance(servers, Mapping) else ())]


def files(options: Mapping[str, Any], folder: str) -> list[str]:
    """The files in which these options say that keys are."""
    named = [str(table.get("credential") or "").partition(":") for table in tables(options)]
    return [os.path.join(folder, name) for where, _, name in named if where == "file"]


def problems(reference: str, environ: Mapping[str, str], folder: str = "/") -> list[str]:
    """Why the credential cannot be had now, as a sentence; none where it can."""
    try:
        resolve(reference, environ, folder)
    except Failed as error:
        return [str(error)]
    return []


def _read(path: str, reference: str) -> str:
    """A file that only its owner may read, and whose owner is this user or root."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise Failed(f"credential {reference}: {path}: {error.strerror}") from None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise Failed(f"credential {reference}: {path} is no regular file")
        # systemd hands its credentials over as 0440, in a folder that only the service's user may enter.
        if found.st_mode & 0o007 or (found.st_mode & 0o077 and not reference.startswith("systemd:")):
            raise Failed(f"credential {reference}: others may read {path}; chmod 600 it")
        if found.st_uid not in (0, os.geteuid()):
            raise Failed(f"credential {reference}: {path} belongs to another user")
        data = os.read(fd, BYTES + 1)
    finally:
        os.close(fd)
    if len(data) > BYTES:
        raise Failed(f"credential {reference}: {path} has more than {BYTES} bytes, so it cannot be a key")
    return data.decode("utf-8", "replace")
