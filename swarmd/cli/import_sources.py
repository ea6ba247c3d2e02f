"""What `swarmd memory import` is pointed at: whether it is what its format means, and the memory of one agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from swarmd.cli.foreign import CONVERSATIONS
from swarmd.core.memory import FIRST_FILE
from swarmd.core.owners import owner_problem
from swarmd.core.takeover import SUFFIXES
from swarmd.errors import BadInput
from swarmd.store.opening import DATABASE

_FOLDERS = {
    "swarms": "an agent's folder of the Swarms framework",
    "claude": "a memory folder of Claude Code",
}
"""The formats that are folders; a note of one may come by itself."""
_MEMORIES = "memory"
_NAMED = 5


def must_fit(source: Path, format: str | None, *, all_files: bool = False) -> None:
    """Raises BadInput with what is meant in place of `source`, which exists, where it is not one memory of that
    format.
    """
    if source.is_dir():
        _must_be_one(source, format)
        if format == "conversation":
            raise BadInput(
                f"--format conversation is for one file ({', '.join(CONVERSATIONS)}), and {source} is a folder; name "
                "the file of the conversation in it"
            )
        return
    ending = source.suffix.lower()
    if ending in SUFFIXES or format in (None, "conversation"):
        return
    or_else = (
        "leave --format out to have it read as a conversation"
        if ending in CONVERSATIONS
        else "--format conversation reads a conversation"
    )
    if format in _FOLDERS:
        raise BadInput(
            f"--format {format} is for {_FOLDERS[format]}, and {source} is a file: name the folder, or {or_else}"
        )
    if not all_files:
        raise BadInput(
            f"--format markdown is for a folder of {', '.join(SUFFIXES)} files or one of them, and {source} is "
            f"neither: --all-files takes it as it is, or {or_else}"
        )


def _must_be_one(source: Path, format: str | None) -> None:
    """A folder of many agents' memories would all become notes of one."""
    whole = source.absolute()
    if (whole / DATABASE).is_file():
        _refuse(source, "is the state of a swarm, not one memory", source / _MEMORIES)
    if whole.name == _MEMORIES and (whole.parent / DATABASE).is_file():
        _refuse(source, "holds the memories of all agents of a swarm", source)
    if format is None and not _has_notes(whole) and _memories(whole, first_file=True):
        _refuse(
            source, "is no memory itself, and holds several", source, "; --format markdown takes all as notes"
        )


def _refuse(source: Path, what: str, above: Path, or_else: str = "") -> None:
    names = _memories(above, first_file=bool(or_else))
    named = ", ".join(str(above / name) for name in names[:_NAMED]) or str(above / "AGENT")
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    raise BadInput(f"{source} {what}: name the folder of one agent ({named}{more}){or_else}")


def _has_notes(folder: Path) -> bool:
    try:
        return any(one.suffix.lower() in SUFFIXES for one in folder.iterdir())
    except OSError:
        return False


def _memories(above: Path, *, first_file: bool) -> Sequence[str]:
    """The folders of owners there; `first_file`: only those that have one."""
    try:
        return sorted(
            one.name for one in above.iterdir()
            if one.is_dir() and ((one / FIRST_FILE).is_file() if first_file else owner_problem(one.name) is None)
        )  # fmt: skip
    except OSError:  # whoever reads it in earnest says why not
        return ()
