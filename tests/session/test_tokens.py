"""Counting tokens: exact where a vocabulary is at hand, cautious where none is, and never over the network."""

import base64
import hashlib
import os
import random
import string
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from swarmd.session import tokens, vocabulary
from swarmd.session.estimate import estimate
from swarmd.session.tokens import CHUNK, COUNTED, KEPT, TokenCounter
from swarmd.session.vocabulary import VOCABULARIES, Found, Vocabulary, find

REPO = Path(__file__).parent.parent.parent
NO_CACHE = {"TIKTOKEN_CACHE_DIR": ""}


def ranks(*merged):
    """A small rank file: each byte by itself, then these."""
    entries = [bytes([n]) for n in range(256)] + list(merged)
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(entries))


SMALL = ranks(b"he", b"ll", b"hell", b"hello")
TINY = Vocabulary(
    name="tiny",
    url="https://example.invalid/tiny.tiktoken",
    sha256=hashlib.sha256(SMALL).hexdigest(),
    pattern=VOCABULARIES[0].pattern,
)


@pytest.fixture(autouse=True)
def _first_in_its_process(monkeypatch):
    monkeypatch.setattr(tokens, "_warned", False)


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def counter(tmp_path, warnings):
    (tmp_path / TINY.cached_as).write_bytes(SMALL)
    return TokenCounter(tmp_path, NO_CACHE, warnings.append, vocabularies=(TINY,))


class Fake:
    """A vocabulary of one token a character, or one that fails."""

    def __init__(self, error=None):
        self.error = error
        self.seen = []

    def encode_ordinary(self, text):
        self.seen.append(text)
        if self.error is not None:
            raise self.error
        return list(range(len(text)))


def with_encoding(monkeypatch, encoding):
    monkeypatch.setattr(tokens, "find", lambda *_: Found(encoding=encoding))
    return TokenCounter(None, {}, pytest.fail)


def test_a_rank_file_at_hand_gives_exact_counts(counter, warnings):
    assert counter.count("hello") == 1
    assert counter.count("hello hello") == 3
    assert counter.count("") == 0
    assert warnings == []


def test_special_tokens_are_plain_text(counter):
    assert counter.count("<|endoftext|>") == len("<|endoftext|>")
    assert counter.count("<|fim_prefix|>hello") == len("<|fim_prefix|>") + 1


def test_lone_surrogates_are_counted(counter, warnings):
    assert counter.count("\ud800hello\udfff") > 1
    assert TokenCounter(None, NO_CACHE, warnings.append, vocabularies=()).count("\udcff") >= 1


@pytest.mark.parametrize("name", ["TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"])
def test_the_cache_folders_of_tiktoken_are_searched(tmp_path, name):
    (tmp_path / TINY.cached_as).write_bytes(SMALL)
    assert find(None, {name: str(tmp_path)}, (TINY,)).encoding is not None


def test_the_default_temp_folder_is_searched(tmp_path):
    (tmp_path / "data-gym-cache").mkdir()
    (tmp_path / "data-gym-cache" / TINY.cached_as).write_bytes(SMALL)
    assert find(None, {"TMPDIR": str(tmp_path)}, (TINY,)).encoding is not None
    assert find(None, {"TMPDIR": str(tmp_path), **NO_CACHE}, (TINY,)).encoding is None


@pytest.mark.parametrize("folder", ["", "data"])
def test_the_rank_file_of_an_installed_plugin_is_read_and_its_code_is_not_run(tmp_path, monkeypatch, folder):
    plugin = tmp_path / "tiktoken_ext"
    (plugin / "data").mkdir(parents=True)
    (plugin / "tiny_offline.py").write_text("raise SystemExit('run')")
    (plugin / folder / "tiny.tiktoken").write_bytes(SMALL)
    monkeypatch.syspath_prepend(tmp_path)
    assert find(None, NO_CACHE, (TINY,)).encoding is not None


def test_a_wrong_file_is_named_left_alone_and_never_fetched_again(tmp_path, warnings):
    path = tmp_path / TINY.cached_as
    path.write_bytes(b"torn")
    counter = TokenCounter(tmp_path, NO_CACHE, warnings.append, vocabularies=(TINY,))
    assert counter.count("hello hello") == estimate("hello hello")
    assert path.read_bytes() == b"torn"
    assert f"{path} is not tiny's rank file: its hash differs" in warnings[0]


def test_a_file_that_tiktoken_cannot_load_is_named(tmp_path, warnings):
    broken = Vocabulary(name="odd", url="u", sha256=hashlib.sha256(b"a b c\n").hexdigest(), pattern="x")
    (tmp_path / broken.cached_as).write_bytes(b"a b c\n")
    counter = TokenCounter(tmp_path, NO_CACHE, warnings.append, vocabularies=(broken,))
    assert counter.count("x") >= 1
    assert "tiktoken cannot load" in warnings[0]


