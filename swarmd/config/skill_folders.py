"""Reads the operator's skills from the folders that agent files name, and says what is wrong with one.

What stands there is instructions to agents: nobody may write it but the operator. So folders and files that everyone,
or another user, may write are left out, no link in a folder is followed, and there are bounds. Nothing is read twice
while stat says that nothing has changed: a thousand agents with the same folder cost no more than one.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from swarmd.config.files import Fingerprint, Guard, fingerprint_of
from swarmd.config.skill_text import skill_of
from swarmd.core.agent import Agent
from swarmd.core.skills import SKILL_BYTES, SKILL_FILE, Skill, another_case, file_problem
from swarmd.errors import Failed, NotFound, Refused

MOST_SKILLS = 100
"""Of one agent: a longer list is no list that a model chooses from."""
FILE_BYTES = 1024 * 1024
MOST_FILES = 500
DEEPEST = 8
FOLDERS_KEPT = 256

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_STEP = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
# As in files.py: what was changed just now may change once more and look the same.
_REST_NANOSECONDS = 2_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong with a skill or a folder of skills, and where. `index`: the folder's place in the list."""

    place: str
    text: str
    index: int = 0

    def __str__(self) -> str:
        return f"{self.place} {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The skills that can be used, by name, and all that is wrong. `fresh`: some of it was read just now."""

    skills: tuple[Skill, ...] = ()
    faults: tuple[Fault, ...] = ()
    fresh: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """One folder of the list as it was read, and what stat said of all that was looked at."""

    prints: tuple[Fingerprint, ...]
    settled: bool
    skills: tuple[Skill, ...]
    faults: tuple[Fault, ...]


_KEPT: dict[tuple[str, Guard], _Seen] = {}
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class Writable:
    """Places that sessions may write, as real paths; as sets, since thousands of agents may have some."""

    places: frozenset[str] = frozenset()
    above: frozenset[str] = frozenset()
    """The folders in which these places stand, up to the root."""

    @classmethod
    def of(cls, paths: Iterable[str]) -> Writable:
        """These paths, links followed."""
        places = frozenset(map(os.path.realpath, paths))
        return cls(places, frozenset(folder for place in places for folder in _above(place)))

    def reached(self, path: str) -> str | None:
        """The place in which this path really stands, or which stands in it; None: it is apart from all."""
        return self.of_real(os.path.realpath(path))

    def of_real(self, real: str) -> str | None:
        """The same for a path without links."""
        for folder in (real, *_above(real)):
            if folder in self.places:
                return folder
        if real not in self.above:
            return None
        return next((place for place in sorted(self.places) if real in _above(place)), None)


def _above(path: str) -> list[str]:
    """The folders that a real path stands in, nearest first."""
    found = []
    while path != "/":
        path = os.path.dirname(path)
        found.append(path)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillRules:
    """What skills are judged by on this machine. `writable`: where some session may write."""

    guard: Guard
    writable: Writable = Writable()


def written_by(agents: Iterable[Agent], *also: str) -> Writable:
    """Where sessions of these agents may write, beside what is their own under state; and these places."""
    places = set(also)
    for agent in agents:
        places.update(agent.sandbox.write)
        if agent.sandbox.home != "private":
            places.add(agent.sandbox.home)
    return Writable.of(places)


def skills_in(folders: Sequence[str], rules: SkillRules) -> Found:
    """The skills of these folders, each a skill itself or a folder of skills; the first of a name counts."""
    skills: dict[str, Skill] = {}
    faults: list[Fault] = []
    fresh = False
    for index, folder in enumerate(folders):
        seen, read_now = _seen(folder, rules.guard)
        fresh = fresh or read_now
        found = [Fault(place=fault.place, text=fault.text, index=index) for fault in seen.faults]
        real = os.path.realpath(folder)
        for skill in seen.skills:
            # No link leads from the folder to its skills.
            place = real if skill.folder == folder else os.path.join(real, os.path.basename(skill.folder))
            text = _unusable(skill, place, skills, rules.writable)
            if text is None:
                skills[skill.name] = skill
            else:
                found.append(Fault(place=skill.folder, text=text, index=index))
        faults += found
    return Found(skills=tuple(skills[name] for name in sorted(skills)), faults=tuple(faults), fresh=fresh)


