"""Sessions at folders that agents share: who reads and writes, what is merged, what each is told."""

from __future__ import annotations

import asyncio

import pytest

from swarmd.core.agent import MemoryRules, SharedFolder
from swarmd.session import flow, journal
from swarmd.session.machine import host_of
from swarmd.session.recovery import recover
from swarmd.store import sessions

TEAM = SharedFolder(name="team", write=True)


@pytest.fixture
def swarm(swarm):
    """game and art write @team, studio above them reads it, house above all has none."""
    for name in ("game", "art"):
        swarm.change(name, memory=MemoryRules(shared=(TEAM,)))
    swarm.change("studio", memory=MemoryRules(shared=(SharedFolder(name="team"),)))
    swarm.call("memory_write", agent="@team", file="MEMORY.md", text="one\ntwo\n")
    return swarm


def prompt_of(swarm) -> str:
    return swarm.runner.requests[-1].user


async def test_a_shared_folder_is_shown_read_and_written_and_saved_with_the_session(swarm):
    async def script(part):
        assert "begin text: MEMORY.md of @team, revision 1, by operator:ada]\none\ntwo\n" in part.request.user
        assert (await part.act("memory_show", agent="@team"))["text"] == "one\ntwo\n"
        done = await part.act("memory_write", agent="@team", file="prices.md", text="tiles: 3\n")
        assert (done["agent"], done["staged"]) == ("@team", True)
        await part.act("memory_append", agent="@team", file="MEMORY.md", text="three")
        # It reads its own writes, and nobody else does before they are saved.
        assert (await part.act("memory_show", agent="@team"))["text"] == "one\ntwo\nthree\n"
        listed = await part.act("memory_list", agent="@team")
        assert [item["path"] for item in listed["items"]] == ["MEMORY.md", "prices.md"]
        assert swarm.call("memory_show", agent="@team")["text"] == "one\ntwo\n"

    session = await swarm.run("game", script)
    assert session["outcome"] == "committed"
    assert [c["target"] for c in session["changes"]] == ["@team:prices.md", "@team:MEMORY.md"]
    assert swarm.text("@team") == "one\ntwo\nthree\n"
    assert swarm.text("@team", "prices.md") == "tiles: 3\n"
    blame = swarm.call("memory_blame", agent="@team")["lines"]
    assert [line["by"] for line in blame] == ["operator:ada"] * 2 + [f"game#{session['id']}"]


