"""A transcript is kept as it comes, masked and bounded; whatever a runner hands in, its session goes on."""

import json
import math
import os

import pytest

from swarmd.core.transcript import FIELDS, FILE
from swarmd.session import transcript as transcripts
from swarmd.session.known_secrets import Masking
from swarmd.session.transcript import Transcript
from tests.swarm import NOW

SECRET = 'hunter2-"x\\y/' + "z" * 20
USAGE = {
    "turn": 1,
    "model": "m",
    "tokens_in": 10,
    "tokens_out": 2,
    "cache_read": 3,
    "cache_write": 4,
    "usd": 0.1,
}


@pytest.fixture
def kept(tmp_path):
    transcript = Transcript(tmp_path, lambda: NOW, Masking((SECRET,)))
    yield transcript
    transcript.finish()


def read(folder):
    lines = (folder / FILE).read_bytes().split(b"\n")
    return [json.loads(line) for line in lines if line]


def test_events_are_numbered_and_dated_and_there_at_once(kept, tmp_path):
    kept.add("text", {"turn": 1, "text": "hello\nyou"})
    kept.add("usage", USAGE)
    assert read(tmp_path) == [
        {"seq": 1, "at": "2026-11-30T09:00:00.000000Z", "kind": "text", "turn": 1, "text": "hello\nyou"},
        {"seq": 2, "at": "2026-11-30T09:00:00.000000Z", "kind": "usage", **USAGE},
    ]
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_no_event_or_a_programs_plain_end_makes_no_file(kept, tmp_path):
    kept.add("ended", {"exit": 1, "signal": None, "leftovers": 0})
    assert kept.finish() == ""
    assert list(tmp_path.iterdir()) == []


def test_processes_that_were_left_behind_are_worth_a_file(kept, tmp_path):
    kept.add("ended", {"exit": 0, "signal": None, "leftovers": 2})
    assert read(tmp_path)[0]["leftovers"] == 2


def test_numbers_and_times_are_ours(kept, tmp_path):
    kept.add("text", {"turn": 1, "text": "x", "seq": 99, "at": "never", "kind": "usage"})
    assert [(e["seq"], e["at"][:4], e["kind"]) for e in read(tmp_path)] == [(1, "2026", "text")]


def test_secrets_are_masked_in_texts_keys_and_whatever_is_inside(kept, tmp_path):
    inner = {"command": f"curl -H {SECRET}", SECRET: [SECRET, {"x": json.dumps(SECRET)}]}
    kept.add("tool_call", {"turn": 1, "id": SECRET, "name": "bash", "input": inner, SECRET: 1})
    (event,) = read(tmp_path)
    assert SECRET not in json.dumps(event, ensure_ascii=False)
    assert "hunter2" not in (tmp_path / FILE).read_text()
    assert event["input"]["[secret]"] == ["[secret]", {"x": '"[secret]"'}]


@pytest.mark.parametrize("at", range(-40, 3, 7))
def test_a_secret_at_the_cut_shows_no_part_of_itself(kept, tmp_path, at):
    text = "a" * (transcripts.FIELD_CHARACTERS + at) + SECRET + "b" * 100_000
    kept.add("text", {"turn": 1, "text": text})
    assert "hunter2" not in (tmp_path / FILE).read_text()


def test_a_text_full_of_secrets_shows_none_at_its_end(kept, tmp_path):
    kept.add("text", {"turn": 1, "text": SECRET * 20_000})
    assert "hunter2" not in (tmp_path / FILE).read_text()


def test_long_fields_are_cut_with_a_mark_that_counts(kept, tmp_path):
    kept.add("text", {"turn": 1, "text": "é" * 1_000_000})
    (event,) = read(tmp_path)
    assert event["text"] == "é" * 65_536 + "[934464 more characters]"


def test_what_is_many_or_deep_is_bounded_too(kept, tmp_path):
    deep: list = []
    for _ in range(100):
        deep = [deep]
    many = {"a": [None] * 1_000_000, "b": {str(n): "x" * 100 for n in range(10_000)}}
    kept.add("tool_call", {"turn": 1, "id": "1", "name": "n", "input": many})
    kept.add("tool_call", {"turn": 1, "id": "1", "name": "n", "input": {"d": deep}})
    first, second = read(tmp_path)
    assert len(first["input"]["a"]) < 10_000
    assert "more elements" in first["input"]["a"][-1]
    assert second["kind"] == "warning"
    assert "levels" in second["text"]
    assert (tmp_path / FILE).stat().st_size < 1_000_000


