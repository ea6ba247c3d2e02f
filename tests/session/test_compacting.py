"""The session that makes a memory small: all of it is written or nothing, and never over what others wrote meanwhile."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import replace

import pytest

from swarmd.core.agent import Limits, MemoryRules
from swarmd.core.summaries import system_text
from swarmd.core.wire import Captured, Usage
from swarmd.runners.outcomes import RunCancelled
from swarmd.runners.workspace import prepare
from swarmd.session import flow
from swarmd.session.machine import host_of
from swarmd.session.recovery import recover
from swarmd.store import sessions
from swarmd.store.database import Writer

NAME = "archive/history_2026-11-30_09-00-00.md"
DAYS = ("2026-11-02", "2026-11-09", "2026-11-16")
OLD = "# Notes\n\n" + "".join(
    f"- {day}: the deploy of release {n} went through after Ada had checked the ledger ({n})\n"
    for n, day in enumerate(DAYS * 40)
)
GOOD = "".join(f"- {day}: deploys of several releases went through, Ada checked the ledger\n" for day in DAYS)
MODEL = {"runner_kind": "anthropic", "runner_options": {"model": "m"}}
SMALL = MemoryRules(prompt_tokens=2000, summarizer_model="m-sum")


def says(text: str, *, outcome: str = "success", stop: str = "end_turn", **facts):
    """A summarizer that answers this."""

    async def script(part):
        part.desk.event("result", {"outcome": outcome, "reason": "", "text": text, "stop": stop})
        return part.done(outcome, **facts)

    return script


@pytest.fixture
def notes(swarm):
    """A swarm in which the studio has notes that are too many."""
    swarm.change("studio", memory=SMALL)
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text=OLD)
    return swarm


def compact(swarm, script=None, *, by="system", summary=None, **ports):
    id = swarm.queue("studio", trigger="compact", by=by)
    swarm.script = script or says(GOOD)
    order = replace(flow.order_of(sessions.row(swarm.reader, id)), summary=summary)
    asyncio.run(flow.run(swarm.ports(**ports), order))
    return swarm.session(id)


def unchanged(swarm) -> bool:
    files = {row["path"] for row in swarm.rows("SELECT path FROM heads WHERE agent = 'studio'")}
    return swarm.text("studio") == OLD and files == {"MEMORY.md"}


# -- what it does -------------------------------------------------------------------------------------------


def test_the_old_text_goes_to_the_archive_to_the_byte_and_the_summary_takes_its_place(notes):
    session = compact(notes)
    assert session["outcome"] == "committed"
    assert notes.text("studio", NAME) == OLD
    text = notes.text("studio")
    assert text == (
        "## Summary of earlier notes\n\n"
        f"(Made by swarmd on 2026-11-30 09:00 UTC; the whole text is in {NAME}.)\n\n{GOOD}"
    )
    assert f"summarized by m-sum); the whole text is in {NAME}" in session["reason"]
    history = notes.call("memory_history", agent="studio")["items"]
    assert {(row["file"], row["by"], row["note"]) for row in history if row["by"] != "operator:ada"} == {
        (NAME, "studio#1", "compaction"), ("MEMORY.md", "studio#1", "compaction"),
    }  # fmt: skip
    assert [(c["act"], c["target"], c["verdict"]) for c in session["changes"]] == [
        ("memory_write", "studio:MEMORY.md", "done"), ("memory_write", f"studio:{NAME}", "done"),
    ]  # fmt: skip
    audit = notes.rows("SELECT * FROM audit WHERE session = 1")
    assert [row["act"] for row in audit] == ["compact"]
    assert json.loads(audit[0]["detail"])["archive"] == NAME


def test_every_line_of_the_summary_is_of_that_session_in_blame_and_it_can_be_taken_back(notes):
    compact(notes)
    lines = notes.call("memory_blame", agent="studio")["lines"]
    assert {line["by"] for line in lines if line["text"]} == {"studio#1"}
    notes.call("memory_restore", agent="studio", file="MEMORY.md", rev=1)
    assert notes.text("studio") == OLD
    assert notes.text("studio", NAME) == OLD, "archives stay"


@pytest.mark.parametrize("act", ["session_revert", "session_quarantine"])
def test_an_archive_that_goes_with_its_compaction_is_nothing_lost(notes, act):
    compact(notes)
    assert notes.attention() == []
    if act == "session_revert":
        notes.call("session_revert", sessions=[1])
    else:
        notes.call("session_quarantine", session=1, revert=True)
    assert not notes.file("studio", NAME).exists()
    assert notes.text("studio") == OLD
    assert notes.attention() == []


def test_the_request_has_all_dates_no_tools_no_memory_and_no_token(notes):
    notes.change("studio", **MODEL)
    compact(notes)
    (request,) = notes.runner.requests
    assert all(day in request.user for day in DAYS)
    assert OLD in request.user
    assert (request.options["tools"], request.options["max_turns"]) == ([], 1)
    assert (request.memory.files, request.token, request.acts) == ({}, "", False)
    assert sessions.row(notes.reader, 1)["token_hash"] is None


def test_whoever_summarizes_has_no_acts(notes):
    async def script(part):
        assert "no acts" in await part.refused("ctx_set", key="a", value="b")
        assert (await part.checkpoint()).kind == "refused"
        return await says(GOOD)(part)

    assert compact(notes, script)["outcome"] == "committed"
    assert notes.value("studio", "a") is None


def test_what_it_has_used_stands_in_its_row_and_its_transcript_tells_of_it(notes):
    usage = Usage(tokens_in=900, tokens_out=80)
    session = compact(notes, says(GOOD, usage=usage, by_model={"m-sum": usage}))
    assert (session["tokens_in"], session["tokens_out"]) == (900, 80)
    assert [row["model"] for row in session["usage"]] == ["m-sum"]
    events = notes.call("session_log", session=1)["events"]
    assert [event["kind"] for event in events] == ["result"]


def test_a_command_prints_the_summary_on_its_standard_output(notes):
    notes.change("studio", memory=replace(SMALL, summarizer_model=None, summarizer_command=("sum",)))

    async def script(part):
        assert part.request.options["command"] == ["sum"]
        return part.done(stdout=Captured(head=GOOD.encode()))

    assert compact(notes, script)["outcome"] == "committed"
    assert GOOD in notes.text("studio")


def test_two_within_a_second_have_an_archive_each(notes):
    compact(notes)
    second = notes.text("studio") + OLD
    notes.call("memory_write", agent="studio", file="MEMORY.md", text=second)
    assert compact(notes)["outcome"] == "committed"
    assert notes.text("studio", NAME) == OLD
    assert notes.text("studio", NAME.replace(".md", "_2.md")) == second
    assert notes.text("studio").count("## Summary of earlier notes") == 1


def test_a_file_that_a_person_put_there_under_that_name_stays(notes):
    place = notes.file("studio", NAME)
    place.parent.mkdir()
    place.write_text("mine\n")
    assert compact(notes)["outcome"] == "committed"
    assert place.read_text() == "mine\n"
    assert notes.text("studio", NAME.replace(".md", "_2.md")) == OLD


def test_bytes_that_are_no_text_are_archived_as_they_are(notes):
    notes.file("studio").write_bytes(OLD.encode() + b"\xff\xfe\r\n")
    assert compact(notes)["outcome"] == "committed"
    assert notes.file("studio", NAME).read_bytes() == OLD.encode() + b"\xff\xfe\r\n"


def test_a_secret_that_a_summarizer_prints_is_masked(notes):
    notes.secrets = ("sk-secret-1234",)
    assert compact(notes, says(GOOD + "- the key of the ledger: sk-secret-1234\n"))["outcome"] == "committed"
    assert "sk-secret-1234" not in notes.text("studio")


# -- what changes nothing -----------------------------------------------------------------------------------

WRONG = {
    "empty": (says(""), "failed", "the summary is empty"),
    "only spaces": (says(" \n "), "failed", "the summary is empty"),
    "an excuse": (says("Summary unavailable."), "failed", "is no summary"),
    "longer": (says(OLD + OLD), "failed", "no less than"),
    "too long": (says("".join(f"- {DAYS[0]} the ledger of Ada {n}\n" for n in range(190))), "failed", "summary_tokens"),
    "cut": (says(GOOD, stop="max_tokens"), "failed", "not finished: max_tokens"),
    "ended for an unknown reason": (says(GOOD, stop="brand_new"), "failed", "not finished: brand_new"),
    "a made-up date": (says(GOOD + "- 2026-11-30: compacted"), "failed", "2026-11-30"),
    "no date left": (says("deploys of releases went through, Ada checked the ledger"), "failed", "lost all dates"),
    "the instructions": (says(system_text(1000)), "failed", "repeats the instructions"),
    "refused": (says("", outcome="failed", reason="refusal"), "failed", "refusal"),
    "overloaded": (says("", outcome="unavailable", reason="overloaded (529)"), "unavailable", "529"),
    "too slow": (says("", outcome="timed_out", reason="timed out"), "timed_out", "timed out"),
    "lost": (says("", outcome="lost", reason="the worker is gone"), "lost", "the worker is gone"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_nothing_changes_where_the_summary_is(notes, wrong):
    script, outcome, said = WRONG[wrong]
    session = compact(notes, script)
    assert (session["outcome"], session["changes"]) == (outcome, [])
    assert said in session["reason"]
    assert unchanged(notes)
    assert session["draft"] is None
    assert notes.attention() == ["compaction:studio"]


def test_a_runner_that_breaks_is_that_sessions_end(notes):
    async def script(part):
        raise KeyError("a fault")

    session = compact(notes, script)
    assert (session["outcome"], unchanged(notes)) == ("failed", True)
    assert "KeyError" in session["reason"]


def test_what_a_command_prints_beyond_measure_is_cut_and_so_is_none(notes):
    notes.change("studio", memory=replace(SMALL, summarizer_model=None, summarizer_command=("sum",)))

    async def script(part):
        return part.done(stdout=Captured(head=GOOD.encode(), tail=b"x", dropped=5))

    assert "is cut" in compact(notes, script)["reason"]
    assert unchanged(notes)


@pytest.mark.parametrize(
    ("printed", "said"),
    [(GOOD.encode() + b"\xff\xfe", "no UTF-8"), (GOOD.encode() + b"\0", "NUL")],
)
def test_what_is_no_text_is_no_summary(notes, printed, said):
    notes.change("studio", memory=replace(SMALL, summarizer_model=None, summarizer_command=("sum",)))

    async def script(part):
        return part.done(stdout=Captured(head=printed))

    assert said in compact(notes, script)["reason"]
    assert unchanged(notes)


@pytest.mark.parametrize("by", ["system", "operator:ada"])
def test_what_a_terminal_would_obey_stands_escaped_in_the_memory(notes, by):
    text = GOOD + "- the ledger \x1b]0;of Ada\x07\n"
    session = compact(notes, says(text), by=by, summary=None if by == "system" else text)
    assert session["outcome"] == "committed", session["reason"]
    assert "- the ledger \\x1b]0;of Ada\\x07\n" in notes.text("studio")


def test_one_that_fails_counts_for_no_pause_is_not_retried_and_is_told_until_one_succeeds(notes):
    notes.change("studio", limits=Limits(retries=3, pause_after_failures=1))
    compact(notes, says(""))
    assert notes.live() == []
    assert notes.rows("SELECT * FROM pauses") == []
    assert notes.attention() == ["compaction:studio"]
    compact(notes)
    assert notes.attention() == []


def test_it_is_not_the_agents_last_session(notes):
    notes.play("studio")
    before = notes.call("agent_show", agent="studio")
    compact(notes, says(""))
    after = notes.call("agent_show", agent="studio")
    assert (after["last_session"], after["last_outcome"]) == (before["last_session"], "no_change")
    assert "failing:studio" not in notes.attention()
    session = notes.play("studio")
    assert "summary is empty" not in json.dumps(
        notes.call("session_show", session=session["id"], prompt_text=True)
    )


def test_what_is_small_again_or_empty_is_let_alone(notes):
    notes.call("memory_write", agent="studio", file="MEMORY.md", text="- little\n")
    session = compact(notes)
    assert (session["outcome"], "small again" in session["reason"]) == ("no_change", True)
    notes.call("memory_write", agent="studio", file="MEMORY.md", text="")
    assert compact(notes)["outcome"] == "no_change"
    assert notes.runner.requests == []


# -- bounds -------------------------------------------------------------------------------------------------


def test_notes_that_are_larger_than_the_window_are_summarized_in_pieces_each_with_the_summary_so_far(notes):
    notes.change("studio", memory=replace(SMALL, context_tokens=4000, prompt_tokens=4000, summary_tokens=600))
    much = OLD * 5
    notes.call("memory_write", agent="studio", file="MEMORY.md", text=much)
    so_far = []

    async def script(part):
        so_far.append("the summary so far" in part.request.user)
        return await says(GOOD, usage=Usage(tokens_in=100, tokens_out=10))(part)

    session = compact(notes, script)
    assert session["outcome"] == "committed"
    assert so_far == [False] + [True] * (len(so_far) - 1)
    assert len(so_far) > 3
    assert session["tokens_in"] == 100 * len(so_far)
    assert notes.text("studio", NAME) == much
    shown = "".join(r.user.split("begin text: the notes of studio")[1] for r in notes.runner.requests)
    assert all(
        shown.count(line) == much.count(line) for line in set(much.splitlines(keepends=True)) if line.strip()
    )


def test_one_line_that_is_larger_than_the_window_is_summarized_in_pieces_too(notes):
    notes.change("studio", memory=replace(SMALL, context_tokens=4000, prompt_tokens=4000, summary_tokens=600))
    much = "# Notes\n\n" + OLD.removeprefix("# Notes\n\n").replace("\n", " ") * 5 + "\n- short\n"
    notes.call("memory_write", agent="studio", file="MEMORY.md", text=much)
    session = compact(notes)
    assert session["outcome"] == "committed", session["reason"]
    assert notes.text("studio", NAME) == much
    assert GOOD in notes.text("studio")
    requests = [request.user for request in notes.runner.requests]
    assert len(requests) > 3
    assert all("the summary so far" in request for request in requests[1:])
    for day in DAYS:
        assert (
            sum(request.split("the notes of studio")[1].count(f"{day}: the deploy") for request in requests)
            == 200
        )


def test_a_piece_whose_summary_is_bad_ends_it(notes):
    notes.change("studio", memory=replace(SMALL, context_tokens=3000, summary_tokens=400))
    answers = [GOOD, ""]

    async def script(part):
        return await says(answers.pop(0))(part)

    assert "is empty" in compact(notes, script)["reason"]
    assert unchanged(notes)


def test_no_request_is_made_that_would_go_over_tokens_per_session(notes):
    notes.change("studio", limits=Limits(tokens_per_session=500))
    session = compact(notes)
    assert (session["outcome"], notes.runner.requests) == ("failed", [])
    assert "tokens_per_session" in session["reason"]
    assert unchanged(notes)


def test_it_is_cancelled_as_other_sessions_are(notes):
    async def script(part):
        raise RunCancelled(part.done("cancelled", usage=Usage(tokens_in=7, tokens_out=0)))

    session = compact(notes, script)
    assert (session["outcome"], session["reason"], session["tokens_in"]) == ("cancelled", "cancelled", 7)
    assert unchanged(notes)
    assert notes.attention() == []


# -- what is written meanwhile ------------------------------------------------------------------------------


def meanwhile(swarm, act):
    """A good summarizer, during whose work something else happens."""

    async def script(part):
        await asyncio.to_thread(act)
        return await says(GOOD)(part)

    return script


def test_what_is_appended_meanwhile_stands_after_the_summary(notes):
    script = meanwhile(
        notes, lambda: notes.call("memory_append", agent="studio", file="MEMORY.md", text="- new")
    )
    assert compact(notes, script)["outcome"] == "committed"
    assert notes.text("studio").endswith(f"{GOOD}- new\n")
    assert notes.text("studio", NAME) == OLD
    assert len(notes.runner.requests) == 1


def test_a_persons_edit_in_the_middle_throws_it_away_and_it_is_made_again_of_the_new_text(notes):
    edited = OLD.replace(f"- {DAYS[1]}", f"- person was here\n- {DAYS[1]}", 1)
    times = []

    def edit():
        if not times:
            notes.file("studio").write_text(edited)
        times.append(1)

    assert compact(notes, meanwhile(notes, edit))["outcome"] == "committed"
    assert len(notes.runner.requests) == 2
    assert "person was here" in notes.runner.requests[1].user
    assert notes.text("studio", NAME) == edited


def test_who_edits_again_and_again_is_not_waited_for_and_nothing_is_changed(notes):
    times = []

    def edit():
        times.append(1)
        notes.file("studio").write_text(OLD.replace("- ", f"- edit {len(times)}\n- ", 1))

    session = compact(notes, meanwhile(notes, edit))
    assert (session["outcome"], len(times)) == ("failed", 3)
    assert "3 times in a row" in session["reason"]
    assert "- edit 3\n" in notes.text("studio")
    assert not notes.file("studio", NAME).exists()
    assert notes.attention() == ["compaction:studio", "conflict:studio"]


def test_a_memory_that_is_deleted_meanwhile_is_not_made_anew(notes):
    script = meanwhile(notes, lambda: notes.call("memory_delete", agent="studio", file="MEMORY.md"))
    session = compact(notes, script)
    assert session["outcome"] == "no_change", session["reason"]
    assert not notes.file("studio", NAME).exists()


@pytest.mark.parametrize(
    ("added", "requests", "end"), [(" end\n", 2, GOOD), ("\n- new\n", 1, f"{GOOD}- new\n")]
)
def test_to_go_on_with_a_last_line_without_an_end_is_a_change_and_a_line_after_it_an_addition(
    notes, added, requests, end
):
    old = OLD + "- open"
    notes.call("memory_write", agent="studio", file="MEMORY.md", text=old)
    script = meanwhile(notes, lambda: notes.file("studio").write_text(old + added))
    assert compact(notes, script)["outcome"] == "committed"
    assert len(notes.runner.requests) == requests
    assert notes.text("studio").endswith(end)
    assert notes.text("studio", NAME) == (old if requests == 1 else old + added)


def test_a_log_that_moves_lets_a_persons_edit_of_its_newest_block_stand(swarm):
    swarm.change("studio", memory=MemoryRules(prompt_tokens=4000, log=True, summary_tokens=1000))
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text=LOG)
    settle, edited = (
        swarm.store.folders.settle,
        LOG.replace("11-28T10:00:00Z\n\n", "11-28T10:00:00Z\n\n- person was here\n"),
    )
    times = []

    def meanwhile(agent):
        times.append(agent)
        if len(times) == 2:
            swarm.file("studio").write_text(edited)
        return settle(agent)

    swarm.store.folders.settle = meanwhile
    assert compact(swarm)["outcome"] == "committed"
    assert "- person was here\n" in swarm.text("studio")
    assert swarm.text("studio", NAME) == LOG


# -- a person's summary, and none ---------------------------------------------------------------------------


def test_a_persons_summary_is_taken_without_any_model(notes):
    session = compact(notes, by="operator:ada", summary="- deploys go through since Ada checks the ledger\n")
    assert (session["outcome"], notes.runner.requests) == ("committed", [])
    assert "- deploys go through" in notes.text("studio")
    assert "operator:ada gave" in session["reason"]


@pytest.mark.parametrize("summary", ["   ", OLD, "No summary."])
def test_a_persons_summary_that_is_none_changes_nothing_and_is_no_item_of_attention(notes, summary):
    session = compact(notes, by="operator:ada", summary=summary)
    assert (session["outcome"], unchanged(notes)) == ("failed", True)
    assert notes.attention() == []


LOG = "# Notes\n\n- a fact\n\n## Interaction Log\n\n" + "".join(
    f"### agent (session {day}) \u2014 2026-11-{day:02}T10:00:00Z\n\n" + "it went well\n" * 40 + "\n---\n\n"
    for day in range(1, 29)
)


def test_a_log_without_a_summarizer_loses_its_oldest_blocks_to_the_archive_and_asks_nobody(swarm):
    swarm.change("studio", memory=MemoryRules(prompt_tokens=4000, log=True, summary_tokens=1000))
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text=LOG)
    assert compact(swarm)["outcome"] == "committed"
    assert swarm.runner.requests == []
    assert swarm.text("studio", NAME) == LOG
    text = swarm.text("studio")
    assert "- a fact\n" in text
    assert f"(Older blocks are in {NAME}.)" in text
    assert "session 28" in text
    assert "session 1)" not in text


def test_without_anybody_to_summarize_it_says_what_to_do(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text=OLD)
    session = compact(swarm, by="operator:ada")
    assert session["outcome"] == "failed"
    assert "memory.summarizer_model" in session["reason"]
    assert "--summary-file" in session["reason"]


def test_an_agent_that_only_has_a_heading_of_a_log_is_told_the_same(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text=f"{OLD}\n## Interaction Log\n")
    session = compact(swarm, by="operator:ada")
    assert "memory.summarizer_model" in session["reason"]
    assert "--summary-file" in session["reason"]


# -- death --------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The daemon is gone."""


