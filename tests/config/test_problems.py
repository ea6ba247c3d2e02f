"""How a problem is told: one sentence for a person, the facts for a program, nothing that could move a cursor."""

from __future__ import annotations

from datetime import date

import pytest

from swarmd.config.problems import Problem, did_you_mean, field_name, one_of, printable, shown


def test_a_problem_is_one_sentence_with_its_place_and_what_may_be_meant():
    problem = Problem(
        file="agents.d/polybreak.toml",
        line=12,
        field="parent",
        text="no agent is named 'studoi'",
        hint="did you mean 'studio'?",
    )
    assert str(problem) == (
        "agents.d/polybreak.toml:12: parent: no agent is named 'studoi' (did you mean 'studio'?)"
    )
    assert problem.as_json()["message"] == str(problem)
    assert problem.as_json()["line"] == 12


def test_a_warning_says_that_it_is_one():
    problem = Problem(file="a.toml", line=1, field="x", text="odd", severity="warning")
    assert str(problem) == "a.toml:1: warning: x: odd"
    assert not problem.is_error


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        ("a\x1b[31m", "'a\\x1b[31m'"),
        ("x" * 100, f"'{'x' * 60}'..."),
        (12, "12"),
        pytest.param(1 << 40_000, "a number of 40001 bits", id="too long to be written out"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        ([], "an empty list"),
        ([1], "a list"),
        ({}, "a table"),
        (date(2026, 1, 2), "the date or time 2026-01-02 without quotes"),
    ],
)
def test_values_are_shown_short_and_harmless(value, text):
    assert shown(value) == text


def test_field_names_are_written_as_in_the_file():
    assert field_name(("runner", "command", 2)) == "runner.command[2]"
    assert field_name(("a b", "c\n")) == "'a b'.'c\\n'"


def test_file_names_cannot_move_the_cursor():
    assert printable("a\x1b[2J.toml") == "a\\x1b[2J.toml"
    assert printable("ä.toml") == "ä.toml"


def test_nothing_near_is_no_suggestion():
    assert did_you_mean("zzz", ["studio"]) is None
    assert did_you_mean(5, ["studio"]) is None
    assert did_you_mean("nobody", ["good"]) is None
    assert did_you_mean("bab", ["bob"]) == "did you mean 'bob'?"
    assert did_you_mean("studoi", ["studio", "stud"]) == "did you mean 'studio'?"


def test_alternatives_read_as_a_sentence():
    assert one_of(["a"]) == "'a'"
    assert one_of(["a", "b", "c"]) == "'a', 'b' or 'c'"
