"""When the daemon makes memories small by itself, and what it does where that does not succeed."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from swarmd.core.wire import Captured, MemoryTree, Result
from swarmd.errors import BadInput, Busy
from swarmd.runners import registry
from tests.daemon import play
from tests.daemon.kit import until

DAY = "2026-11-02"
LINE = f"- {DAY}: a deploy of the game went through after Ada had checked the ledger of the month\n"
MUCH = LINE * 60
GOOD = f"- {DAY}: sixty deploys of the game went through, Ada checked the ledger\n"
MEMORY = '[memory]\nprompt_tokens = 1000\nsummarizer_command = ["sum"]\n'


@pytest.fixture
def swarm(swarm, monkeypatch):
    """Summarizers are the stage's too: what they print is `swarm.answers`, in turn, the last for ever."""
    monkeypatch.setattr(registry, "BUILT_IN", {**registry.BUILT_IN, "command": "tests.daemon.play"})
    swarm.answers = [GOOD]

    async def summarize(request, desk):
        if request.trigger != "compact":
            return await play.succeed(request, desk)
        text = swarm.answers.pop(0) if len(swarm.answers) > 1 else swarm.answers[0]
        return Result(outcome="success", exit=0, stdout=Captured(head=text.encode()))

    async def note(request, desk):
        """A session that adds to its memory."""
        old = request.memory.read("MEMORY.md") or b""
        return Result(outcome="success", exit=0, memory=MemoryTree.of({"MEMORY.md": old + MUCH.encode()}))

    swarm.stage.parts |= {"succeed": summarize, "note": note}
    return swarm


def compactions(swarm):
    return [row for row in swarm.sessions() if row["trigger"] == "compact"]


def ended(swarm, count):
    return lambda: [row["state"] for row in compactions(swarm)] == ["ended"] * count


def summarized(swarm):
    """How many summaries were asked for."""
    return sum(request.trigger == "compact" for request in swarm.stage.played)


async def fill(swarm, agent="disk"):
    """Once the daemon has looked at all memories at its start: it would else see this one as well, now and then."""
    await until(lambda: not swarm.daemon._tasks)
    await swarm.ask("memory_write", agent=agent, file="MEMORY.md", text=MUCH)


async def failed_and_pruned(swarm):
    """The first compaction has failed, and a person has made the memory small: nothing is tried again."""
    await until(lambda: ended(swarm, 1)() and not swarm.daemon._tasks)
    await swarm.ask("memory_write", agent="disk", file="MEMORY.md", text=LINE)
    swarm.clock.pass_(301)
    await swarm.daemon.minute()
    await until(lambda: "compaction:disk" not in swarm.attention())


def text(swarm, agent="disk"):
    return (swarm.places.state / "memory" / agent / "MEMORY.md").read_text()


async def test_a_session_that_makes_its_memory_too_large_is_followed_by_one_that_makes_it_small(swarm):
    swarm.agent("disk", "0 * * * *", part="note", more=MEMORY)
    swarm.stage.parts["note"], note = play.succeed, swarm.stage.parts["note"]

    async def by_trigger(request, desk):
        part = "succeed" if request.trigger == "compact" else "note"
        return await ({"note": note}[part] if part == "note" else swarm.stage.parts["succeed"])(request, desk)

    swarm.stage.parts["note"] = by_trigger
    async with swarm.up():
        await swarm.at("11:00")
        await until(lambda: text(swarm).endswith(GOOD))
        (row,) = compactions(swarm)
        assert (row["outcome"], row["by"]) == ("committed", "system"), row["reason"]
        assert (swarm.places.state / "memory/disk/archive/history_2091-01-01_11-00-00.md").read_text() == MUCH


async def test_a_memory_that_is_small_or_has_not_changed_is_looked_at_no_further(swarm):
    swarm.agent("disk", "0 * * * *", more=MEMORY)
    async with swarm.up():
        await swarm.ask("memory_write", agent="disk", file="MEMORY.md", text=LINE)
        looks = []
        found = swarm.daemon.compactions._found
        swarm.daemon.compactions._found = lambda names: looks.append(list(names)) or found(names)
        for hour in (11, 12, 13):
            await swarm.at(f"{hour}:00")
        await until(lambda: len(looks) == 1)
        assert compactions(swarm) == []