def test_one_that_was_lost_with_the_daemon_has_changed_nothing_and_left_no_draft(notes):
    async def script(part):
        copy = notes.places.state / "sessions" / str(part.request.session) / "memory"
        copy.mkdir(parents=True)
        (copy / "left.md").write_text("what a summarizer left\n")
        raise Killed

    with pytest.raises(Killed):
        compact(notes, script)
    notes.close()
    notes.open()
    assert recover(notes.store, host_of(notes.places), notes.clock.now()) == [1]
    session = notes.session(1)
    assert (session["outcome"], session["draft"], unchanged(notes)) == ("lost", None, True)
    assert notes.live() == [], "it is not retried as a session of the agent's work is"


def test_nothing_that_its_summarizer_was_given_stays_where_recovery_is_killed_too(notes, monkeypatch):
    async def script(part):
        prepare(host_of(notes.places), str(part.request.session), prompt=b"the notes",
                memory=part.request.memory, read_only=())  # fmt: skip
        raise Killed

    def dies(*_):
        raise Killed

    with pytest.raises(Killed):
        compact(notes, script)
    notes.close()
    notes.open()
    with monkeypatch.context() as patch:
        patch.setattr(Writer, "do", dies)
        with pytest.raises(Killed):
            recover(notes.store, host_of(notes.places), notes.clock.now())
    folder = notes.places.state / "sessions/1"
    assert [path.name for path in folder.iterdir() if path.name != "transcript.jsonl"] == []
    assert recover(notes.store, host_of(notes.places), notes.clock.now()) == [1]


