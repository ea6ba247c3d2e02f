"""Sessions about a subject: a folder of its own for each, never mixed with another's, nor with the agent's own."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from swarmd.core.agent import Limits, MemoryRules, SharedFolder
from swarmd.core.digests import prompt_digest
from swarmd.core.prompt import assemble
from swarmd.errors import Refused
from swarmd.session import flow
from swarmd.session.machine import host_of
from swarmd.session.recovery import recover
from swarmd.store import sessions
from swarmd.store.bases import rebuilt
from tests.store.test_bases import count

SECRET = "alice likes jazz"


async def learns(part):
    part.write("MEMORY.md", f"{SECRET}\n")
    part.write("topics/music.md", f"{SECRET}, live\n")


@pytest.fixture
def swarm(swarm):
    swarm.call("memory_write", agent="game", file="MEMORY.md", text="be kind\n")
    swarm.play("game", learns, subject="alice")
    return swarm


def about(swarm, subject, script=None, agent="game", **facts):
    return (
        swarm.run(agent, script, subject=subject, **facts)
        if script
        else swarm.run(agent, subject=subject, **facts)
    )


def last(swarm):
    return swarm.runner.requests[-1]


async def test_its_memory_is_the_subjects_folder_and_the_agents_own_is_shown_beside_it(swarm):
    assert swarm.text("game@alice") == f"{SECRET}\n"
    assert swarm.text("game") == "be kind\n"

    async def script(part):
        assert set(part.files) == {"MEMORY.md", "topics/music.md"}
        assert (part.request.owner, part.request.about_itself["SWARMD_SUBJECT"]) == ("game@alice", "alice")
        user = part.request.user
        assert "This session is about alice." in user
        assert f"begin text: MEMORY.md, yours, revision 1, by you]\n{SECRET}\n" in user
        assert "yours in general, revision 1, by operator:ada]\nbe kind\n" in user
        assert (await part.act("memory_show"))["text"] == f"{SECRET}\n"
        assert (await part.act("memory_show", agent="game"))["text"] == "be kind\n"
        assert "in general, and not write it" in await part.refused(
            "memory_append", agent="game", file="MEMORY.md", text=SECRET
        )
        assert (await part.act("memory_append", file="more.md", text="x"))["agent"] == "game@alice"

    session = await about(swarm, "alice", script)
    assert (session["outcome"], session["subject"]) == ("committed", "alice")
    assert session["changes"][0]["target"] == "game@alice:more.md"


@pytest.mark.parametrize("subject", ["bob", None])
async def test_sessions_about_others_and_about_nobody_see_nothing_of_it(swarm, subject):
    async def script(part):
        assert SECRET not in part.request.user
        assert "alice" not in part.request.user
        for call, args in (
            ("memory_show", {}), ("memory_list", {}), ("memory_history", {}), ("memory_blame", {}),
            ("memory_write", {"file": "MEMORY.md", "text": "x"}), ("memory_append", {"file": "a", "text": "x"}),
            ("memory_delete", {"file": "MEMORY.md"}),
        ):  # fmt: skip
            real = await part.refused(call, agent="game@alice", **args)
            none = await part.refused(call, agent="game@nobody", **args)
            assert real.replace("alice", "X") == none.replace("nobody", "X")

    session = await swarm.run("game", script, subject=subject)
    assert session["outcome"] == "no_change"


async def test_agents_above_read_what_the_agent_knows_in_general_and_nothing_of_its_subjects(swarm):
    async def script(part):
        assert SECRET not in part.request.user
        assert (await part.act("memory_show", agent="game"))["text"] == "be kind\n"
        await part.refused("memory_show", agent="game@alice")
        # A session of their own about somebody of the same name is about somebody else.
        assert (await part.act("memory_list"))["items"] == []

    assert (await swarm.run("studio", script, subject="alice"))["outcome"] == "no_change"


async def fails(part):
    await part.act("ctx_set", key="k", value="v")
    await part.refused("handoff_send", to="house", text=SECRET)
    part.write("MEMORY.md", f"{SECRET} and blues\n")
    await part.act("fail", reason=f"could not: {SECRET}")


async def test_drafts_refusals_and_reasons_are_told_to_sessions_about_the_same_subject_alone(swarm):
    failed = await about(swarm, "alice", fails)
    assert failed["outcome"] == "failed"

    async def others(part):
        assert SECRET not in part.request.user
        assert (
            "draft" not in part.request.user.partition("section last_session")[2].partition("end section")[0]
        )
        assert "no open draft" in await part.refused("draft_apply")

    for subject in (None, "bob"):
        assert (await about(swarm, subject, others))["outcome"] == "no_change"

    async def again(part):
        assert f"draft of session {failed['id']}, not saved" in part.request.user
        assert f"could not: {SECRET}" in part.request.user
        await part.act("draft_apply")

    assert (await about(swarm, "alice", again))["outcome"] == "committed"
    assert swarm.text("game@alice") == f"{SECRET} and blues\n"


async def test_the_words_of_such_a_session_are_read_by_sessions_about_the_same_subject_alone(swarm):
    async def talks(part):
        part.desk.event("text", {"text": SECRET})
        await fails(part)

    failed = await about(swarm, "alice", talks)

    async def stranger(part):
        for call in ("session_show", "session_list", "log", "why", "session_log", "prompt"):
            args = {"session": failed["id"]} if call in ("session_show", "session_log") else {}
            args |= {"agent": "game"} if call in ("session_list", "why", "prompt", "log") else {}
            reply = await part.ask(call, **args)
            text = json.dumps(reply.as_json())
            assert SECRET not in text, call
            assert "alice" not in text, call
        shown = await part.act("session_show", session=failed["id"])
        assert (shown["outcome"], shown["subject"], shown["changes"]) == ("failed", None, [])
        assert "about a subject" in await part.refused("session_log", session=failed["id"])
        assert "about a subject" in await part.refused("session_show", session=failed["id"], prompt_text=True)
        assert "about a subject" in await part.refused("prompt", agent="game", subject="alice")

    for agent, subject in (("game", None), ("game", "bob"), ("studio", None), ("house", "alice")):
        ended = await swarm.run(agent, stranger, subject=subject)
        assert ended["outcome"] == "no_change", ended["reason"]

    async def same(part):
        shown = await part.act("session_show", session=failed["id"])
        assert (shown["reason"], shown["subject"]) == (f"could not: {SECRET}", "alice")
        assert SECRET in json.dumps(await part.act("session_log", session=failed["id"]))
        assert SECRET in (await part.act("prompt"))["user"]

    ended = await about(swarm, "alice", same)
    assert ended["outcome"] == "no_change", ended["reason"]


async def test_conflicts_of_its_lines_in_a_shared_folder_are_told_to_the_same_subject_alone(swarm):
    swarm.change("game", memory=MemoryRules(shared=(SharedFolder(name="team", write=True),)))
    swarm.call("memory_write", agent="@team", file="MEMORY.md", text="one\n")

    async def collides(part):
        swarm.call("memory_write", agent="@team", file="MEMORY.md", text="operator's\n")
        await part.act("memory_write", agent="@team", file="MEMORY.md", text=f"{SECRET}\n")

    await about(swarm, "alice", collides)

    async def told(part):
        shown = SECRET in part.request.user.partition("section last_session")[2]
        assert shown == (part.request.subject == "alice")
        assert bool((await part.act("memory_conflicts", agent="@team"))["items"]) == shown

    for subject in ("alice", "bob", None):
        ended = await about(swarm, subject, told)
        assert ended["outcome"] == "no_change", ended["reason"]


async def test_a_conflict_in_its_own_folder_is_its_own(swarm):
    async def collides(part):
        part.write("MEMORY.md", "agent's\n")
        swarm.file("game@alice").write_text("person's\n")

    await about(swarm, "alice", collides)
    assert swarm.text("game@alice") == "person's\n"
    assert swarm.attention() == ["conflict:game@alice"]
    await about(swarm, "alice")
    assert "agent's" in last(swarm).user
    await about(swarm, None)
    assert "agent's" not in last(swarm).user


async def test_a_retry_is_about_the_same_subject(swarm):
    swarm.change("game", limits=Limits(retries=1))
    failed = await about(swarm, "alice", fails)
    (row,) = [row for row in swarm.live() if row["retry_of"] == failed["id"]]
    assert row["subject"] == "alice"
    swarm.clock.go(minutes=5)
    again = await swarm.start(row["id"])
    assert (again["subject"], last(swarm).owner) == ("alice", "game@alice")


async def test_a_checkpoint_saves_into_the_subjects_folder(swarm):
    async def script(part):
        part.write("MEMORY.md", "first\n")
        await part.checkpoint()
        assert swarm.text("game@alice") == "first\n"
        part.write("MEMORY.md", "second\n")

    await about(swarm, "alice", script)
    assert swarm.text("game@alice") == "second\n"
    assert swarm.text("game") == "be kind\n"


async def test_the_operator_applies_and_reverts_such_a_session(swarm):
    failed = await about(swarm, "alice", fails)
    swarm.call("session_apply", session=failed["id"])
    assert swarm.text("game@alice") == f"{SECRET} and blues\n"
    swarm.call("session_revert", sessions=[failed["id"]])
    assert swarm.text("game@alice") == f"{SECRET}\n"
    assert swarm.value("game", "k") is None


async def test_read_only_files_and_archives_are_so_in_every_folder(swarm):
    swarm.change("game", memory=MemoryRules(read_only=("policies/**",)))

    async def script(part):
        await part.refused("memory_write", file="archive/x.md", text="x")
        await part.refused("memory_write", file="policies/x.md", text="x")
        assert part.request.read_only == ("policies/**", "archive/**")

    assert (await about(swarm, "bob", script))["outcome"] == "no_change"


async def test_what_was_shown_can_be_made_again_to_the_byte(swarm):
    swarm.change("game", memory=MemoryRules(shared=(SharedFolder(name="team"),), reads=("art",)))
    swarm.call("memory_write", agent="@team", file="MEMORY.md", text="ours\n")
    swarm.call("memory_write", agent="@team", file="a.md", text="# A\n")
    swarm.call("memory_write", agent="art", file="MEMORY.md", text="# Art\n")
    session = await about(swarm, "alice", learns)
    for owner in ("@team", "art", "game", "game@alice"):
        swarm.call("memory_write", agent=owner, file="MEMORY.md", text="all is different now\n")
    swarm.call("memory_delete", agent="@team", file="a.md")
    row = sessions.row(swarm.reader, session["id"])
    seen = rebuilt(swarm.reader, row)
    prompt = assemble(seen, count)
    assert prompt_digest(prompt.system, prompt.user) == row["prompt_hash"]
    assert (seen.subject, seen.owner) == ("alice", "game@alice")
    assert "= # A" in prompt.user
    assert "= # Art" in prompt.user


async def test_a_session_given_again_is_about_the_same_subject_and_sees_its_folder_of_then(swarm):
    earlier = await about(swarm, "alice")
    swarm.call("memory_write", agent="game@alice", file="MEMORY.md", text="later\n")
    id = swarm.queue("game", mode="no_commit", subject="alice")
    swarm.script = learns
    row = sessions.row(swarm.reader, id)
    await flow.run(swarm.ports(), flow.order_of(row, from_session=earlier["id"]))
    assert last(swarm).memory.read("MEMORY.md") == f"{SECRET}\n".encode()
    assert swarm.session(id)["outcome"] == "dry_run"
    assert swarm.text("game@alice") == "later\n"


async def test_a_session_that_was_lost_leaves_its_copy_as_a_draft_of_the_subject(swarm):
    async def dies(part):
        folder = swarm.places.state / "sessions" / str(part.request.session) / "memory"
        folder.mkdir()
        (folder / "MEMORY.md").write_text("lost and found\n")
        (folder / "topics").mkdir()
        (folder / "topics/music.md").write_text(f"{SECRET}, live\n")
        raise SystemExit

    id = swarm.queue("game", subject="alice")
    swarm.script = dies
    with pytest.raises(SystemExit):
        await flow.run(swarm.ports(), flow.order_of(sessions.row(swarm.reader, id)))
    recover(swarm.store, host_of(swarm.places), swarm.clock.now())
    (change,) = sessions.draft(swarm.reader, id)
    assert (change.agent, change.path, change.data) == ("game@alice", "MEMORY.md", b"lost and found\n")
    swarm.call("session_apply", session=id)
    assert swarm.text("game@alice") == "lost and found\n"


async def test_many_subjects_at_once_are_never_mixed(swarm):
    """A session an agent is the daemon's rule; the store keeps them apart even where several run at once."""
    names = [f"user{n}" for n in range(8)]

    async def one(name):
        id = swarm.queue("art", subject=name)

        class Plays:
            async def run(self, request, desk):
                from tests.swarm import Part

                part = Part(swarm, request, desk, dict(request.memory.as_files()))
                await asyncio.sleep(0)
                assert request.subject == name
                part.write("MEMORY.md", f"about {name}\n")
                return part.done()

        ports = swarm.ports(runner=lambda kind: Plays())
        await flow.run(ports, flow.order_of(sessions.row(swarm.reader, id)))

    await asyncio.gather(*map(one, names))
    for name in names:
        assert swarm.text(f"art@{name}") == f"about {name}\n"
    assert not swarm.file("art").exists()