async def test_what_was_missed_is_made_small_at_the_start(swarm):
    swarm.agent("disk", more=MEMORY)
    async with swarm.up():
        await fill(swarm)
    async with swarm.up():
        await until(lambda: text(swarm).endswith(GOOD))


async def test_a_person_who_makes_it_too_large_is_met_after_the_next_session(swarm):
    swarm.agent("disk", "0 * * * *", more=MEMORY)
    async with swarm.up():
        await swarm.at("11:00")
        (swarm.places.state / "memory/disk").mkdir(parents=True)
        (swarm.places.state / "memory/disk/MEMORY.md").write_text(MUCH)
        await swarm.at("12:00")
        await until(ended(swarm, 1))


@pytest.mark.parametrize("more", ["enabled = false\n" + MEMORY, "", MEMORY.replace("summarizer", "#")])
async def test_who_is_off_or_has_no_summarizer_is_let_alone(swarm, more):
    swarm.agent("disk", more=more)
    async with swarm.up():
        await fill(swarm)
    async with swarm.up():
        await until(lambda: not swarm.daemon._tasks)
        assert swarm.sessions() == []


async def test_a_paused_agents_memory_is_made_small_by_hand_alone(swarm):
    swarm.agent("disk", "0 * * * *", more=MEMORY)
    async with swarm.up():
        await fill(swarm)
        await swarm.ask("pause", agent="disk")
    async with swarm.up():
        await until(lambda: not swarm.daemon._tasks)
        assert compactions(swarm) == []
        done = await swarm.ask("memory_compact", agent="disk")
        assert (done["outcome"], done["tokens_before"] > 900 > done["tokens_after"]) == ("committed", True)


async def test_after_failures_it_waits_twice_as_long_each_time_and_is_told_until_one_succeeds(swarm):
    swarm.agent("disk", more=MEMORY)
    swarm.answers = ["", "", GOOD]
    async with swarm.up():
        await fill(swarm)
    async with swarm.up():
        await until(ended(swarm, 1))
        assert swarm.attention() == ["compaction:disk"]
        for minutes, count in ((4, 1), (2, 2), (9, 2), (2, 3)):
            await until(lambda: not swarm.daemon._tasks)
            swarm.clock.pass_(60 * minutes)
            await swarm.daemon.minute()
            await until(ended(swarm, count))
        assert swarm.outcomes("disk") == ["failed", "failed", "committed"]
        assert swarm.attention() == []


async def test_the_wait_after_a_failure_outlives_the_daemon(swarm):
    swarm.agent("disk", more=MEMORY)
    swarm.answers = ["", GOOD]
    async with swarm.up():
        await fill(swarm)
    async with swarm.up():
        await until(ended(swarm, 1))
    swarm.clock.pass_(60)
    async with swarm.up():
        await until(lambda: not swarm.daemon._tasks)
        assert len(compactions(swarm)) == 1
        swarm.clock.pass_(300)
        await swarm.daemon.minute()
        await until(lambda: text(swarm).endswith(GOOD))


async def test_failures_by_hand_do_not_put_off_what_the_daemon_does_by_itself(swarm):
    swarm.agent("disk", more=MEMORY)
    swarm.answers = ["", "", "", GOOD]
    async with swarm.up():
        await fill(swarm)
        for _ in range(3):
            assert (await swarm.ask("memory_compact", agent="disk"))["outcome"] == "failed"
        assert swarm.attention() == []
    async with swarm.up():
        await until(ended(swarm, 4))
        assert [(row["by"].split(":")[0], row["outcome"]) for row in compactions(swarm)] == [
            *[("operator", "failed")] * 3, ("system", "committed"),
        ]  # fmt: skip