def test_one_that_only_waited_ends_with_the_daemon(notes):
    id = notes.queue("studio", trigger="compact", by="system")
    recover(notes.store, host_of(notes.places), notes.clock.now())
    assert notes.session(id)["outcome"] == "cancelled"


def test_an_agent_that_is_removed_meanwhile_keeps_its_memory_as_it_is(notes):
    session = compact(notes, meanwhile(notes, lambda: notes.remove("studio")))
    assert (session["outcome"], unchanged(notes)) == ("failed", True)
    assert "nothing is changed" in session["reason"]


# -- all at once --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(16))
def test_two_people_and_a_session_write_one_memory_with_a_compaction_between_and_no_line_is_lost(notes, seed):
    chance = random.Random(seed)
    file = notes.file("studio")
    notes.store.folders.settle("studio")
    lines = set(OLD.splitlines())
    loaded = [file.read_text(), file.read_text()]
    moments = [chance.randrange(4), chance.randrange(4)]

    def people(moment):
        for number, at in enumerate(moments):
            if at != moment:
                continue
            text = loaded[number] if chance.random() < 0.6 else file.read_text()
            own = ("- Grace moves into another office in spring", "- Linus wants larger disks for his tapes")[
                number
            ]
            place = chance.choice(
                [0, text.find("\n- ") + 1, len(text) // 2 and text.find("\n", len(text) // 2) + 1]
            )
            added = text + f"{own}\n" if chance.random() < 0.5 else f"{text[:place]}{own}\n{text[place:]}"
            lines.add(own)
            file.write_text(added)
            # Whom nobody has looked at before another writes over it, is that other's to lose.
            notes.store.folders.settle("studio")

    async def work(part):
        part.write("MEMORY.md", part.files["MEMORY.md"].decode() + "- the session noted this\n")
        await asyncio.to_thread(people, 0)

    assert notes.play("studio", work)["outcome"] == "committed"
    lines.add("- the session noted this")
    people(1)

    async def summarize(part):
        await asyncio.to_thread(people, 2)
        moments[:] = [at for at in moments if at != 2] or [9]
        return await says(GOOD)(part)

    session = compact(notes, summarize)
    assert session["outcome"] == "committed", session["reason"]
    people(3)
    notes.store.folders.settle("studio")
    kept = [path.read_text() for path in file.parent.rglob("*.md")]
    kept += [row["ours"] for row in notes.rows("SELECT * FROM conflicts")]
    assert sorted(lines - set("\n".join(kept).splitlines())) == []
    assert (file.parent / NAME).exists()


async def test_a_draft_that_is_older_than_the_compaction_is_laid_over_the_summary(notes):
    async def fails(part):
        part.write("MEMORY.md", OLD + "- found out, and not saved\n")
        return part.done("failed", reason="no")

    await notes.run("studio", fails)
    await asyncio.to_thread(compact, notes)
    notes.call("session_apply", session="1")
    assert notes.text("studio").endswith(f"{GOOD}- found out, and not saved\n")


# -- folders about a subject --------------------------------------------------------------------------------


def test_what_is_about_a_subject_stays_in_its_folder_and_the_agents_own_is_not_touched(notes):
    async def about(part):
        part.write("MEMORY.md", OLD)

    assert notes.play("studio", about, subject="alice")["outcome"] == "committed"
    id = notes.queue("studio", trigger="compact", by="system", subject="alice")
    notes.script = says(GOOD)
    asyncio.run(flow.run(notes.ports(), flow.order_of(sessions.row(notes.reader, id))))
    assert notes.session(id)["outcome"] == "committed", notes.session(id)["reason"]
    assert notes.text("studio@alice").endswith(GOOD)
    assert notes.text("studio@alice", NAME) == OLD
    assert unchanged(notes)
    failed = notes.queue("studio", trigger="compact", by="system", subject="alice")
    notes.call("memory_write", agent="studio@alice", file="MEMORY.md", text=OLD)
    notes.script = says("")
    asyncio.run(flow.run(notes.ports(), flow.order_of(sessions.row(notes.reader, failed))))
    assert "compaction:studio@alice" in notes.attention()


def test_each_line_of_an_archive_is_whose_it_was(notes):
    async def learns(part):
        part.write("MEMORY.md", OLD + "- and one of its own\n")

    learned = notes.play("studio", learns)["id"]
    compact(notes)
    (archive,) = [row["path"] for row in notes.rows("SELECT path FROM heads WHERE path LIKE 'archive/%'")]
    lines = notes.call("memory_blame", agent="studio", file=archive)["lines"]
    assert lines[-1]["text"] == "- and one of its own"
    assert [line["by"] for line in lines] == ["operator:ada"] * (len(lines) - 1) + [f"studio#{learned}"]


@pytest.mark.parametrize("act", ["session_revert", "session_quarantine"])
def test_an_archive_stays_where_the_text_that_is_in_it_is_not_put_back(notes, act):
    compact(notes)
    notes.call("memory_append", agent="studio", file="MEMORY.md", text="written since")
    if act == "session_revert":
        done = notes.call("session_revert", sessions=[1])
    else:
        done = notes.call("session_quarantine", session=1, revert=True)
    assert notes.text("studio", NAME) == OLD
    assert "written since" in notes.text("studio")
    reasons = {item["target"]: item["reason"] for item in done["not_undone"]}
    assert (
        reasons[f"studio:{NAME}"] == "it stays, since text of MEMORY.md, which is not put back, may be in it"
    )