async def test_skills_that_it_grows_in_such_a_session_are_of_the_subject(swarm):
    text = "---\nname: tidy\ndescription: How alice wants it tidied\n---\nBy colour.\n"

    async def grows(part):
        part.write("skills/tidy/SKILL.md", text)

    await about(swarm, "alice", grows)

    async def reads(part):
        known = part.request.subject == "alice"
        assert ("How alice wants it tidied" in part.request.user) == known
        assert bool((await part.act("skill_list"))["items"]) == known
        if known:
            assert (await part.act("skill_show", name="tidy"))["text"] == text

    for subject in ("alice", "bob", None):
        ended = await about(swarm, subject, reads)
        assert ended["outcome"] == "no_change", ended["reason"]


async def test_its_private_home_is_another_folder(swarm):
    await about(swarm, "alice")
    alices = last(swarm)
    await about(swarm, None)
    host = host_of(swarm.places)
    assert os.path.basename(host.home(alices)) == "game@alice"
    assert os.path.basename(host.home(last(swarm))) == "game"


async def test_a_session_acts_about_its_own_subject_and_no_other(swarm):
    from swarmd.core.world import Actor
    from swarmd.service.reading import session_read
    from swarmd.store.world import SqlWorld

    ask = session_read(swarm.places, swarm.reader)
    world = SqlWorld(swarm.reader, swarm.clock.now())
    actor = Actor(by="game#9", agent="game", session=9, subject="bob")
    with pytest.raises(Refused):
        ask(actor, world, "prompt", {"subject": "alice"})
    assert "about bob" in ask(actor, world, "prompt", {})["user"]
    assert "about bob" in ask(actor, world, "prompt", {"subject": "bob"})["user"]
    with pytest.raises(Refused):
        ask(actor, world, "memory_subjects", {})
    with pytest.raises(Refused):
        ask(actor, world, "memory_shared", {})