def test_a_later_place_is_tried_where_an_earlier_one_is_bad(tmp_path):
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / TINY.cached_as).write_bytes(b"torn")
    (tmp_path / TINY.cached_as).write_bytes(SMALL)
    assert find(tmp_path / "ours", {"TIKTOKEN_CACHE_DIR": str(tmp_path)}, (TINY,)).encoding is not None


def test_a_pipe_a_folder_or_a_giant_in_the_temp_folder_does_not_hold_us_up(tmp_path, monkeypatch):
    path = tmp_path / TINY.cached_as
    os.mkfifo(path)
    assert find(tmp_path, NO_CACHE, (TINY,)) == Found(encoding=None)
    path.unlink()
    path.mkdir()
    assert find(tmp_path, NO_CACHE, (TINY,)) == Found(encoding=None)
    path.rmdir()
    path.write_bytes(SMALL)
    monkeypatch.setattr(vocabulary, "LARGEST_FILE", 10)
    assert find(tmp_path, NO_CACHE, (TINY,)) == Found(encoding=None)


def test_one_warning_a_process_however_many_counters(warnings):
    for _ in range(3):
        counter = TokenCounter(None, NO_CACHE, warnings.append, vocabularies=())
        counter.count("a")
        counter.count("b")
    assert len(warnings) == 1
    assert "token counts are estimates that lean high" in warnings[0]


def test_no_warning_before_anything_is_counted(warnings):
    TokenCounter(None, NO_CACHE, warnings.append, vocabularies=())
    assert warnings == []


class Panic(BaseException):
    """As a panic in Rust arrives in Python."""


@pytest.mark.parametrize("error", [Panic("stack overflow"), ValueError("odd"), MemoryError()])
def test_a_text_that_breaks_the_vocabulary_is_estimated(monkeypatch, error):
    counter = with_encoding(monkeypatch, Fake(error))
    assert counter.count("some words") == estimate("some words")


def test_an_interrupt_is_no_text_that_breaks_the_vocabulary(monkeypatch):
    counter = with_encoding(monkeypatch, Fake(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        counter.count("some words")


def test_long_texts_are_counted_in_pieces_that_end_at_lines_or_words(monkeypatch):
    encoding = Fake()
    counter = with_encoding(monkeypatch, encoding)
    for text in ("line of text\n" * 20_000, "word " * 50_000, "x" * 260_000, "日" * 120_000, " " * 1_000_000):
        encoding.seen.clear()
        assert counter.count(text) == len(text)
        assert "".join(encoding.seen) == text
        assert max(map(len, encoding.seen)) <= CHUNK
    encoding.seen.clear()
    counter.count("a line\n" * 20_000)
    assert all(piece.endswith("\n") for piece in encoding.seen[:-1])


def test_beyond_its_limit_a_text_is_estimated(monkeypatch):
    encoding = Fake()
    text = "x" * (COUNTED + 1000)
    assert with_encoding(monkeypatch, encoding).count(text) == COUNTED + estimate("x" * 1000)


def test_a_count_is_remembered_by_content(monkeypatch):
    encoding = Fake()
    counter = with_encoding(monkeypatch, encoding)
    assert counter.count("abc") == counter.count("ab" + "c") == 3
    assert encoding.seen == ["abc"]


def test_what_is_remembered_has_a_limit_and_the_oldest_goes_first(monkeypatch):
    encoding = Fake()
    counter = with_encoding(monkeypatch, encoding)
    for number in range(KEPT):
        counter.count(str(number))
    counter.count("0")
    counter.count("one more")
    encoding.seen.clear()
    counter.count("0")
    counter.count("1")
    assert encoding.seen == ["1"]
    assert len(counter._counts) == KEPT


def test_many_threads_get_the_same_counts_and_load_once(monkeypatch):
    calls = []
    monkeypatch.setattr(tokens, "find", lambda *_: calls.append(1) or Found(encoding=Fake()))
    counter = TokenCounter(None, {}, pytest.fail)
    start, found = threading.Barrier(8), []

    def work():
        start.wait()
        found.append([counter.count("x" * n) for n in range(200)])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [list(range(200))] * 8
    assert calls == [1]


# The counts of cl100k_base, taken once.
@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("You run a small studio of games. Art goes in `art/`; releases are described in releases.md, newest first.", 25),
        ('def fit(text: str, columns: int) -> str:\n    if columns <= 0:\n        return ""\n    shown = one_line(text[: columns * 16])\n', 35),
        ('{"id": 41, "agent": "polybreak", "at": "2026-11-30T00:30:00.000000Z", "outcome": null, "ok": true}', 44),
        ("2026-11-30 00:30:11,402 WARNING swarmd.daemon[512]: session 41 of polybreak failed: exit status 75\n", 35),
        ("c3dhcm1kIGNvdW50cyB0b2tlbnMgd2l0aG91dCB0aGUgbmV0d29yaywgYW5kIGxlYW5zIGhpZ2guIDEyMzQ1Njc4OTA=", 63),
        ("223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7", 33),
        ("Die Überprüfung der Straßenverkehrszulassungsordnung wurde gestern verschoben.", 22),
        ("Zażółć gęślą jaźń; w Szczebrzeszynie chrząszcz brzmi w trzcinie.", 34),
        ("今天天气很好\uff0c代理人每小时检查一次磁盘空间\uff0c并把结果写入记忆文件。", 36),
        ("今日はとても良い天気なので、公園へ散歩に行くことにしました。", 33),
        ("오늘은 날씨가 매우 좋아서 우리는 공원에 산책하러 가기로 했습니다.", 40),
        ("Сегодня очень хорошая погода, поэтому мы решили пойти гулять в парк.", 35),
        ("الطقس اليوم جميل جدا لذلك قررنا الذهاب في نزهة إلى الحديقة.", 40),
        ("आज मौसम बहुत अच्छा है इसलिए हमने पार्क में टहलने जाने का फैसला किया।", 68),
        ("วันนี้อากาศดีมาก เราจึงตัดสินใจไปเดินเล่นที่สวนสาธารณะ", 51),
        ("🚀🦀👩🏽\u200d💻🎉🇩🇪🫠", 28),
        ("┌───┬───┐\n│ a │ b │\n└───┴───┘\n✓ ✗ → ←\n", 35),
    ],
)  # fmt: skip
def test_the_estimate_leans_high_and_not_wildly(text, exact):
    assert 0.9 * exact <= estimate(text) <= 2.6 * exact