async def test_failures_from_before_the_memory_was_pruned_count_no_more(swarm):
    swarm.agent("disk", "0 * * * *", more=MEMORY)
    swarm.answers = ["", "", GOOD]
    async with swarm.up():
        await fill(swarm)
    async with swarm.up():
        await failed_and_pruned(swarm)
        await fill(swarm)
    async with swarm.up():
        await until(lambda: ended(swarm, 2)() and not swarm.daemon._tasks)
        swarm.clock.pass_(301)
        await swarm.daemon.minute()
        await until(lambda: text(swarm).endswith(GOOD))


async def test_one_that_is_put_off_stands_in_attention_with_when_it_is_tried_again(swarm):
    swarm.agent("disk", more=MEMORY)
    async with swarm.up():
        await fill(swarm)
    swarm.stage.hold()
    async with swarm.up():
        await until(lambda: swarm.stage.now == 1)
        await swarm.ask("session_cancel", session=str(compactions(swarm)[0]["id"]))
        await until(lambda: swarm.attention() == ["compaction:disk"])
        item = (await swarm.ask("attention"))["items"][0]
        at = swarm.clock.now() + timedelta(minutes=5)
        assert f"it is tried again after {at:%Y-%m-%d %H:%M} UTC" in item["text"]
        swarm.stage.release()
        swarm.answers = [""]
        swarm.clock.pass_(301)
        await swarm.daemon.minute()
        await until(lambda: ended(swarm, 2)() and not swarm.daemon._tasks)
        item = (await swarm.ask("attention"))["items"][0]
        at = swarm.clock.now() + timedelta(minutes=10)
        assert "summary is empty" in item["text"]
        assert f"it is tried again after {at:%Y-%m-%d %H:%M} UTC" in item["text"]


async def test_an_item_is_closed_where_a_person_has_pruned_the_memory(swarm):
    swarm.agent("disk", "0 * * * *", more=MEMORY)
    swarm.answers = [""]
    async with swarm.up():
        await fill(swarm)
    async with swarm.up():
        await failed_and_pruned(swarm)


async def test_while_it_runs_no_other_session_of_its_agent_does(swarm):
    swarm.agent("disk", "0 * * * *", more=MEMORY)
    async with swarm.up():
        await fill(swarm)
    swarm.stage.hold()
    async with swarm.up():
        await until(lambda: swarm.stage.now == 1)
        with pytest.raises(Busy):
            await swarm.ask("run", agent="disk")
        with pytest.raises(Busy):
            await swarm.ask("memory_compact", agent="disk")
        await swarm.at("11:00")
        assert swarm.slots() == [("11:00", "deferred", 1)]
        assert "which looks after its memory" in swarm.reasons("disk")[0]
        swarm.stage.release()
        await until(lambda: swarm.outcomes("disk") == ["committed", "no_change"])
        assert swarm.stage.most == 1


async def test_it_waits_for_a_session_of_its_agent_that_runs(swarm):
    swarm.agent("disk", more=MEMORY)
    async with swarm.up():
        swarm.stage.hold()
        run = asyncio.ensure_future(swarm.ask("run", agent="disk"))
        await until(lambda: swarm.stage.now == 1)
        with pytest.raises(Busy):
            await swarm.ask("memory_compact", agent="disk", summary=GOOD)
        await fill(swarm)
        swarm.stage.release()
        await run
        await until(ended(swarm, 1))
        assert swarm.stage.most == 1


async def test_one_that_is_cancelled_changes_nothing(swarm):
    swarm.agent("disk", more=MEMORY)
    async with swarm.up():
        await fill(swarm)
        swarm.stage.hold()
        asked = asyncio.ensure_future(swarm.ask("memory_compact", agent="disk"))
        await until(lambda: swarm.stage.now == 1)
        await swarm.ask("session_cancel", session=str(compactions(swarm)[0]["id"]))
        assert (await asked)["outcome"] == "cancelled"
        assert text(swarm) == MUCH
        assert swarm.attention() == []