@pytest.mark.parametrize(
    ("kind", "detail", "why"),
    [
        ("moon", {}, "'moon' is not known"),
        ("text", {"turn": 1}, "lacks text"),
        ("text", None, "no object"),
        ("text", {"turn": 1, "text": object()}, "a object"),
        ("text", {"turn": math.nan, "text": ""}, "a number that is none"),
        ("text", {"turn": 10**5000, "text": ""}, "63 bits"),
        ("text", {"turn": b"1", "text": ""}, "bytes"),
        (SECRET, {}, "not known"),
        (["list"], {}, "unhashable"),
    ],
)
def test_a_malformed_event_is_a_warning_and_the_session_goes_on(kept, tmp_path, kind, detail, why):
    kept.add(kind, detail)
    kept.add("text", {"turn": 1, "text": "and on"})
    first, second = read(tmp_path)
    assert (first["kind"], second["text"], second["seq"]) == ("warning", "and on", 2)
    assert why in first["text"]
    assert "hunter2" not in first["text"]


def test_lone_surrogates_and_control_characters_come_back_as_they_may_be_stored(kept, tmp_path):
    kept.add("text", {"turn": 1, "text": "\ud800\x00\x1b[31m\u2028\r"})
    assert read(tmp_path)[0]["text"] == "\\ud800\x00\x1b[31m\u2028\r"


def test_a_full_file_goes_on_with_what_is_small_and_says_how_much_it_left_out(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(transcripts, "FILE_BYTES", 10_000)
    monkeypatch.setattr(transcripts, "SMALL_BYTES", 3_000)
    for _ in range(100):
        kept.add("text", {"turn": 1, "text": "x" * 1000})
        kept.add("usage", USAGE)
    kept.finish()
    events = read(tmp_path)
    assert (tmp_path / FILE).stat().st_size < 14_000
    texts, usages = (sum(e["kind"] == kind for e in events) for kind in ("text", "usage"))
    assert events[-1]["text"] == (
        f"the transcript is full: these events were left out: {100 - texts} text, {100 - usages} usage"
    )
    assert usages > texts
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))


def test_the_last_text_of_a_result_is_cut_shorter_when_the_file_is_full(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(transcripts, "FILE_BYTES", 100)
    kept.add("text", {"turn": 1, "text": "x" * 1000})
    kept.add("result", {"outcome": "success", "reason": "", "text": "y" * 10_000})
    assert read(tmp_path)[1]["text"].endswith("y[8000 more characters]")


def test_what_a_full_disk_did_not_take_is_said_at_the_end(kept, tmp_path, monkeypatch):
    write = os.write
    room = [300]

    def scarce(fd, data):
        part = data[: room[0]]
        room[0] -= len(part)
        if data and not part:
            raise OSError(28, "No space left on device")
        return write(fd, part)

    monkeypatch.setattr(os, "write", scarce)
    for number in range(10):
        kept.add("text", {"turn": number, "text": "x" * 100})
    room[0] = 10_000
    kept.add("text", {"turn": 11, "text": "there is room again"})
    assert kept.finish() == ""
    whole = []
    for line in (tmp_path / FILE).read_text().split("\n"):
        try:
            whole.append(json.loads(line))
        except ValueError:
            continue
    assert whole[-2]["text"] == "there is room again"
    assert whole[-1]["text"] == "9 events of the transcript could not be kept: No space left on device"
    assert [e["seq"] for e in whole] == list(range(1, len(whole) + 1))


def test_where_even_that_finds_no_room_it_is_told_to_the_log(tmp_path):
    (tmp_path / "file").write_text("")
    transcript = Transcript(tmp_path / "file", lambda: NOW, Masking())
    transcript.add("text", {"turn": 1, "text": "x"})
    assert "1 event of the transcript could not be kept" in transcript.finish()
    assert transcript.finish() == ""
    transcript.add("text", {"turn": 1, "text": "late"})


async def test_a_session_keeps_what_its_runner_tells(swarm):
    swarm.secrets = ("hunter2hunter2",)

    async def script(part):
        part.desk.event("started", {"runner": "scripted", "model": "m"})
        part.desk.event("text", {"turn": 1, "text": "the key is hunter2hunter2"})
        part.desk.event("nonsense", {"x": object()})
        part.desk.event("text", None)

    session = await swarm.run("studio", script)
    assert session["outcome"] == "no_change"
    events = read(swarm.places.state / "sessions" / str(session["id"]))
    assert [e["kind"] for e in events] == ["started", "text", "warning", "warning"]
    assert events[1]["text"] == "the key is [secret]"


def test_every_kind_can_be_kept(kept, tmp_path):
    for kind, fields in FIELDS.items():
        kept.add(kind, dict.fromkeys(fields))
    assert [e["kind"] for e in read(tmp_path)] == list(FIELDS)