def test_the_estimate_of_noise_is_linear_and_never_nothing():
    noise = "".join(random.Random(7).choices(string.printable + "äß日🚀", k=2000))
    assert abs(estimate(noise * 50) - 50 * estimate(noise)) < 100
    assert estimate("") == 0
    assert min(estimate(char) for char in ["a", "A", "1", ".", "\n", "ß", "日", "🚀", "\x00", "\ud800"]) >= 1


# Run apart, for what has been imported and which sockets are opened is a matter of the whole process.
OFFLINE = """
    import socket, sys
    def refuse(*a, **k): raise AssertionError("the network was asked for")
    socket.socket = socket.create_connection = socket.getaddrinfo = refuse
    sys.addaudithook(lambda event, args: refuse() if event.startswith("socket.") else None)
    from pathlib import Path
    from swarmd.session.tokens import TokenCounter
    warned = []
    counter = TokenCounter(Path(sys.argv[1]) / "ours", {"TIKTOKEN_CACHE_DIR": sys.argv[1]}, warned.append)
    assert counter.count("some text <|endoftext|> " * 100) > 400
    assert counter.count("more") > 0
    assert len(warned) == 1, warned
    for name in ("tiktoken", "requests", "anthropic"):
        assert name not in sys.modules, name
"""


def offline(folder):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(OFFLINE), str(folder)],
        cwd=REPO,
        env={**os.environ, "PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


needs_none_installed = pytest.mark.skipif(
    any(path.exists() for v in VOCABULARIES for path in vocabulary._places(v, None, NO_CACHE)),
    reason="a vocabulary is installed as a plug-in",
)


@needs_none_installed
def test_with_an_empty_cache_no_socket_is_opened_and_tiktoken_is_not_even_imported(tmp_path):
    run = offline(tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


@needs_none_installed
def test_with_wrong_files_in_the_cache_no_socket_is_opened_and_they_stay(tmp_path):
    for known in VOCABULARIES:
        (tmp_path / known.cached_as).write_bytes(b"not the ranks")
    run = offline(tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(v.cached_as for v in VOCABULARIES)


@pytest.mark.parametrize("known", VOCABULARIES, ids=lambda v: v.name)
def test_urls_hashes_and_patterns_are_those_of_tiktoken(monkeypatch, known):
    from tiktoken_ext import openai_public

    asked = []
    monkeypatch.setattr(
        openai_public,
        "load_tiktoken_bpe",
        lambda url, expected_hash: asked.append((url, expected_hash)) or {},
    )
    made = openai_public.ENCODING_CONSTRUCTORS[known.name]()
    assert asked == [(known.url, known.sha256)]
    assert made["pat_str"] == known.pattern


@pytest.mark.parametrize(
    ("name", "cached"),
    [
        ("cl100k_base", "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"),
        ("o200k_base", "fb374d419588a4632f3f557e76b4b70aebbca790"),
    ],
)
def test_files_are_found_by_the_names_that_tiktoken_gives_them(name, cached):
    assert next(v.cached_as for v in VOCABULARIES if v.name == name) == cached


@pytest.mark.skipif(
    find(None, dict(os.environ)).encoding is None, reason="no real vocabulary on this machine"
)
def test_a_real_vocabulary_counts_a_megabyte_of_spaces():
    counter = TokenCounter(None, dict(os.environ), pytest.fail)
    assert counter.count("hello world") == 2
    assert 0 < counter.count(" " * 1_000_000) < 300_000