async def test_who_only_reads_it_writes_nothing_and_who_has_it_not_knows_nothing(swarm):
    async def reads(part):
        assert "you may read it" in part.request.user
        assert "read-only for studio" in await part.refused(
            "memory_append", agent="@team", file="MEMORY.md", text="x"
        )
        assert (await part.act("memory_show", agent="@team"))["rev"] == 1

    async def has_none(part):
        assert "@team" not in part.request.user
        said = []
        for owner in ("@team", "@nothing"):
            for call, args in (
                ("memory_show", {}), ("memory_list", {}), ("memory_history", {}), ("memory_conflicts", {}),
                ("memory_write", {"file": "a", "text": "x"}), ("memory_delete", {"file": "MEMORY.md"}),
                ("memory_append", {"file": "MEMORY.md", "text": "x"}),
            ):  # fmt: skip
                refused = await part.refused(call, agent=owner, **args)
                said.append(refused.replace(owner[1:], "X").replace(owner, "X"))
        assert said[: len(said) // 2] == said[len(said) // 2 :]

    assert (await swarm.run("studio", reads))["outcome"] == "no_change"
    assert (await swarm.run("house", has_none))["outcome"] == "no_change"


async def test_two_sessions_at_once_and_a_person_lose_no_line_of_one_shared_file(swarm):
    met, saved = asyncio.Event(), asyncio.Event()

    async def art(part):
        text = (await part.act("memory_show", agent="@team"))["text"]
        met.set()
        await saved.wait()
        await part.act("memory_write", agent="@team", file="MEMORY.md", text=text + "art\n")

    async def game(part):
        await met.wait()
        text = (await part.act("memory_show", agent="@team"))["text"]
        await part.act("memory_write", agent="@team", file="MEMORY.md", text="game\n" + text)

    async def play(agent, script):
        id = swarm.queue(agent)
        swarm.script = script
        await flow.run(swarm.ports(), flow.order_of(sessions.row(swarm.reader, id)))
        return swarm.session(id)

    first = asyncio.ensure_future(play("art", art))
    await asyncio.wait_for(met.wait(), 30)
    assert (await play("game", game))["outcome"] == "committed"
    file = swarm.file("@team")
    file.write_text(file.read_text().replace("two\n", "two, by hand\n"))
    saved.set()
    assert (await first)["outcome"] == "committed"
    text = swarm.text("@team")
    assert set(text.split("\n")) >= {"game", "one", "two, by hand", "art"}
    assert swarm.call("memory_conflicts", agent="@team")["items"] == []
    assert {r["by"].partition("#")[0] for r in swarm.call("memory_history", agent="@team")["items"]} == {
        "operator:ada", "game", "art",
    }  # fmt: skip


async def test_what_was_shown_in_the_prompt_is_what_a_text_is_made_from(swarm):
    """Another agent commits between the prompt and the write: its line stays."""

    async def script(part):
        swarm.call("memory_append", agent="@team", file="MEMORY.md", text="meanwhile")
        await part.act("memory_write", agent="@team", file="MEMORY.md", text="zero\none\ntwo\n")
        # And once more, made from its own text: no line of either is lost.
        await part.act("memory_write", agent="@team", file="MEMORY.md", text="zero\none\ntwo\n\nart\n")

    await swarm.run("art", script)
    assert set(swarm.text("@team").split()) == {"zero", "one", "two", "meanwhile", "art"}


async def test_lines_that_collide_are_told_to_the_agent_that_wrote_them_and_to_nobody_else(swarm):
    async def collides(part):
        swarm.call("memory_write", agent="@team", file="MEMORY.md", text="operator's\n")
        await part.act("memory_write", agent="@team", file="MEMORY.md", text="game's own\n")

    session = await swarm.run("game", collides)
    assert swarm.text("@team") == "operator's\n"
    (conflict,) = swarm.call("memory_conflicts", agent="@team")["items"]
    assert (conflict["session"], conflict["ours"], conflict["agent"]) == (
        session["id"],
        "game's own\n",
        "@team",
    )
    assert "conflict:@team" in swarm.attention()

    async def of_its_own(part):
        assert "file in @team = MEMORY.md" in part.request.user
        assert "game's own" in part.request.user
        assert len((await part.act("memory_conflicts", agent="@team"))["items"]) == 1

    async def of_others(part):
        assert "game's own" not in part.request.user
        assert (await part.act("memory_conflicts", agent="@team"))["items"] == []

    await swarm.run("game", of_its_own)
    await swarm.run("art", of_others)
    await swarm.run("studio", of_others)
    swarm.call("memory_take", agent="@team", conflict=conflict["id"], side="ours")
    assert "game's own" in swarm.text("@team")
    assert "conflict:@team" not in swarm.attention()


async def test_a_checkpoint_saves_shared_writes_and_the_session_goes_on_from_them(swarm):
    async def script(part):
        part.write("MEMORY.md", "own\n")
        await part.act("memory_write", agent="@team", file="MEMORY.md", text="one\ntwo\ngame\n")
        assert (await part.checkpoint()).error is None
        assert swarm.text("@team") == "one\ntwo\ngame\n"
        swarm.call("memory_append", agent="@team", file="MEMORY.md", text="operator")
        await part.act("memory_write", agent="@team", file="MEMORY.md", text="zero\none\ntwo\ngame\n")
        part.write("MEMORY.md", "own\nmore\n")

    session = await swarm.run("game", script)
    assert session["outcome"] == "committed"
    assert swarm.text("@team") == "zero\none\ntwo\ngame\noperator\n"
    # The working copy's file of the same name is another one.
    assert swarm.text("game") == "own\nmore\n"
    assert not swarm.call("memory_conflicts", agent="game")["items"]


async def test_a_checkpoint_that_was_merged_is_gone_on_from_as_the_session_had_it(swarm):
    async def script(part):
        swarm.call("memory_append", agent="@team", file="MEMORY.md", text="operator")
        await part.act("memory_write", agent="@team", file="MEMORY.md", text="zero\none\ntwo\n")
        await part.checkpoint()
        await part.act("memory_write", agent="@team", file="MEMORY.md", text="zero\none\ntwo more\n")

    await swarm.run("game", script)
    lines = set(swarm.text("@team").split("\n"))
    kept = {conflict["ours"].strip() for conflict in swarm.call("memory_conflicts", agent="@team")["items"]}
    assert {"zero", "one", "operator"} <= lines
    assert "two more" in lines | kept


async def test_what_a_session_wrote_there_is_left_as_a_draft_and_applied_with_its_merges(swarm):
    async def fails(part):
        swarm.call("memory_append", agent="@team", file="MEMORY.md", text="meanwhile")
        await part.act("memory_write", agent="@team", file="MEMORY.md", text="first\none\ntwo\n")
        await part.act("memory_write", agent="@team", file="MEMORY.md", text="second\none\ntwo\n")
        return part.done("failed")

    failed = await swarm.run("game", fails)
    assert swarm.text("@team") == "one\ntwo\nmeanwhile\n"
    swarm.call("session_apply", session=failed["id"])
    assert swarm.text("@team") == "second\none\ntwo\nmeanwhile\n"
    assert swarm.call("session_revert", sessions=[failed["id"]])["not_undone"] == []
    assert swarm.text("@team") == "one\ntwo\nmeanwhile\n"


async def test_authority_that_is_lost_by_the_end_refuses_the_whole_session(swarm):
    async def script(part):
        await part.act("memory_append", agent="@team", file="MEMORY.md", text="x")
        await part.act("ctx_set", key="k", value="v")
        swarm.change("game", memory=MemoryRules(shared=(SharedFolder(name="team"),)))

    session = await swarm.run("game", script)
    assert session["outcome"] == "refused"
    assert "read-only for game" in session["reason"]
    assert swarm.text("@team") == "one\ntwo\n"
    assert swarm.value("game", "k") is None


async def test_hand_edits_are_in_the_next_sessions_prompt(swarm):
    swarm.file("@team").write_text("one\ntwo\nby hand\n")
    await swarm.run("art")
    assert "by hand" in prompt_of(swarm)
    swarm.file("@team", "new.md").write_text("# New topic\n")
    await swarm.run("game")
    assert "@team new.md, 12 bytes, by operator:ada = # New topic" in prompt_of(swarm)


async def test_a_lost_session_leaves_its_shared_writes_in_its_draft(swarm):
    async def dies(part):
        await part.act("memory_append", agent="@team", file="MEMORY.md", text="from the grave")
        raise SystemExit

    id = swarm.queue("game")
    swarm.script = dies
    with pytest.raises(SystemExit):
        await flow.run(swarm.ports(), flow.order_of(sessions.row(swarm.reader, id)))
    assert recover(swarm.store, host_of(swarm.places), swarm.clock.now()) == [id]
    assert [c.agent for c in sessions.draft(swarm.reader, id)] == ["@team"]
    swarm.call("session_apply", session=id)
    assert swarm.text("@team") == "one\ntwo\nfrom the grave\n"


async def test_a_trace_names_who_was_shown_what_a_session_wrote_there(swarm):
    async def writes(part):
        await part.act("memory_append", agent="@team", file="MEMORY.md", text="poison")

    wrote = await swarm.run("game", writes)
    shown = await swarm.run("art")
    await swarm.run("house")
    (item,) = swarm.call("session_trace", session=wrote["id"])["items"]
    assert [(one["session"], one["agent"]) for one in item["shown_to"]] == [(shown["id"], "art")]


async def test_a_lost_text_of_a_shared_folder_is_put_back_at_a_sessions_start(swarm):
    await swarm.run("art")
    swarm.write(lambda c: c.execute("UPDATE blobs SET data = x'00' WHERE data = ?", (b"one\ntwo\n",)))
    assert (await swarm.run("game"))["outcome"] == "no_change"
    assert "one\ntwo\n" in prompt_of(swarm)


async def test_what_others_let_it_read_is_told_and_read(swarm):
    swarm.change("garage", memory=MemoryRules(reads=("game", "nobody")))
    swarm.call("memory_write", agent="game", file="MEMORY.md", text="# What the game knows\n")

    async def script(part):
        assert "memory of game, theirs:" in part.request.user
        assert "= # What the game knows" in part.request.user
        assert "nobody" not in part.request.user
        assert (await part.act("memory_show", agent="game"))["text"] == "# What the game knows\n"
        assert "only its own memory" in await part.refused(
            "memory_append", agent="game", file="MEMORY.md", text="x"
        )

    assert (await swarm.run("garage", script))["outcome"] == "no_change"


async def test_an_empty_file_stops_nobody_who_sees_it(swarm):
    swarm.call("memory_write", agent="@team", file="empty.md", text="")
    swarm.call("memory_write", agent="game", file="MEMORY.md", text="")
    swarm.call("memory_write", agent="game", file="empty.md", text="")
    swarm.change("garage", memory=MemoryRules(reads=("game",)))
    for agent, facts in (("art", {}), ("garage", {}), ("game", {"subject": "alice"})):
        assert (await swarm.run(agent, **facts))["outcome"] == "no_change"
        assert "empty" in prompt_of(swarm)


def test_the_journal_keeps_whose_folder_a_change_is_of(swarm):
    """What the tests above rest on: acts on shared folders are staged, not done on the working copy."""
    seen = []

    async def script(part):
        await part.act("memory_append", agent="@team", file="MEMORY.md", text="x")
        folder = swarm.places.state / "sessions" / str(part.request.session)
        seen.extend(change.agent for change in journal.read(folder, 0)[0])

    swarm.play("game", script)
    assert seen == ["@team"]