def _unusable(skill: Skill, real: str, before: dict[str, Skill], writable: Writable) -> str | None:
    if skill.problem is not None:
        return f"is no skill: {skill.problem}"
    first = before.get(skill.name)
    if first is not None:
        return f"is left out: {first.folder} has that name already"
    if len(before) >= MOST_SKILLS:
        return f"is left out: an agent may have {MOST_SKILLS} skills of the operator's"
    if (place := writable.of_real(real)) is not None:
        return f"is left out: sessions may write {place}"
    return None


# -- looking -----------------------------------------------------------------------------------------------------------


def _seen(folder: str, guard: Guard) -> tuple[_Seen, bool]:
    """The folder as it is now, and whether anything was read for it."""
    key = (folder, guard)
    prints = tuple(_prints(folder))
    with _LOCK:
        known = _KEPT.get(key)
    if known is not None and known.settled and known.prints == prints:
        return known, False
    now_ns = time.time_ns()
    skills: list[Skill] = []
    faults: list[Fault] = []
    try:
        fd = os.open(folder, _FOLDER)
    except OSError as error:
        faults.append(Fault(place=folder, text=_why(error)))
    else:
        try:
            _read_folder(fd, folder, guard, skills, faults)
        except OSError as error:
            faults.append(Fault(place=folder, text=_why(error)))
        finally:
            os.close(fd)
    settled = all(each[4] + _REST_NANOSECONDS < now_ns for each in prints)
    seen = _Seen(prints=prints, settled=settled, skills=tuple(skills), faults=tuple(faults))
    with _LOCK:
        if len(_KEPT) >= FOLDERS_KEPT:
            _KEPT.clear()
        _KEPT[key] = seen
    return seen, known is None or (known.skills, known.faults) != (seen.skills, seen.faults)


def _prints(folder: str) -> Iterator[Fingerprint]:
    """What stat says of the folder, its SKILL.md, and the folders in it with theirs."""
    try:
        yield fingerprint_of(os.stat(folder))
        names = [name for name in sorted(os.listdir(folder)) if not name.startswith(".")]
    except OSError:
        return
    for name in names[: 4 * MOST_SKILLS]:
        for path in (name, f"{name}/{SKILL_FILE}"):
            try:
                yield fingerprint_of(os.lstat(f"{folder}/{path}"))
            except OSError:
                break


def _read_folder(fd: int, folder: str, guard: Guard, skills: list[Skill], faults: list[Fault]) -> None:
    refused = guard.problem(os.fstat(fd))
    if refused is not None:
        faults.append(Fault(place=folder, text=f"is {refused}"))
        return
    if _has_skill_file(fd):
        _read_skill(fd, folder, guard, skills, faults)
        return
    names = [name for name in sorted(os.listdir(fd)) if not name.startswith(".")]
    for name in names[: 4 * MOST_SKILLS]:
        place = f"{folder}/{name}"
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode) and os.path.isdir(place):
            faults.append(
                Fault(place=place, text="is a symbolic link, and none is followed: name its folder itself")
            )
        if not stat.S_ISDIR(status.st_mode):
            continue
        inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=fd)
        try:
            if not _has_skill_file(inner):
                if (other := _almost_skill_file(inner)) is not None:
                    faults.append(Fault(place=place, text=_is_none(other)))
                continue
            refused = guard.problem(os.fstat(inner))
            if refused is not None:
                faults.append(Fault(place=place, text=f"is {refused}"))
                continue
            _read_skill(inner, place, guard, skills, faults)
        finally:
            os.close(inner)
    if not skills and not faults:
        other = _almost_skill_file(fd)
        text = f"holds no skill: no {SKILL_FILE} in it, nor in a folder in it"
        faults.append(Fault(place=folder, text=text if other is None else _is_none(other)))


