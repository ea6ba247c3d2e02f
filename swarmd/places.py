"""Where agent files, state, sockets and settings are, by option, environment and folder; it imports next to nothing.

`places` decides, and asks the file system only which folders exist; `make_runtime` makes the one for sockets.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from swarmd.errors import BadInput, Failed

LOCAL_STATE = ".swarmd"
SYSTEM_AGENTS = Path("/etc/swarmd/agents.d")
SYSTEM_STATE = Path("/var/lib/swarmd")
SYSTEM_RUNTIME = Path("/run/swarmd")

# A socket's path has at most 107 bytes (sun_path). Names in the runtime folder take what is left.
SOCKET_PATH_BYTES = 107
SOCKET_NAME_BYTES = 40
_RUNTIME_BYTES = SOCKET_PATH_BYTES - SOCKET_NAME_BYTES - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOptions:
    """The global options of the command line that name places."""

    agents: str | None = None
    state: str | None = None
    runtime: str | None = None
    config: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Absolute paths. `config_is_named`: someone asked for that settings file, so it must exist."""

    agents: Path
    state: Path
    runtime: Path
    config: Path
    config_is_named: bool = False
    runtime_is_named: bool = False

    @property
    def is_system(self) -> bool:
        """Whether the state is the system's; acting commands on any other say which one it is."""
        return self.state == SYSTEM_STATE

    def as_json(self) -> dict[str, str]:
        """The four places, for `--json`."""
        return {name: str(getattr(self, name)) for name in ("agents", "state", "runtime", "config")}


def places(
    options: PlaceOptions,
    environ: Mapping[str, str],
    cwd: Path,
    uid: int,
    *,
    is_folder: Callable[[Path], bool] = Path.is_dir,
) -> Places:
    """Where everything is. An option wins over SWARMD_*, that over systemd's variable, that over what is found."""
    local_state = cwd / LOCAL_STATE
    is_local = is_folder(local_state)
    agents = _named("--agents", options.agents, environ, "SWARMD_AGENTS", cwd)
    if agents is None:
        configuration = _of_systemd(environ, "CONFIGURATION_DIRECTORY")
        found = cwd / "agents.d" if is_local else SYSTEM_AGENTS
        agents = configuration / "agents.d" if configuration is not None else found
    state = _named("--state", options.state, environ, "SWARMD_STATE", cwd)
    state = state or _of_systemd(environ, "STATE_DIRECTORY")
    if state is None:
        beside = agents.parent / LOCAL_STATE if options.agents is not None else SYSTEM_STATE
        state = local_state if is_local else beside
    runtime = _named("--runtime", options.runtime, environ, "SWARMD_RUNTIME", cwd)
    runtime = runtime or _of_systemd(environ, "RUNTIME_DIRECTORY")
    if runtime is not None and not _is_short(runtime):
        raise BadInput(
            f"the runtime folder {runtime} is too long for a socket's path: it has {len(os.fsencode(runtime))} bytes, "
            f"{_RUNTIME_BYTES} are allowed; name a shorter one with --runtime"
        )
    config = _named("--config", options.config, environ, "SWARMD_CONFIG", cwd)
    return Places(
        agents=agents,
        state=state,
        runtime=runtime or _own_runtime(state, environ, uid, is_folder),
        config=config or agents.parent / "swarmd.toml",
        config_is_named=config is not None,
        runtime_is_named=runtime is not None,
    )


def make_runtime(found: Places, uid: int) -> None:
    """Make the folder for sockets where it is not there, and refuse one that somebody else put in its place."""
    path = found.runtime
    try:
        path.mkdir(mode=0o700, parents=found.runtime_is_named, exist_ok=True)
        status = os.lstat(path) if not found.runtime_is_named else os.stat(path)
    except OSError as error:
        raise Failed(f"the runtime folder {path} cannot be made: {error.strerror or error}") from error
    problem = _runtime_problem(status, uid, is_named=found.runtime_is_named or path == SYSTEM_RUNTIME)
    if problem is not None:
        raise Failed(f"the runtime folder {path} {problem}; remove it, or name another with --runtime")


def _runtime_problem(status: os.stat_result, uid: int, *, is_named: bool) -> str | None:
    """A name in a shared temp folder can be taken by anyone who knows it, before we come."""
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISDIR(status.st_mode):
        return "is no folder"
    if is_named:
        return "can be written by everyone" if mode & stat.S_IWOTH else None
    if status.st_uid != uid:
        return f"belongs to uid {status.st_uid}, not to uid {uid}"
    return f"is open to others (mode {mode:04o})" if mode & 0o077 else None


def _named(
    option: str, value: str | None, environ: Mapping[str, str], variable: str, cwd: Path
) -> Path | None:
    """The path of an option, else of our variable; one that is empty is a mistake, a variable's counts as not set."""
    if value == "":
        raise BadInput(f"{option}: expected a path, found ''")
    given = value if value is not None else environ.get(variable) or None
    return Path(os.path.abspath(cwd / given)) if given is not None else None


def _of_systemd(environ: Mapping[str, str], variable: str) -> Path | None:
    """The first of the folders that systemd lists, with colons between them."""
    return _absolute(environ.get(variable, "").split(":", 1)[0])


def _absolute(text: str) -> Path | None:
    """Other programs' variables name absolute paths, or nothing that we know how to read."""
    return Path(os.path.normpath(text)) if text.startswith("/") else None


def _own_runtime(
    state: Path, environ: Mapping[str, str], uid: int, is_folder: Callable[[Path], bool]
) -> Path:
    """One folder a state, by whatever path the state is named; the first of several that is short enough."""
    if state == SYSTEM_STATE and is_folder(SYSTEM_RUNTIME):
        # Where the unit's RUNTIME_DIRECTORY is: operators' shells do not have that variable.
        return SYSTEM_RUNTIME
    digest = hashlib.sha256(os.fsencode(os.path.realpath(state))).hexdigest()[:12]
    user_runtime = _absolute(environ.get("XDG_RUNTIME_DIR", ""))
    if user_runtime is not None:
        found = user_runtime / f"swarmd-{digest}"
        if is_folder(found.parent) and _is_short(found):
            return found
    shared = Path("/tmp")  # noqa: S108 - make_runtime refuses what is not ours
    name = f"swarmd-{uid}-{digest}"
    named = _absolute(environ.get("TMPDIR", "")) or shared
    return named / name if _is_short(named / name) else shared / name


def _is_short(path: Path) -> bool:
    return len(os.fsencode(path)) <= _RUNTIME_BYTES
