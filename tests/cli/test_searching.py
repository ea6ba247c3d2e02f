"""`swarmd memory search` and `swarmd session search`: what is asked, and what a person sees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli import documents
from tests.cli.documents import HIT, NASTY, listing
from tests.cli.test_real_store import here

__all__ = ["here"]


NEXT = f"{documents.AT}_0_2_0"


def shown(items, **facts):
    return {**listing(*items), "more": False, "indexed_until": documents.AT, **facts}


@pytest.mark.parametrize(
    ("command", "call"), [(["memory", "search"], "memory_search"), (["session", "search"], "session_search")]
)
def test_the_words_and_options_are_the_calls_arguments(command, call, swarmd):
    ran = swarmd(*command, "disk", "full", "--agent", "studio", "-n", "5", **{call: shown([])})
    assert ran.calls == [(call, {"text": "disk full", "agent": "studio", "n": 5})]
    ran = swarmd(*command, '"disk full" dep*', "--agent", "@team", **{call: shown([])})
    assert ran.calls == [(call, {"text": '"disk full" dep*', "agent": "@team"})]


@pytest.mark.parametrize("command", ["memory", "session"])
def test_until_takes_what_next_says_and_times_as_ever(command, swarmd):
    def until(text):
        ran = swarmd(command, "search", "x", "--until", text, **{f"{command}_search": shown([])})
        return [args["until"] for _, args in ran.calls], ran.status

    assert until(NEXT) == ([NEXT], 0)
    assert until("2026-11-30T10:00+01:00") == ([documents.AT], 0)
    assert until(f"{NEXT}_x") == ([], 2)


def test_a_kind_is_one_of_those_there_are(swarmd):
    assert (
        swarmd("memory", "search", "x", "--kind", "archive", memory_search=shown([])).calls[0][1]["kind"]
        == "archive"
    )
    assert swarmd("memory", "search", "x", "--kind", "dreams").status == 2
    assert swarmd("memory", "search").status == 2
    assert swarmd("memory", "search", "x", "--agent", "../x").status == 2


def test_each_hit_is_a_line_with_its_place_and_the_snippet_below(swarmd):
    hits = [
        HIT,
        {**HIT, "kind": "key", "key": "status", "file": None},
        {**HIT, "kind": "handoff", "handoff": 7, "sender": "house", "seq": 0},
        {**HIT, "kind": "transcript", "seq": 3, "quarantined": True},
        {**HIT, "kind": "output", "line": 12},
    ]
    ran = swarmd(
        "memory", "search", "disk", memory_search=shown([{**hit, "snippet": "the **disk**"} for hit in hits])
    )
    lines = ran.text.splitlines()
    places = [line.split("  ", 1)[1] for line in lines[::2]]
    assert places == [
        "memory  studio  MEMORY.md, line 4, by studio#7",
        "key  studio  status, by studio#7",
        "handoff  studio  handoff 7 from house, by studio#7",
        "transcript  studio  session 7, event 3 (in quarantine)",
        "output  studio  session 7, line 12",
    ]
    assert set(lines[1::2]) == {"    the **disk**"}


def test_what_was_found_cannot_do_anything_to_the_terminal(swarmd):
    hit = {**HIT, "file": NASTY, "by": NASTY, "agent": NASTY, "snippet": NASTY}
    ran = swarmd("memory", "search", "disk", memory_search=shown([hit]))
    assert len(ran.text.splitlines()) == 2
    assert "\x1b" not in ran.text
    assert "\u202e" not in ran.text
    assert "\\x1b[31mred" in ran.text


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (shown([]), "nothing was found; the index has what there was at 2026-"),
        (
            shown([], indexed_until=None),
            "nothing was found, but the search index is still being made: search again",
        ),
        (shown([HIT], indexed_until=None), "the search index is still being made: there may be more"),
        (
            {**shown([HIT], more=True), "next": NEXT},
            f"there is more: the same search with --until {NEXT} shows it",
        ),
        ({**shown([HIT]), "next": NEXT}, f"was not looked at: the same search with --until {NEXT} shows it"),
    ],
)
def test_what_an_answer_leaves_open_is_said_on_standard_error(document, words, swarmd):
    ran = swarmd("memory", "search", "disk", memory_search=document)
    assert ran.status == 0
    assert words in ran.err
    assert words not in ran.text


def test_on_a_real_store_without_a_daemon(here):
    from tests.cli.test_real_store import swarmd as real

    real("memory", "append", "studio", "MEMORY.md", "the disk was full")
    real("run", "studio")
    out = real("memory", "search", "disk", "full")
    assert "MEMORY.md, line 1" in out.stdout
    assert "the **disk** was **full**" in out.stdout
    assert "session 1, line 1" in real("session", "search", "hello").stdout
    assert Path(".swarmd/search.db").stat().st_mode & 0o777 == 0o600
    assert "nothing was found" in real("memory", "search", "nosuchword").stderr
    assert json.loads(real("memory", "search", "disk", "--as", "polybreak", "--json").stdout)["items"] == []
    real("memory", "search", "disk", "--as", "polybreak", "--agent", "studio", status=3)
    real("memory", "search", "**", status=2)
    real("memory", "search", "disk", "--agent", "nobody", status=4)


@pytest.mark.parametrize("command", ["memory", "session"])
def test_a_dash_takes_the_words_from_standard_input(command, swarmd):
    ran = swarmd(command, "search", "-", stdin="-full disk\n", **{f"{command}_search": shown([])})
    assert [args["text"] for _, args in ran.calls] == ["-full disk\n"]
    assert swarmd(command, "search", "-", stdin=" \n").status == 2


def test_a_kind_of_session_search_leads_to_the_command_that_has_it(swarmd):
    ran = swarmd("session", "search", "x", "--kind", "memory")
    assert ran.status == 2
    assert "swarmd memory search" in ran.err
    assert "standard input" not in ran.err
    assert "standard input" in swarmd("session", "search", "-x").err


def _directory(place):
    place.mkdir()
    return "is a directory: remove it; it is made again"


def _link(place):
    place.symlink_to("nowhere")
    return (
        "is a symbolic link to nothing, and the index is never kept behind one: remove it; it is made again"
    )


@pytest.mark.parametrize("stands", [_directory, _link])
def test_what_stands_in_the_place_of_the_index_is_named_with_what_to_do(stands, here):
    from tests.cli.test_real_store import swarmd as real

    real("memory", "append", "studio", "MEMORY.md", "the disk was full")
    place = Path(".swarmd/search.db")
    words = f"{place} {stands(place)}"
    assert words in real("memory", "search", "disk", status=5).stderr
    assert words in real("doctor", status=1).stdout
    real("run", "studio")
    place.unlink() if place.is_symlink() else place.rmdir()
    assert "MEMORY.md, line 1" in real("memory", "search", "disk").stdout