def _has_skill_file(fd: int) -> bool:
    try:
        os.stat(SKILL_FILE, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return False
    return True


def _almost_skill_file(fd: int) -> str | None:
    """A file there whose name is SKILL.md but for its case."""
    return next((name for name in sorted(os.listdir(fd)) if name.lower() == SKILL_FILE.lower()), None)


def _is_none(name: str) -> str:
    return f"is no skill: {another_case(name)}"


def _read_skill(fd: int, place: str, guard: Guard, skills: list[Skill], faults: list[Fault]) -> None:
    try:
        data = _read(fd, SKILL_FILE, SKILL_BYTES, guard)
    except (Refused, Failed, OSError) as error:
        text = _why(error) if isinstance(error, OSError) else str(error)
        faults.append(Fault(place=f"{place}/{SKILL_FILE}", text=text))
        return
    skills.append(skill_of(os.path.basename(place), place, data, own=False))


# -- one skill's files -------------------------------------------------------------------------------------------------


def files_of(skill: Skill) -> list[tuple[str, int]]:
    """The files of a skill beside its SKILL.md, path and size, sorted; the first few hundred. Links are none."""
    found: list[tuple[str, int]] = []
    try:
        fd = os.open(skill.folder, _FOLDER)
    except OSError as error:
        raise NotFound(f"the skill {skill.name} cannot be read: {skill.folder} {_why(error)}") from None
    try:
        _walk(fd, "", found, DEEPEST)
    finally:
        os.close(fd)
    return sorted(found)


def _walk(fd: int, below: str, found: list[tuple[str, int]], deep: int) -> None:
    for name in sorted(os.listdir(fd)):
        path = f"{below}{name}"
        if len(found) >= MOST_FILES or path == SKILL_FILE or file_problem(path) is not None:
            continue
        if any("\ud800" <= char <= "\udfff" for char in name):
            continue  # a name that is no UTF-8 cannot be asked for
        try:
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                found.append((path, status.st_size))
            elif stat.S_ISDIR(status.st_mode) and deep > 1:
                inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=fd)
                try:
                    _walk(inner, f"{path}/", found, deep - 1)
                finally:
                    os.close(inner)
        except OSError:
            continue  # gone again, or closed to us


def file_of(skill: Skill, path: str, guard: Guard, list_command: str) -> bytes:
    """One file of a skill; `list_command` lists all. Raises NotFound, and Refused for what is no regular file of it
    or may not be trusted.
    """
    problem = file_problem(path)
    if problem is not None:
        raise Refused(problem)
    *above, name = path.split("/")
    try:
        fd = os.open(skill.folder, _FOLDER)
        try:
            for part in above:
                outer = fd
                fd = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=outer)
                os.close(outer)
            return _read(fd, name, SKILL_BYTES if path == SKILL_FILE else FILE_BYTES, guard)
        finally:
            os.close(fd)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(
            f"the skill {skill.name} has no file {path[:200]!r}; {list_command} lists those that it has"
        ) from None
    except Refused as error:
        raise Refused(f"{path[:200]} of the skill {skill.name} {error}") from None
    except OSError as error:
        raise Refused(f"{path[:200]} of the skill {skill.name} {_why(error)}") from None


def _read(fd: int, name: str, most: int, guard: Guard) -> bytes:
    """A regular file with bounds. Raises OSError, Refused; the reason speaks of the file."""
    file = os.open(name, _STEP, dir_fd=fd)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise Refused("is no regular file")
        refused = guard.problem(status)
        if refused is not None:
            raise Refused(f"is {refused}")
        data = bytearray()
        while len(data) <= most and (piece := os.read(file, most + 1 - len(data))):
            data += piece
    finally:
        os.close(file)
    if len(data) > most:
        raise Refused(f"has more than {most:,} bytes, the most that is read")
    return bytes(data)


def careless_files(skill: Skill, guard: Guard) -> Iterator[Fault]:
    """Files of a skill that others than the operator may write: a script among them runs in sessions."""
    for path, _ in files_of(skill):
        place = f"{skill.folder}/{path}"
        try:
            refused = guard.problem(os.lstat(place))
        except OSError:
            continue
        if refused is not None:
            yield Fault(place=place, text=f"is {refused}")


def _why(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "does not exist"
    if isinstance(error, NotADirectoryError):
        return "is no folder"
    if error.errno == errno.ELOOP:
        return "is a symbolic link, and none is followed"
    return f"cannot be read: {error.strerror or error}"
