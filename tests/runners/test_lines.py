"""Whatever a program prints, its lines come out whole, and memory stays bounded."""

import json

from hypothesis import given
from hypothesis import strategies as st

from swarmd.runners.lines import Lines, event


@given(st.lists(st.binary(max_size=30), max_size=30), st.integers(1, 40))
def test_chunks_give_the_lines_that_splitting_gives(chunks, limit):
    lines = Lines(limit)
    got = [line for chunk in chunks for line in lines.feed(chunk)]
    got += lines.close()
    whole = b"".join(chunks).split(b"\n")
    kept = [line for line in whole[:-1] if len(line) <= limit]
    last = [whole[-1]] if whole[-1] and len(whole[-1]) <= limit else []
    assert got == kept + last
    assert lines.dropped == sum(len(line) > limit for line in whole)


def test_a_giant_line_is_dropped_and_the_next_one_is_read():
    lines = Lines(1000)
    for _ in range(10_000):
        assert lines.feed(b"x" * 100) == []
        assert len(lines._rest) <= 1100
    assert lines.feed(b"\nnext\n") == [b"next"]
    assert lines.dropped == 1


def test_only_an_object_with_a_type_is_an_event():
    assert event(b'{"type": "result", "n": 1}\r') == {"type": "result", "n": 1}
    for rubbish in (
        b"7",
        b"null",
        b'"type"',
        b"[1]",
        b"{}",
        b'{"type": 7}',
        b'{"type": "x"',
        b"",
        b"\xff\xfe{",
        b"NaN",
    ):
        assert event(rubbish) is None
    assert event(b"[" * 100_000) is None
    assert event(b'{"type":"x","a":' + b"[" * 100_000 + b"]" * 100_000 + b"}") is None


def test_bytes_that_are_no_utf8_spoil_only_their_text():
    found = event(b'{"type": "text", "text": "a\xffb"}')
    assert found is not None
    assert found["text"] == "a\ufffdb"
    assert event(b"\0\0" + json.dumps({"type": "x"}).encode()) == {"type": "x"}
