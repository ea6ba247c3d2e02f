"""Older texts are kept as differences from newer ones: exact, found damaged where they are, whole where they must be."""

from __future__ import annotations

import random

import pytest

from swarmd.core.deltas import told, told_by
from swarmd.core.digests import digest
from swarmd.store import soundness, texts
from swarmd.store.healing import lost_texts
from tests.store.memory_place import AGENT, Place

START = "".join(f"- fact number {n} of many\n" for n in range(400))


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    yield made
    made.close()


def grow(place, count, path="MEMORY.md", agent=AGENT):
    """So many revisions, each with a line more; their texts."""
    found, last = [], None
    for number in range(count):
        text = START + "".join(f"- noted by session {n}\n" for n in range(number))
        place.commit({path: text}, base={path: last} if last else None, session=number + 1, agent=agent)
        found.append(last := text)
    return [text.encode() for text in found]


def kept(place):
    """Revision to whether its text is whole."""
    rows = place.rows(
        "SELECT r.rev, b.base IS NULL FROM revisions r JOIN blobs b USING (hash) ORDER BY r.rev"
    )
    return {rev: bool(whole) for rev, whole in rows}


def revisions(place, path="MEMORY.md", agent=AGENT):
    return place.writer.do(
        lambda c: [texts.of_revision(c, agent, path, rev) for rev in range(1, 1 + c.execute(
            "SELECT max(rev) FROM revisions WHERE agent = ? AND path = ?", (agent, path)).fetchone()[0])]
    )  # fmt: skip


def test_differences_are_exact_for_any_two_texts():
    chance = random.Random(5)
    for _ in range(500):
        text, base = (bytes(chance.choices(b"ab\n", k=chance.randrange(60))) for _ in range(2))
        middle = bytes(chance.choices(b"ab\n", k=200))
        for a, b in (
            (text, base),
            (text + middle + base, base + middle + text),
            (middle + text, middle + base),
        ):
            difference = told_by(a, b)
            assert difference is None or told(difference, b) == a


@pytest.mark.parametrize(
    ("text", "base"),
    [
        (b"a" * 500, b"a" * 900),
        (b"a" * 900, b"a" * 500),
        (b"x" * 500, b"x" * 500),
        (b"ab" * 300, b"ab" * 300 + b"a"),
    ],
)
def test_texts_that_repeat_themselves_are_told_exactly(text, base):
    difference = told_by(text, base)
    assert difference is None or told(difference, base) == text
    assert told_by(b"x" * 500, b"y" * 500) is None
    assert told(b"", base) is None
    assert told(told_by(b"q" * 900, b"q" * 901) or b"", b"q") is None


def test_of_a_text_that_grows_only_the_newest_and_every_64th_is_whole(place):
    wanted = grow(place, 150)
    assert [rev for rev, whole in kept(place).items() if whole] == [64, 128, 150]
    assert revisions(place) == wanted
    ((size,),) = place.rows("SELECT sum(length(data)) FROM blobs")
    assert size < 4 * len(wanted[-1])
    assert list(place.writer.do(lambda c: list(soundness.broken_texts(c)))) == []


def test_small_texts_and_rewrites_are_kept_as_they_are(place):
    place.commit({"a.md": "one\n"})
    place.commit({"a.md": "one\ntwo\n"}, base={"a.md": "one\n"})
    place.commit({"b.md": START})
    place.commit({"b.md": "new\n" * 3000}, base={"b.md": START})
    assert place.rows("SELECT count(*) FROM blobs WHERE base IS NOT NULL") == [(0,)]


def test_a_text_that_is_in_force_again_is_whole_again(place):
    wanted = grow(place, 5)
    place.commit({"MEMORY.md": wanted[1].decode()}, base={"MEMORY.md": wanted[-1].decode()})
    assert kept(place)[6] is True
    assert kept(place)[5] is False
    assert revisions(place) == [*wanted, wanted[1]]
    for _ in range(3):
        place.commit({"MEMORY.md": wanted[4].decode()}, base={"MEMORY.md": wanted[1].decode()})
        place.commit({"MEMORY.md": wanted[1].decode()}, base={"MEMORY.md": wanted[4].decode()})
    assert revisions(place)[:5] == wanted
    assert place.head().data == wanted[1]


@pytest.mark.parametrize("harm", ["DELETE FROM blobs WHERE", "UPDATE blobs SET data = x'00' WHERE",
                                  "UPDATE blobs SET data = CAST(replace(CAST(data AS TEXT), 'fact', 'fakt') AS BLOB) WHERE"])  # fmt: skip
def test_what_hangs_on_a_damaged_text_is_damaged_and_never_another_text(place, harm):
    wanted = grow(place, 70)
    place.writer.do(lambda c: c.execute(f"{harm} hash = ?", (digest(wanted[63]),)))
    assert revisions(place)[64:] == wanted[64:]
    assert {text for text in revisions(place)[:63] if text is not None} == set()
    broken = place.writer.do(lambda c: sorted(found.rev for found in soundness.broken_texts(c)))
    assert broken == list(range(1, 65))


def test_a_head_that_the_file_heals_heals_all_that_hangs_on_it(place):
    wanted = grow(place, 10)
    place.folders.settle(AGENT)
    place.writer.do(lambda c: c.execute("DELETE FROM blobs WHERE hash = ?", (digest(wanted[-1]),)))
    assert revisions(place)[0] is None
    assert [lost.rev for lost in place.writer.do(lambda c: lost_texts(c, AGENT, thorough=False))] == [10]
    assert place.folders.heal(AGENT)
    assert revisions(place) == wanted


def test_texts_that_others_are_told_by_are_forgotten_only_when_those_are_whole(place):
    wanted = grow(place, 10)
    place.commit({"MEMORY.md": wanted[3].decode()}, agent="other")
    place.writer.do(lambda c: c.execute("UPDATE blobs SET base = base"))
    place.commit({"MEMORY.md": wanted[4].decode()}, base={"MEMORY.md": wanted[3].decode()}, agent="other")
    assert place.rows(
        "SELECT count(*) FROM blobs WHERE hash = ? AND base IS NOT NULL", digest(wanted[3])
    ) == [(1,)]
    own = {digest(text) for text in wanted} - {digest(wanted[3])}
    place.writer.do(lambda c: texts.forget(c, own))
    assert place.rows("SELECT hash, base FROM blobs") == [(digest(wanted[3]), None)]
    assert place.writer.do(lambda c: texts.of_digest(c, digest(wanted[3]))) == wanted[3]


def test_a_person_who_saves_an_older_packed_text_is_understood(place):
    wanted = grow(place, 6)
    place.folders.settle(AGENT)
    place.file().write_bytes(b"- by hand\n" + wanted[-1])
    (adopted,) = place.folders.adopt(AGENT)
    assert (adopted.rev, adopted.conflicts) == (7, 0)
    again = place.again(boot="boot-2")
    again.file().write_bytes(wanted[2])
    again.folders.recover()
    assert again.head().data == b"- by hand\n" + wanted[-1]
    again.close()