async def test_the_end_of_the_daemon_ends_it_and_the_next_one_makes_it_again(swarm):
    swarm.agent("disk", more=MEMORY)
    async with swarm.up():
        await fill(swarm)
    swarm.stage.hold()
    async with swarm.up():
        await until(lambda: swarm.stage.now == 1)
    assert text(swarm) == MUCH
    swarm.stage.release()
    swarm.clock.pass_(301)
    async with swarm.up():
        await until(ended(swarm, 2))
        assert swarm.outcomes("disk") == ["cancelled", "committed"]


async def test_killed_while_it_runs_it_is_lost_and_made_again(swarm):
    swarm.agent("disk", more=MEMORY)
    async with swarm.up():
        await fill(swarm)
    swarm.stage.hold()
    async with swarm.up(killed=True):
        await until(lambda: swarm.stage.now == 1)
    assert text(swarm) == MUCH
    swarm.stage.release()
    async with swarm.up():
        await until(ended(swarm, 2))
        assert swarm.outcomes("disk") == ["lost", "committed"]


async def test_two_hundred_sessions_that_each_add_three_kilobytes_stay_within_the_room_and_lose_no_line(
    swarm,
):
    swarm.agent("disk", more='[memory]\nprompt_tokens = 4000\nsummarizer_command = ["sum"]\n')
    swarm.answers = [f"- {DAY}: the sessions have found out notes of something\n"]
    written = []

    async def add(request, desk):
        if request.trigger == "compact":
            return await summarize(request, desk)
        line = f"- {DAY}: session {request.session} " + "notes something that it has found out " * 78 + "\n"
        written.append(line)
        old = request.memory.read("MEMORY.md") or b""
        return Result(outcome="success", exit=0,
                      memory=MemoryTree.of({**request.memory.as_files(), "MEMORY.md": old + line.encode()}))  # fmt: skip

    summarize, swarm.stage.parts["succeed"] = swarm.stage.parts["succeed"], add
    most = 0
    async with swarm.up():
        for _ in range(200):
            swarm.clock.pass_(1)
            while True:
                try:
                    assert (await swarm.ask("run", agent="disk"))["outcome"] == "committed"
                    break
                except Busy:
                    await until(lambda: not swarm.daemon.starter.running)
            await until(lambda: not swarm.daemon._tasks and not swarm.daemon.starter.running)
            shown = await swarm.ask("prompt", agent="disk")
            most = max(most, next(s["tokens"] for s in shown["sections"] if s["name"] == "memory"))
        assert most < 4000
        assert {row["outcome"] for row in compactions(swarm)} == {"committed"}
        archive = swarm.places.state / "memory/disk/archive"
        kept = text(swarm) + "".join(file.read_text() for file in archive.iterdir())
        assert [line for line in written if line not in kept] == []
        assert summarized(swarm) == len(list(archive.iterdir())) > 30


async def test_a_folder_about_a_subject_is_made_small_as_the_agents_own_and_a_shared_one_is_not(swarm):
    shared = '[[memory.shared]]\nname = "team"\nwrite = true\n'
    swarm.agent("disk", more=MEMORY + shared, part="about")

    async def about(request, desk):
        if request.trigger == "compact":
            return await swarm.stage.parts["succeed"](request, desk)
        return Result(outcome="success", exit=0, memory=MemoryTree.of({"MEMORY.md": MUCH.encode()}))

    swarm.stage.parts["about"] = about
    async with swarm.up():
        await swarm.ask("memory_write", agent="@team", file="MEMORY.md", text=MUCH)
        assert (await swarm.ask("run", agent="disk", subject="alice"))["outcome"] == "committed"
        await until(lambda: text(swarm, "disk@alice").endswith(GOOD) and not swarm.daemon.starter.running)
        assert [row["subject"] for row in compactions(swarm)] == ["alice"]
        done = await swarm.ask("memory_compact", agent="disk@alice", summary="- the game goes through\n")
        assert (done["outcome"], done["agent"]) == ("committed", "disk@alice")
        with pytest.raises(BadInput, match="several share"):
            await swarm.ask("memory_compact", agent="@team")
    async with swarm.up():
        await until(lambda: not swarm.daemon._tasks)
        assert text(swarm, "@team") == MUCH
        assert len(compactions(swarm)) == 2
