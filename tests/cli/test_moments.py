"""Moments as people type them, and the fires of a cron text."""

from __future__ import annotations

import csv
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from swarmd.cli.cron import fires
from swarmd.cli.invocation import Invocation
from swarmd.cli.params import parse_moment
from swarmd.errors import BadInput

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
CASES = list(
    csv.reader(
        (Path(__file__).parents[1] / "data" / "cron_cases.tsv").read_text().splitlines(), delimiter="\t"
    )
)


@pytest.fixture(autouse=True)
def berlin(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("now", "2026-11-30T12:00+00:00"),
        ("today", "2026-11-30T00:00+01:00"),
        ("yesterday", "2026-11-29T00:00+01:00"),
        ("Yesterday", "2026-11-29T00:00+01:00"),
        ("tomorrow", "2026-12-01T00:00+01:00"),
        ("09:30", "2026-11-30T09:30+01:00"),
        ("2h", "2026-11-30T10:00+00:00"),
        ("90s", "2026-11-30T11:58:30+00:00"),
        ("3 days ago", "2026-11-27T12:00+00:00"),
        ("1 week ago", "2026-11-23T12:00+00:00"),
        ("2h ago", "2026-11-30T10:00+00:00"),
        ("in 2 hours", "2026-11-30T14:00+00:00"),
        ("2026-07-01", "2026-07-01T00:00+02:00"),
        ("2026-07-01 09:00", "2026-07-01T09:00+02:00"),
        ("2026-12-24T18:00", "2026-12-24T18:00+01:00"),
        ("2026-12-24T18:00Z", "2026-12-24T18:00+00:00"),
        ("2026-12-24T18:00-05:00", "2026-12-24T18:00-05:00"),
    ],
)
def test_a_moment_is_what_a_person_means(text, meant):
    assert parse_moment(text, NOW, ahead=False) == datetime.fromisoformat(meant)


def test_a_bare_span_lies_ahead_for_a_due_time():
    assert parse_moment("2h", NOW, ahead=True) == datetime(2026, 11, 30, 14, 0, tzinfo=UTC)
    assert parse_moment("2h ago", NOW, ahead=True) == datetime(2026, 11, 30, 10, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["", "soon", "25:00", "2026-13-01", "-2h", "999999999 weeks", "9999-99-99", "1e9", "\x00"]
)
def test_what_is_no_moment_is_refused_with_what_to_write(text):
    with pytest.raises(ValueError, match=r"write it as|too far away"):
        parse_moment(text, NOW, ahead=False)


def test_a_wrong_time_on_the_command_line_names_its_option(swarmd):
    ran = swarmd("log", "--since", "soon")
    assert (ran.status, ran.calls) == (2, [])
    assert "'--since'" in ran.err
    assert "yesterday" in ran.err


def test_a_sessions_time_keeps_the_agents_own_zone(swarmd):
    ran = swarmd("session", "show", "studio@2026-11-30T09:00", session_show={"id": 1})
    assert ran.calls[0][1] == {"session": "studio@2026-11-30T09:00"}
    ran = swarmd("session", "show", "studio@2h", session_show={"id": 1})
    assert ran.calls[0][1] == {"session": "studio@2026-11-30T10:00:00.000000Z"}


def cron(*args):
    return fires(*args, Invocation(environ={}, now=lambda: NOW))


@pytest.mark.parametrize(
    "case", CASES[:: max(1, len(CASES) // 60)], ids=lambda case: f"{case[0]} {case[1]} {case[2]}"
)
def test_the_fires_are_those_of_debians_cron(case):
    text, zone, start, expected = case[:4]
    wanted = [datetime.fromisoformat(one) for one in expected.split(",") if one]
    found = cron(text, zone, start, len(wanted))
    assert [datetime.fromisoformat(one) for one in found] == wanted


def test_fires_carry_the_offset_of_their_zone(swarmd):
    ran = swarmd(
        "next",
        "--cron",
        "30 2 * * *",
        "--timezone",
        "Europe/Berlin",
        "--from",
        "2026-03-28T12:00",
        "-n",
        "2",
        "--json",
    )
    assert ran.json == {"fires": ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]}
    assert ran.calls == []


def test_a_start_without_offset_is_by_the_asked_zone():
    assert cron("0 9 * * *", "Asia/Kolkata", "2026-11-30T08:59", 1) == ["2026-11-30T09:00:00+05:30"]
    assert cron("0 9 * * *", "Asia/Kolkata", "2026-11-30", 1) == ["2026-11-30T09:00:00+05:30"]
    assert cron("0 13 * * *", "UTC", "now", 1) == ["2026-11-30T13:00:00+00:00"]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--cron", "0 0 31 2 *"], "--cron '0 0 31 2 *': "),
        (["--cron", "* * * *"], "--cron '* * * *': "),
        (
            ["--cron", "* * * * *", "--timezone", "Europe/Berln"],
            "--timezone: no time zone is named 'Europe/Berln'",
        ),
        (["--cron", "* * * * *", "--timezone", "UTC", "--from", "soon"], "--from: 'soon' is no time"),
        (["studio", "--cron", "* * * * *"], "give an agent (studio) or --cron, not both"),
        (["--timezone", "UTC"], "--timezone and --from go with --cron"),
        (["--cron", "* * * * *", "-n", "0"], "'-n'"),
    ],
)
def test_what_is_wrong_with_a_cron_text_is_named(args, sentence, swarmd):
    ran = swarmd("next", *args)
    assert (ran.status, ran.calls) == (2, [])
    assert sentence in ran.err


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_the_end_of_the_calendar_is_a_sentence(zone, swarmd):
    ran = swarmd("next", "--cron", "* * * * *", "--timezone", zone, "--from", "9999-12-31T23:58Z")
    assert ran.status == 0
    assert ran.text or ran.err == "swarmd: it comes no more after that moment, as far as the calendar goes\n"


def test_a_fault_is_bad_input():
    with pytest.raises(BadInput):
        cron("@never", "UTC", "now", 1)
