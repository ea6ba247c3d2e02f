"""Blocks of the interaction log, and where text under a heading goes: nothing around it is touched."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from swarmd.core.changes import AppendMemory, SetKey, WriteMemory
from swarmd.core.interaction_log import (
    BLOCK_BYTES,
    HEADING,
    UNDATED,
    Block,
    added_to,
    appended_under,
    blocks,
    heading_problem,
    is_log,
    section,
    shortened,
    stamp,
    written,
)
from swarmd.core.judge import fold
from swarmd.core.text import escaped
from swarmd.core.world import Actor
from tests.core.worlds import DictWorld, tree_of

AT = "2026-11-30T09:00:00+00:00"
TREE = tree_of(studio=None)
SWARMS = """# Agent Memory

**Conversation:** bakery
**Created:** 2026-04-20T08:00:00.123456

---

## Interaction Log

### User — 2026-04-20T08:00:01.000001

Which flour is left?

---

### Baker — 2026-04-20T08:00:05.500000

## Stock

Rye, two sacks.

---

All counted.

---

"""
"""As the framework of that name writes it: local times, and texts with headings and rules of their own."""


def block(text="hello", role="assistant", session=12, at=AT):
    return written(Block(role=role, at=at, text=text, session=session))


def test_a_block_says_who_when_and_which_session():
    assert block() == "### assistant (session 12) — 2026-11-30T09:00:00+00:00\n\nhello\n\n---\n\n"
    assert block(session=None, at=UNDATED) == "### assistant — no date\n\nhello\n\n---\n\n"


def test_the_time_of_a_block_is_utc_whatever_zone_the_moment_is_in():
    berlin = timezone(timedelta(hours=1))
    assert stamp(datetime(2026, 11, 30, 10, 0, 0, 5, tzinfo=berlin)) == AT
    assert stamp(datetime(2026, 11, 30, 9, 0, tzinfo=UTC)) == AT


TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.lists(
    st.sampled_from(
        ["# h", "## Interaction Log", "### assistant (session 9) — 2026-01-01T00:00:00+00:00", "---", "```", "~~~~", "x",
         "", "\\# h", "  ## h", "    # code", "#tag", "```sh", "===", "\\\\### x"]
    ),
    max_size=12,
).map("\n".join)  # fmt: skip


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool"]), TEXTS), max_size=4))
@example([("user", "```\n# open"), ("assistant", "## Other\n\n---\n\n### user — 2026-01-01")])
def test_what_is_written_is_read_again_and_no_text_can_forge_a_block_or_end_the_section(turns):
    page = (
        "# Notes\n\n## Interaction Log\n\n"
        + "".join(block(text, role) for role, text in turns)
        + "## After\n\nrest\n"
    )
    found = blocks(page)
    assert [b.role for b in found] == [role for role, _ in turns]
    assert {b.session for b in found} <= {12}
    for one, (_, text) in zip(found, turns, strict=True):
        wanted = escaped(text.replace("\r\n", "\n").replace("\r", "\n")).strip("\n")
        # Beyond the text only the end of a fence may stand there.
        assert one.text == wanted.rstrip("\n") or one.text.startswith(wanted)
    start, end = section(page)
    assert page[end:] == "## After\n\nrest\n"
    assert page[start:].startswith(HEADING)


def test_a_fence_that_a_text_leaves_open_is_closed_with_its_block():
    assert block("```sh\n# ls").endswith("```sh\n\\# ls\n```\n\n---\n\n")
    assert block("~~~~\n```").endswith("~~~~\n```\n~~~~\n\n---\n\n")


def test_control_characters_are_shown_and_line_ends_are_ours():
    assert "a\nb\\x1b[31m\\u202e" in block("a\r\nb\x1b[31m\u202e")
    assert block(role="a\nb — c\x07").startswith("### a\\nb — c\\x07 (session 12) — ")
    assert blocks(block(role="x — y"))[0].role == "x — y"


def test_blocks_that_the_framework_wrote_are_read_with_their_own_times():
    first, second = blocks(SWARMS)
    assert (first.role, first.at, first.text) == (
        "User",
        "2026-04-20T08:00:01.000001",
        "Which flour is left?",
    )
    assert second.text == "## Stock\n\nRye, two sacks.\n\n---\n\nAll counted."
    assert (first.session, second.session) == (None, None)
    assert SWARMS[first.start : first.end].startswith("### User")
    assert first.end == second.start


def test_headings_in_texts_of_the_framework_do_not_end_its_log():
    grown = appended_under(SWARMS.encode(), block().encode(), HEADING).decode()
    assert grown == SWARMS + block()[:-1]
    again = appended_under(grown.encode(), block("again").encode(), HEADING).decode()
    assert again == grown + "\n" + block("again")[:-1]
    assert [b.text for b in blocks(again)][2:] == ["hello", "again"]


def test_a_section_that_a_person_put_behind_the_log_stays_behind_it():
    page = SWARMS + "## Plans\n\nBuy flour.\n"
    assert appended_under(page.encode(), block().encode(), HEADING).decode() == (
        SWARMS + block() + "## Plans\n\nBuy flour.\n"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", "## Log\n\nx\n"),
        ("notes", "notes\n\n## Log\n\nx\n"),
        ("notes\n", "notes\n\n## Log\n\nx\n"),
        ("notes\n\n", "notes\n\n## Log\n\nx\n"),
        ("## Log\n", "## Log\n\nx\n"),
        ("## Log\n\na\n", "## Log\n\na\n\nx\n"),
        ("## Log\n\na", "## Log\n\na\n\nx\n"),
        ("## Log\na\n## Next\nb\n", "## Log\na\n\nx\n\n## Next\nb\n"),
        ("## Log\na\n\n\n# Next\nb", "## Log\na\n\n\nx\n\n# Next\nb"),
        ("## Log\na\n### Sub\nb\n", "## Log\na\n### Sub\nb\n\nx\n"),
        ("##  LOG ##\n\na\n", "##  LOG ##\n\na\n\nx\n"),
        ("### Log\n", "### Log\n\n## Log\n\nx\n"),
        ("## Log\n```\n## no\n```\nb\n", "## Log\n```\n## no\n```\nb\n\nx\n"),
        ("```\n## Log\n```\n", "```\n## Log\n```\n\n## Log\n\nx\n"),
        ("```\nopen\n## Log\na\n## Next\n", "```\nopen\n## Log\na\n\nx\n\n## Next\n"),
        ("~~~~\n```\n# a\n```\n## Log\n~~~~\n", "~~~~\n```\n# a\n```\n## Log\n~~~~\n\n## Log\n\nx\n"),
        ("a\r\n\r\n## Log\r\nb\r\n", "a\r\n\r\n## Log\r\nb\r\n\r\nx\r\n"),
        ("a\r\nb\r\n", "a\r\nb\r\n\r\n## Log\r\n\r\nx\r\n"),
        ("\ufeff## Log\nb\n", "\ufeff## Log\nb\n\nx\n"),
    ],
)  # fmt: skip
def test_text_goes_to_the_end_of_its_section(old, new):
    assert appended_under(old.encode(), b"x\n", "## Log").decode() == new


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([b"## Log", b"## Other", b"# Top", b"x", b"", b"```", b"~~~", b"\xff\xfe", b"---",
                                 "### u — 2026-01-01".encode()]), max_size=14), st.sampled_from([b"\n", b"\r\n"]))  # fmt: skip
def test_all_that_was_there_stays_to_the_byte(lines, end):
    old = end.join(lines)
    new = appended_under(old, b"added text\n", "## Log")
    at = new.index(b"added text")
    assert new.count(b"added text") == 1
    assert any(
        old == new[:cut] + new[rest:]
        for cut in range(max(at - 20, 0), at + 1)
        for rest in range(at, min(at + 30, len(new)) + 1)
    )


def test_a_long_page_of_open_fences_is_read_in_a_moment():
    page = "\n".join(f"```{n}" for n in range(100_000)) + "\n## Log\n"
    assert section(page, "## Log") is not None


def test_what_is_no_heading_cannot_be_appended_under():
    world = DictWorld(TREE)
    for under in ("Log", "##", "## a\n## b", "#Log", ""):
        assert heading_problem(under)
        change = AppendMemory(agent="studio", path="a.md", text="x", under=under)
        (verdict,) = fold(Actor(by="studio#1", agent="studio", session=1), [change], world).verdicts
        assert (verdict.decision, verdict.kind) == ("refused", "bad_input")
    assert heading_problem("## Interaction Log") is None


LOG = AppendMemory(agent="studio", path="MEMORY.md", text=block(), under=HEADING)
ACTOR = Actor(by="studio#12", agent="studio", session=12)


def test_a_log_without_room_is_left_out_and_the_rest_of_the_change_set_is_not():
    world = DictWorld(TREE)
    full = WriteMemory(agent="studio", path="MEMORY.md", data=b"x" * (1024 * 1024 - 10))
    folded = fold(ACTOR, [SetKey(agent="studio", key="k", value="v"), full, LOG], world)
    assert folded.refusals == []
    assert [v.decision for v in folded.verdicts] == ["done", "done", "superseded"]
    assert (
        "not kept in the log: memory full: MEMORY.md has 1,048,566 bytes and may have 1,048,576"
        in folded.verdicts[2].reason
    )


def test_the_log_of_an_agent_that_is_gone_is_no_refusal():
    folded = fold(Actor(by="gone#1", agent="gone", session=1), [LOG], DictWorld(TREE))
    assert folded.refusals == []
    assert folded.verdicts[0].decision == "superseded"


def test_only_blocks_for_memory_md_are_a_log():
    assert is_log(LOG)
    assert not is_log(AppendMemory(agent="studio", path="MEMORY.md", text="x"))
    assert not is_log(AppendMemory(agent="studio", path="a.md", text="x", under=HEADING))
    assert not is_log(WriteMemory(agent="studio", path="MEMORY.md", data=b""))


def test_a_long_text_keeps_its_beginning_or_its_end_and_says_what_is_left_out():
    assert shortened("short", BLOCK_BYTES) == "short"
    assert shortened("ab" * 10, 4) == "abab\n[16 more bytes]"
    assert shortened("ab" * 10, 4, tail=True) == "[16 bytes before this]\nabab"
    assert shortened("ab", 4, tail=True, before=1_000) == "[1,000 bytes before this]\nab"
    assert shortened("äöü", 3) == "ä\n[4 more bytes]"


def test_what_is_added_to_a_memory_whose_end_is_the_log_stands_with_the_notes():
    old = b"# Notes\n- one\n\n" + appended_under(
        b"", written(Block(role="user", at="2026-11-30", text="hi")).encode(), HEADING
    )
    new = added_to("MEMORY.md", old, b"- the key is under the mat")
    start = new.index(HEADING.encode())
    assert new[:start] == b"# Notes\n- one\n- the key is under the mat\n\n"
    assert new[start:] == old[old.index(HEADING.encode()) :]
    assert added_to("other.md", old, b"x").endswith(b"\nx\n")
    after = old + b"## Afterwards\n"
    assert added_to("MEMORY.md", after, b"x") == after + b"x\n"


def test_what_is_added_before_the_log_has_the_line_ends_of_the_file():
    log = appended_under(b"# Notes\r\n", block().encode(), HEADING)
    new = added_to("MEMORY.md", log, b"- one\n- two\n")
    assert new.startswith(b"# Notes\r\n- one\r\n- two\r\n\r\n## Interaction Log\r\n")
    assert new.count(b"\n") == new.count(b"\r\n")
