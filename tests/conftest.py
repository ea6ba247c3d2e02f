"""Keeps every test away from the real places of this machine, and finds the processes that tests leave behind."""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

SYSTEM_PLACES = ("/etc/swarmd", "/var/lib/swarmd", "/run/swarmd")
# What systemd, a session or the developer's shell may have set, and what would lead a test to a real place.
FOREIGN = (
    "CONFIGURATION_DIRECTORY", "CREDENTIALS_DIRECTORY", "INVOCATION_ID", "NOTIFY_SOCKET", "RUNTIME_DIRECTORY",
    "STATE_DIRECTORY", "WATCHDOG_PID", "WATCHDOG_USEC", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL", "ANTHROPIC_PROFILE",
)  # fmt: skip
LEAK_GRACE_SECONDS = 5.0

# A slow machine is no fault of the property. (Where CI is set, hypothesis chooses a fixed, patient profile itself.)
if not os.environ.get("CI"):
    hypothesis.settings.register_profile(
        "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("patient")


def _refuse_system_places(event: str, args: tuple[object, ...]) -> None:
    """An audit hook: whoever opens, makes, lists, removes or binds something in a system place is stopped there.

    `stat` is not audited, so a look whether such a place exists goes through, as it does for any user.
    """
    if not args or not event.startswith(("open", "os.", "shutil.", "socket.", "sqlite3.")):
        return
    for arg in args:
        if isinstance(arg, (str, bytes, os.PathLike)):
            path = os.fsdecode(arg).removeprefix("file:")
            if path.startswith(SYSTEM_PLACES):
                raise AssertionError(f"a test reached for the real {path} ({event})")


sys.addaudithook(_refuse_system_places)


@pytest.fixture(scope="session", autouse=True)
def _no_system_place_is_made() -> Iterator[None]:
    """The same for programs that tests start, which have no audit hook: at the end at least it is seen."""
    absent = [place for place in SYSTEM_PLACES if not os.path.lexists(place)]
    yield
    made = [place for place in absent if os.path.lexists(place)]
    assert not made, f"a program that a test started has made {', '.join(made)}"


@pytest.fixture(scope="session")
def _short_folder() -> Iterator[Path]:
    """One short, private folder a process: a Unix socket's path has room for 107 bytes, tmp_path often takes 80."""
    folder = Path(tempfile.mkdtemp(prefix="sw-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _nowhere(_short_folder: Path) -> Iterator[None]:
    """Home, XDG folders and working folder are new and empty; no variable of swarmd or systemd is set."""
    home = _short_folder / f"h{next(_numbers)}"
    home.mkdir(mode=0o700)
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("SWARMD_", "XDG_")) or name in FOREIGN]:
            patch.delenv(name)
        patch.setenv("HOME", str(home))
        patch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
        patch.setenv("XDG_STATE_HOME", str(home / ".local/state"))
        patch.setenv("XDG_RUNTIME_DIR", str(home))
        patch.chdir(home)
        yield


@pytest.fixture(autouse=True)
def _log_stays() -> Iterator[None]:
    """What a command run in this process does to the log (`swarmd run` alone shows errors) ends with its test."""
    root, own = logging.getLogger(), logging.getLogger("swarmd")
    levels = root.level, own.level
    yield
    if (root.level, own.level) != levels:
        root.setLevel(levels[0])
        own.setLevel(levels[1])


@pytest.fixture
def runtime_dir(_short_folder: Path) -> Path:
    """A new private folder whose path is short enough for sockets (`--runtime`)."""
    folder = _short_folder / f"r{next(_numbers)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(scope="session", autouse=True)
def _no_process_is_left(_short_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails the run when a process that a test started outlives the tests; ends it, too."""
    places = (str(_short_folder), str(tmp_path_factory.getbasetemp()))
    before = set(_processes())
    yield
    left = _left(before, places)
    deadline = time.monotonic() + LEAK_GRACE_SECONDS
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left = _left(before, places)
    named = [_describe(pid) for pid in left]
    for pid in left:
        _kill(pid)
    assert not named, "tests left processes behind: " + "; ".join(named)


def _processes() -> dict[int, int]:
    """Parents by process, without the zombies, which hold nothing but their exit status."""
    found = {}
    for name in os.listdir("/proc"):
        try:
            fields = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        if name.isdigit() and fields[0] != b"Z":
            found[int(name)] = int(fields[1])
    return found


def _left(before: set[int], places: tuple[str, ...]) -> list[int]:
    """New processes below this one, and those that got away from it but still live in the tests' folders."""
    parents = _processes()
    new = [pid for pid in parents if pid not in before]
    return [pid for pid in new if _is_below(pid, parents) or _lives_in(pid, places)]


def _is_below(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == os.getpid():
            return True
    return False


def _lives_in(pid: int, places: tuple[str, ...]) -> bool:
    texts = [_read(pid, "environ"), _read(pid, "cmdline")]
    try:
        texts.append(os.fsencode(os.readlink(f"/proc/{pid}/cwd")))
    except OSError:
        pass
    return any(place.encode() in text for place in places for text in texts)


def _describe(pid: int) -> str:
    started_in = b""
    for entry in _read(pid, "environ").split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name == b"PYTEST_CURRENT_TEST":
            started_in = value
    command = _read(pid, "cmdline").replace(b"\0", b" ").strip()
    return f"{pid} {command.decode(errors='replace')!r} from {started_in.decode(errors='replace') or 'some test'}"


def _read(pid: int, name: str) -> bytes:
    try:
        return Path("/proc", str(pid), name).read_bytes()
    except OSError:
        return b""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
