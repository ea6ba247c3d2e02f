"""Finds a vocabulary that is already on this machine and loads it with tiktoken; it never opens a connection.

tiktoken's own `get_encoding` downloads what it does not find, without a time limit, and removes and fetches again a
file whose hash is wrong. So nothing of `tiktoken.load` is used: the rank file is found, checked and read here, and
tiktoken is only handed the ranks. Of an installed plug-in the rank file is read; its code is not run.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

LARGEST_FILE = 16 * 1024 * 1024
"""The largest rank file there is has 4 MB; anything much larger is no rank file."""


class Encoding(Protocol):
    """What of tiktoken's class is used."""

    def encode_ordinary(self, text: str) -> list[int]:
        """The tokens; special tokens are plain text."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """A vocabulary: where tiktoken has it from (which names the file), the file's SHA-256, how text is split."""

    name: str
    url: str
    sha256: str
    pattern: str

    @property
    def cached_as(self) -> str:
        """The file's name in tiktoken's cache folders."""
        return hashlib.sha1(self.url.encode(), usedforsecurity=False).hexdigest()


# cl100k_base first: it loads in half the time, and its counts are a little the higher of the two.
VOCABULARIES = (
    Vocabulary(
        name="cl100k_base",
        url="https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken",
        sha256="223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        pattern=(
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
            r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
        ),
    ),
    Vocabulary(
        name="o200k_base",
        url="https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken",
        sha256="446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        pattern=(
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
            r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
            r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        ),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The outcome of the search: an encoding, or None and why (`problems`, one sentence a file that would not do)."""

    encoding: Encoding | None
    problems: tuple[str, ...] = ()


def find(
    cache_dir: Path | None, environ: Mapping[str, str], vocabularies: tuple[Vocabulary, ...] = VOCABULARIES
) -> Found:
    """The first vocabulary whose rank file is at hand with the right hash."""
    problems: list[str] = []
    for vocabulary in vocabularies:
        for path in _places(vocabulary, cache_dir, environ):
            data = _read(path)
            if data is None:
                continue
            if hashlib.sha256(data).hexdigest() != vocabulary.sha256:
                problems.append(f"{path} is not {vocabulary.name}'s rank file: its hash differs")
                continue
            try:
                return Found(encoding=_encoding(vocabulary, data))
            except BaseException as error:  # a panic in Rust is none of Exception's
                if isinstance(error, (KeyboardInterrupt, SystemExit)):
                    raise
                problems.append(f"tiktoken cannot load {path}: {type(error).__name__}")
    return Found(encoding=None, problems=tuple(problems))


def _places(vocabulary: Vocabulary, cache_dir: Path | None, environ: Mapping[str, str]) -> Iterator[Path]:
    """Our own folder, tiktoken's cache folder by tiktoken's rules, the data of installed plug-ins."""
    if cache_dir is not None:
        yield cache_dir / vocabulary.cached_as
    default = str(Path(environ.get("TMPDIR") or tempfile.gettempdir()) / "data-gym-cache")
    folder = environ.get("TIKTOKEN_CACHE_DIR", environ.get("DATA_GYM_CACHE_DIR", default))
    if folder:  # empty: the user wants no cache
        yield Path(folder) / vocabulary.cached_as
    for plugin in _plugin_folders():
        yield plugin / "data" / f"{vocabulary.name}.tiktoken"
        yield plugin / f"{vocabulary.name}.tiktoken"


def _plugin_folders() -> list[Path]:
    spec = importlib.util.find_spec("tiktoken_ext")  # a namespace package: this imports nothing
    locations = spec.submodule_search_locations if spec is not None else None
    return [Path(location) for location in locations or ()]


def _read(path: Path) -> bytes | None:
    """The bytes of a regular file, or None. The temp folder is everyone's: a pipe there must not hold us up."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_FILE:
            return None
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(LARGEST_FILE)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _encoding(vocabulary: Vocabulary, data: bytes) -> Encoding:
    import tiktoken  # not at start: most commands never count

    ranks: dict[bytes, int] = {}
    for line in data.splitlines():
        if line:
            token, rank = line.split()
            ranks[base64.b64decode(token)] = int(rank)
    # Without special tokens: in a prompt `<|endoftext|>` is a text like any other.
    return tiktoken.Encoding(
        f"swarmd_{vocabulary.name}", pat_str=vocabulary.pattern, mergeable_ranks=ranks, special_tokens={}
    )
