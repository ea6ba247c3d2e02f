"""The ways in which editors, tools and clusters save a file, as functions of folder, name and text."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path


def in_place(folder: Path, name: str, text: str) -> None:
    """As `echo > file`: truncate, then write."""
    (folder / f"{name}.toml").write_text(text)


def rename_over(folder: Path, name: str, text: str) -> None:
    temporary = folder / f".{name}.new"
    temporary.write_text(text)
    temporary.replace(folder / f"{name}.toml")


def backup_and_rename(folder: Path, name: str, text: str) -> None:
    """As vim does: the old file becomes a backup, a new one takes its name, the backup goes."""
    path, backup = folder / f"{name}.toml", folder / f"{name}.toml~"
    if path.exists():
        path.rename(backup)
    path.write_text(text)
    backup.unlink(missing_ok=True)


def in_two_writes(folder: Path, name: str, text: str) -> None:
    with (folder / f"{name}.toml").open("w") as file:
        file.write(text[:10])
        file.flush()
        os.fsync(file.fileno())
        file.write(text[10:])


def link_swapped(folder: Path, name: str, text: str) -> None:
    """A link of that name is put in another's place, as stow and nix do."""
    versions = folder.parent / "versions"
    versions.mkdir(exist_ok=True)
    target = versions / f"{name}-{len(list(versions.iterdir()))}"
    target.write_text(text)
    temporary = folder / ".link"
    temporary.symlink_to(target)
    temporary.replace(folder / f"{name}.toml")


def behind_a_link(folder: Path, name: str, text: str) -> None:
    """The file that a link points to is edited, outside the folder."""
    target = folder.parent / f"{name}-target"
    target.write_text(text)
    link = folder / f"{name}.toml"
    if not link.is_symlink():
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def data_folder_swapped(folder: Path, name: str, text: str) -> None:
    """As Kubernetes mounts a config map: `a.toml` -> `..data/a.toml`, `..data` -> a dated folder, swapped at once."""
    version = folder / f"..{len(list(folder.iterdir()))}_{os.urandom(4).hex()}"
    version.mkdir()
    (version / f"{name}.toml").write_text(text)
    temporary = folder / "..data_tmp"
    temporary.symlink_to(version.name)
    temporary.replace(folder / "..data")
    link = folder / f"{name}.toml"
    if not link.is_symlink():
        link.unlink(missing_ok=True)
        link.symlink_to(f"..data/{name}.toml")


def folder_replaced(folder: Path, name: str, text: str) -> None:
    """A deployment: a new folder takes the old one's place."""
    new, old = folder.parent / "agents.new", folder.parent / "agents.old"
    shutil.copytree(folder, new, symlinks=True)
    (new / f"{name}.toml").unlink(missing_ok=True)
    (new / f"{name}.toml").write_text(text)
    folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old)


def gone_and_back(folder: Path, name: str, text: str) -> None:
    """The folder is deleted and made anew, often with the same inode."""
    kept = {path.name: path.read_bytes() for path in folder.glob("*.toml")}
    shutil.rmtree(folder)
    folder.mkdir(mode=0o755)
    for file_name, data in kept.items():
        (folder / file_name).write_bytes(data)
    (folder / f"{name}.toml").write_text(text)


def with_the_old_time(folder: Path, name: str, text: str) -> None:
    """As `rsync -t` or `cp -p` over it: the modification time does not move."""
    path = folder / f"{name}.toml"
    path.write_text(text)
    os.utime(path, ns=(0, 0))


WAYS: list[Callable[[Path, str, str], None]] = [
    in_place,
    rename_over,
    backup_and_rename,
    in_two_writes,
    link_swapped,
    behind_a_link,
    data_folder_swapped,
    folder_replaced,
    gone_and_back,
    with_the_old_time,
]
