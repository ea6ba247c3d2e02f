"""`swarmd run --no-commit --from-session ID`, by a daemon: yesterday's session again, and both change sets."""

from __future__ import annotations

import pytest

from swarmd.core.wire import MemoryTree, Message, Result, Usage
from swarmd.errors import BadInput, Refused
from tests.daemon.play import succeed


def part_that(*acts, notes=None, usage=None):
    """A part that makes these acts, and leaves MEMORY.md so."""

    async def plays(request, desk):
        for number, (call, args) in enumerate(acts):
            await desk.call(Message(id=str(number), call=call, args=args))
        files = dict(request.memory.as_files())
        if notes is not None:
            files["MEMORY.md"] = notes.encode()
        return Result(outcome="success", memory=MemoryTree.of(files), usage=usage or Usage())

    return plays


OLD = part_that(
    ("ctx_set", {"key": "same", "value": "1"}), ("ctx_set", {"key": "other", "value": "old"}),
    ("ctx_set", {"key": "dropped", "value": "1"}), ("handoff_send", {"to": "leaf", "text": "first"}),
    ("handoff_send", {"to": "leaf", "text": "second"}), ("handoff_send", {"to": "nobody", "text": "x"}),
    notes="one\ntwo\n", usage=Usage(tokens_in=100, tokens_out=10, usd=0.5, priced_by="list"),
)  # fmt: skip
NEW = part_that(
    ("ctx_set", {"key": "same", "value": "1"}), ("ctx_set", {"key": "other", "value": "new"}),
    ("ctx_set", {"key": "added", "value": "1"}), ("handoff_send", {"to": "leaf", "text": "second"}),
    notes="one\nTWO\n",
)  # fmt: skip


@pytest.fixture
def swarm(swarm):
    swarm.agent("top", "0 3 * * *", part="old")
    swarm.agent("leaf", parent="top")
    swarm.stage.parts |= {"old": OLD, "new": NEW}
    return swarm


def edited(swarm, part="new"):
    text = (swarm.places.agents / "top.toml").read_text()
    return text.replace('part = "old"', f'part = "{part}"').replace("You are top.", "You are edited.")


async def test_an_edited_file_is_given_yesterdays_snapshot_and_both_are_compared(swarm):
    async with swarm.up():
        await swarm.ask("ctx_set", agent="top", key="mood", value="then")
        old = await swarm.ask("run", agent="top")
        first = swarm.stage.played[-1]
        swarm.clock.pass_(86400)
        await swarm.ask("ctx_set", agent="top", key="mood", value="now")
        await swarm.ask("ctx_set", agent="top", key="other", value="meanwhile")
        new = await swarm.ask("run", agent="top", mode="no_commit", from_session="1", file_text=edited(swarm))
        again = swarm.stage.played[-1]
        assert again.user == first.user
        assert again.system.startswith("You are edited.")
        assert (new["outcome"], new["trigger"], new["note"]) == (
            "dry_run",
            "manual",
            "what if: as session 1 was started",
        )
        there = new["compared"]["session"]
        assert (there["id"], there["outcome"], there["usd"]) == (old["id"], "committed", 0.5)
        rows = [
            (
                r["what"],
                r["act"],
                r["target"],
                (r["there"] or {}).get("after"),
                (r["here"] or {}).get("after"),
            )
            for r in new["compared"]["changes"]
        ]
        assert rows == [
            ("same", "ctx_set", "top/same", "1", "1"),
            ("changed", "ctx_set", "top/other", "old", "new"),
            ("removed", "ctx_set", "top/dropped", "1", None),
            ("same", "handoff_send", "leaf", "second", "second"),
            ("removed", "handoff_send", "leaf", "first", None),
            ("changed", "memory_write", "top:MEMORY.md", "revision 1, 8 bytes", "revision 1, 8 bytes"),
            ("removed", "handoff_send", "nobody", None, None),
            ("added", "ctx_set", "top/added", None, "1"),
        ]
        memory = next(r for r in new["compared"]["changes"] if r["act"] == "memory_write")
        assert memory["diff"] == "@@ -1,2 +1,2 @@\n one\n-two\n+TWO"
        assert [r["here"]["before"] for r in new["compared"]["changes"] if r["target"] == "top/other"] == [
            None
        ]
        assert swarm.call("ctx_get", agent="top", key="other")["value"] == "meanwhile"
        assert swarm.call("memory_show", agent="top")["text"] == "one\ntwo\n"


async def test_the_same_again_is_all_the_same(swarm):
    async with swarm.up():
        await swarm.ask("run", agent="top")
        swarm.clock.pass_(60)
        new = await swarm.ask("run", agent="top", mode="no_commit", from_session="top")
        assert {r["what"] for r in new["compared"]["changes"]} == {"same"}


async def test_what_makes_no_sense_is_refused_before_anything_is_queued(swarm):
    async with swarm.up():
        await swarm.ask("run", agent="top")
        await swarm.ask("run", agent="leaf")
        for args, why in (
            ({"from_session": "1"}, "no_commit"),
            ({"from_session": "1", "mode": "dry_run"}, "no_commit"),
            ({"from_session": "1", "mode": "no_commit", "text": "x"}, "without a text"),
            ({"from_session": "2", "mode": "no_commit"}, "one of leaf"),
        ):
            with pytest.raises(BadInput, match=why):
                await swarm.ask("run", agent="top", **args)
        swarm.daemon.store.writer.do(lambda c: c.execute("DELETE FROM reports"))
        swarm.daemon.store.writer.do(lambda c: c.execute("UPDATE sessions SET base = NULL"))
        with pytest.raises(Refused, match="not kept any more"):
            await swarm.ask("run", agent="top", from_session="1", mode="no_commit")
        assert len(swarm.sessions()) == 2


async def test_a_session_that_failed_can_be_tried_anew(swarm):
    swarm.agent("bad", part="fail")
    swarm.stage.parts["good"] = succeed
    async with swarm.up():
        await swarm.ask("run", agent="bad")
        text = (swarm.places.agents / "bad.toml").read_text().replace('"fail"', '"good"')
        new = await swarm.ask("run", agent="bad", mode="no_commit", from_session="bad", file_text=text)
        assert (new["outcome"], new["compared"]["session"]["outcome"]) == ("dry_run", "failed")
        assert new["compared"]["changes"] == []
