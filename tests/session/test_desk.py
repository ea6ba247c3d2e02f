"""At the desk: acts are judged at once, read back before they are saved, and each message is answered once."""

import asyncio
import contextlib
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swarmd.core.acts import ACTS
from swarmd.core.agent import Limits, MemoryRules
from swarmd.core.tools import TOOLS
from swarmd.core.wire import Message
from swarmd.service.reading import READS
from tests.swarm import Swarm

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(st.characters(), max_size=8)
    | st.sampled_from(["studio", "game", "MEMORY.md", "k", "1", "2026-11-30T09:00Z"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


async def in_session(swarm, script, agent="studio", **facts):
    session = await swarm.run(agent, script, **facts)
    assert not session["reason"].startswith("the runner"), session["reason"]
    return session


# -- its own writes -----------------------------------------------------------------------------------------


async def test_a_session_reads_its_own_writes_and_nobody_else_does(swarm):
    async def script(part):
        await part.act("ctx_set", key="k", value="mine")
        assert (await part.act("ctx_get", key="k"))["value"] == "mine"
        assert [row["key"] for row in (await part.act("ctx_list"))["items"]] == ["k"]
        id = (await part.act("handoff_send", to="game", text="do it"))["id"]
        assert (await part.act("handoff_show", id=id))["text"] == "do it"
        assert [row["id"] for row in (await part.act("handoff_list", to="game"))["items"]] == [id]
        await part.act("handoff_cancel", id=id)
        assert (await part.act("handoff_show", id=id))["status"] == "cancelled"
        assert (await part.act("handoff_list", status="open"))["items"] == []
        await part.act("ctx_unset", key="k")
        await part.refused("ctx_get", key="k")
        assert swarm.call("handoff_list")["items"] == []
        assert swarm.call("ctx_list", agent="studio")["items"] == []

    await in_session(swarm, script)


async def test_a_reply_says_that_it_is_only_staged(swarm):
    async def script(part):
        assert (await part.act("ctx_set", key="k", value="v"))["staged"] is True

    await in_session(swarm, script)


async def test_a_second_move_of_a_handoff_is_judged_after_the_first(swarm):
    id = swarm.call("handoff_send", to="studio", text="do it")["id"]

    async def script(part):
        await part.act("handoff_complete", id=id, reply="done")
        await part.act("handoff_complete", id=id, reply="again")
        assert "completed" in await part.refused("handoff_ask", id=id, text="which?")

    session = await in_session(swarm, script)
    assert [c["act"] for c in session["changes"]] == ["handoff_complete"]


# -- answered once ------------------------------------------------------------------------------------------


async def test_a_repeated_message_id_gets_the_first_answer(swarm):
    async def script(part):
        message = Message(id="same", call="handoff_send", args={"to": "game", "text": "once"})
        first, again = await part.desk.call(message), await part.desk.call(message)
        assert first == again
        other = await part.desk.call(Message(id="same", call="ctx_set", args={"key": "k", "value": "v"}))
        assert other == first
        bad = Message(id="bad", call="handoff_send", args={"to": "house", "text": "up"})
        assert await part.desk.call(bad) == await part.desk.call(bad)

    session = await in_session(swarm, script)
    assert [c["act"] for c in session["changes"]] == ["handoff_send"]
    assert len(session["refusals"]) == 1


async def test_a_checkpoint_that_is_asked_for_twice_is_made_once(swarm):
    async def script(part):
        await part.act("ctx_set", key="k", value="v")
        first, again = await asyncio.gather(part.checkpoint(id="c"), part.checkpoint(id="c"))
        assert first == again
        assert first.value["checkpoint"] == 1

    assert (await in_session(swarm, script))["checkpoints"] == 1


async def test_what_is_asked_for_during_a_checkpoint_is_not_lost(swarm):
    async def script(part):
        await part.act("ctx_set", key="before", value="v")
        acts = [part.ask("ctx_set", key=f"k{n}", value="v") for n in range(20)]
        replies = await asyncio.gather(part.checkpoint(), *acts, part.checkpoint())
        assert all(reply.error is None for reply in replies)

    session = await in_session(swarm, script)
    assert session["outcome"] == "committed"
    assert len(swarm.call("ctx_list", agent="studio")["items"]) == 21


async def test_nobody_is_heard_after_the_end(swarm):
    desks = []

    async def script(part):
        desks.append(part.desk)

    await in_session(swarm, script)
    reply = await desks[0].call(Message(id="late", call="ctx_set", args={"key": "k", "value": "v"}))
    assert (reply.kind, "has ended" in reply.error) == ("refused", True)
    assert swarm.value("studio", "k") is None


# -- keys that others write ---------------------------------------------------------------------------------


async def test_a_key_changed_since_it_was_shown_has_to_be_read_again(swarm):
    swarm.call("ctx_set", agent="studio", key="k", value="old")

    async def script(part):
        swarm.call("ctx_set", agent="studio", key="k", value="the operator's")
        answer = await part.act("ctx_set", key="k", value="mine")
        assert "read it again" in answer["superseded"]
        assert (answer["value"], answer["staged"]) == ("the operator's", False)
        assert (await part.act("ctx_get", key="k"))["value"] == "the operator's"
        await part.act("ctx_set", key="k", value="mine")

    session = await in_session(swarm, script)
    assert [s["target"] for s in session["superseded"]] == ["studio/k"]
    assert swarm.value("studio", "k") == "mine"


async def test_a_key_that_was_never_read_counts_as_read_when_it_is_set(swarm):
    async def script(part):
        swarm.call("ctx_set", agent="studio", key="new", value="the operator's")
        await part.act("ctx_set", key="new", value="mine")

    await in_session(swarm, script)
    assert swarm.value("studio", "new") == "mine"


async def test_ones_own_staged_value_does_not_hide_what_the_operator_writes_meanwhile(swarm):
    """Set, (the operator sets), read back, set again: what was read back was its own."""
    swarm.call("ctx_set", agent="studio", key="k", value="old")

    async def script(part):
        await part.act("ctx_set", key="k", value="first")
        swarm.call("ctx_set", agent="studio", key="k", value="the operator's")
        await part.act("ctx_get", key="k")
        await part.act("ctx_list")
        await part.act("ctx_set", key="k", value="second")

    session = await in_session(swarm, script)
    assert swarm.value("studio", "k") == "the operator's"
    assert [s["target"] for s in session["superseded"]] == ["studio/k", "studio/k"]


async def test_after_a_checkpoint_ones_own_value_is_what_one_has_seen(swarm):
    async def script(part):
        await part.act("ctx_set", key="k", value="first")
        await part.checkpoint()
        await part.act("ctx_set", key="k", value="second")
        await part.checkpoint()
        swarm.call("ctx_set", agent="studio", key="k", value="the operator's")
        assert "superseded" in await part.act("ctx_set", key="k", value="third")

    await in_session(swarm, script)
    assert swarm.value("studio", "k") == "the operator's"


# -- limits -------------------------------------------------------------------------------------------------


async def test_handoffs_per_session_count_across_checkpoints_drafts_and_children(swarm):
    swarm.change("studio", limits=Limits(handoffs_per_session=5))

    async def leaves_a_draft(part):
        await part.act("handoff_send", to="game", text="from the draft")
        return part.done("failed")

    await in_session(swarm, leaves_a_draft)

    async def script(part):
        await part.act("handoff_send", to="game", text="1")
        await part.checkpoint()
        await part.act("draft_apply")
        assert len((await part.act("handoff_send", to="children", text="3 and 4"))["items"]) == 2
        assert "5 handoffs" in await part.refused("handoff_send", to="children", text="5 and 6")
        await part.act("handoff_send", to="art", text="5")
        await part.refused("handoff_send", to="art", text="6")

    await in_session(swarm, script)
    assert len(swarm.rows("SELECT * FROM handoffs")) == 5


async def test_an_act_for_all_children_is_refused_as_one(swarm):
    swarm.change("studio", limits=Limits(handoffs_per_session=1))

    async def script(part):
        await part.refused("handoff_send", to="children", text="t")

    session = await in_session(swarm, script)
    assert (session["outcome"], session["changes"]) == ("no_change", [])


async def test_a_chain_of_handoffs_ends(swarm):
    for name in ("house", "studio", "game"):
        swarm.change(name, limits=Limits(handoff_depth=2))
    swarm.agent("pixel", "game")

    async def pass_on(part):
        children = swarm.call("agent_show", agent=part.request.agent)["children"]
        await part.act("handoff_send", to=children[-1], text="go on")

    async def refused(part):
        assert "3 deep" in await part.refused("handoff_send", to="pixel", text="go on")

    await in_session(swarm, pass_on, "house")
    await in_session(swarm, pass_on, "studio")
    await in_session(swarm, refused, "game")
    depths = [
        (row["receiver"], row["depth"], row["cause_handoff"]) for row in swarm.rows("SELECT * FROM handoffs")
    ]
    assert depths == [("studio", 1, None), ("game", 2, 1)]


async def test_a_loop_of_acts_is_stopped(swarm, monkeypatch):
    monkeypatch.setattr("swarmd.session.desk.ACTS_PER_SESSION", 10)

    async def script(part):
        for n in range(10):
            await part.act("ctx_set", key="k", value=str(n))
        assert "10 acts" in await part.refused("ctx_set", key="k", value="one more")

    await in_session(swarm, script)


async def test_names_that_are_no_utf8_are_refused_and_do_not_keep_the_session_from_its_end(swarm):
    async def script(part):
        for text in ("\udc80", "\ud800", "a\udcffb"):
            await part.refused("ctx_set", key=text, value="v")
            await part.refused("ctx_set", key="k", value=text)
            await part.refused("ctx_get", key=text)
            await part.refused("handoff_send", to=text, text="t")
            await part.refused("handoff_send", to="game", text=text)
            await part.refused("handoff_send", to="game", text="t", dedupe=text)
            await part.refused("memory_show", agent="game", file=text)
            await part.refused("agent_show", agent=text)
            await part.refused("fail", reason=text)
            await part.refused(text)
        await part.act("ctx_set", key="good", value="v")

    session = await in_session(swarm, script)
    assert session["outcome"] == "committed"
    assert "\\udc80" in [r["target"] for r in session["refusals"]]


async def test_a_reason_that_is_no_utf8_does_not_keep_a_session_from_its_end(swarm):
    async def script(part):
        return part.done("failed", reason="cannot open \udcff.txt", memory_problems=("\udcff",))

    assert (await swarm.run("studio", script))["reason"] == "cannot open \\udcff.txt"


# -- reads --------------------------------------------------------------------------------------------------


async def test_a_session_sees_itself_and_below_and_nothing_else(swarm):
    for name in ("house", "studio", "game", "garage"):
        swarm.call("ctx_set", agent=name, key="k", value=name)
        swarm.call("memory_write", agent=name, file="MEMORY.md", text=f"{name}\n")
    swarm.call("handoff_send", to="garage", text="secret")
    swarm.call("report", text="secret", as_="garage")
    await swarm.run("garage")

    async def script(part):
        for call, args in (
            ("ctx_get", {"key": "k"}), ("ctx_list", {}), ("ctx_history", {"key": "k"}), ("agent_show", {}),
            ("agent_history", {}), ("why", {}), ("memory_show", {}), ("memory_list", {}), ("prompt", {}), ("log", {}),
            ("session_list", {}), ("next", {}),
        ):  # fmt: skip
            await part.act(call, agent="studio", **args)
            await part.act(call, agent="game", **args)
            answers = {
                (await part.refused(call, agent=a, **args)).replace(a, "NAME")
                for a in ("house", "garage", "nobody")
            }
            assert len(answers) == 1, answers
        assert {row["name"] for row in (await part.act("agent_list"))["items"]} == {"studio", "game", "art"}
        assert (await part.act("handoff_list"))["items"] == []
        assert (await part.act("report_list"))["items"] == []
        assert {row["agent"] for row in (await part.act("session_list"))["items"]} == {"studio"}
        assert "garage" not in str(await part.act("log"))
        assert "garage" not in str(await part.act("next", n=100))
        assert "garage" not in await part.refused("session_show", session="1")
        assert "garage" not in await part.refused("handoff_show", id=1)
        await part.refused("report_list", from_="garage")

    await in_session(swarm, script)


async def test_memory_reads_open_the_memory_of_others_and_nothing_more(swarm):
    swarm.change("studio", memory=MemoryRules(reads=("garage",)))
    swarm.call("memory_write", agent="garage", file="MEMORY.md", text="open\n")

    async def script(part):
        assert (await part.act("memory_show", agent="garage"))["text"] == "open\n"
        await part.refused("ctx_list", agent="garage")
        await part.refused("memory_write", agent="garage", file="MEMORY.md", text="mine")

    await in_session(swarm, script)


@pytest.mark.parametrize(
    "call",
    ["status", "doctor", "verify", "attention", "session_trace", "pause", "resume", "run", "reload", "rename", "forget",
     "session_apply", "session_discard", "session_revert", "session_cancel", "attention_ack", "memory_restore",
     "memory_take", "nonsense"],
)  # fmt: skip
async def test_what_is_the_operators_is_refused(swarm, call):
    async def script(part):
        reply = await part.ask(call, agent="studio", session="1", id="x", name="studio")
        assert reply.kind == ("not_found" if call == "nonsense" else "refused")

    await in_session(swarm, script)


async def test_a_session_cannot_have_files_of_this_machine_put_into_a_prompt(swarm):
    async def script(part):
        text = 'system_prompt_file = "/etc/passwd"\nrunner = { kind = "command", command = ["true"] }\n'
        reply = await part.ask("prompt", agent="studio", file_text=text, file_path="/tmp/x.toml")
        assert reply.kind == "refused"

    await in_session(swarm, script)


async def test_the_sender_of_a_session_cannot_be_chosen(swarm):
    async def script(part):
        for name in ("sender", "from_", "by", "as_"):
            await part.refused("handoff_send", to="game", text="t", **{name: "house"})

    assert (await in_session(swarm, script))["changes"] == []


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_is_asked_is_answered(shared, data):
    names = st.sampled_from(
        sorted([*READS, *ACTS, "draft_show", "draft_apply", "draft_discard", "fail", "nonsense"])
    )
    known = st.sampled_from(
        ["agent", "key", "value", "to", "from", "text", "id", "session", "at", "n", "since", "until", "status", "time",
         "file", "rev", "other", "outcome", "trigger", "reason", "priority", "due", "dedupe", "file_text", "file_path"]
    )  # fmt: skip
    asked = data.draw(
        st.lists(st.tuples(names, st.dictionaries(known, JSON, max_size=4)), min_size=20, max_size=20)
    )

    async def script(part):
        for number, (call, args) in enumerate(asked):
            reply = await part.desk.call(Message(id=f"{number}", call=call, args=args))
            assert reply.error is None or isinstance(reply.error, str)

    session = shared.play("studio", script, mode="no_commit")
    assert not session["reason"].startswith("the runner"), session["reason"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with contextlib.closing(Swarm(tmp_path_factory.mktemp("shared"))) as swarm:
        yield swarm


# -- refusals that no judge has seen ------------------------------------------------------------------------


async def test_every_act_refused_before_it_came_to_the_judge_is_listed(swarm):
    swarm.secrets = ("hunter2-hunter2",)

    async def script(part):
        await part.refused("pause", agent="studio", reason="x")
        await part.refused("session_revert", session="3")
        await part.refused("conquer", agent="house")
        await part.refused("ctx_set", key="hunter2-hunter2")
        await part.refused("handoff_ack", id="seven")
        await part.refused("status")
        await part.refused("ctx_get", agent="house", key="k")
        part.desk.event(
            "refused", {"act": "memory_write", "file": "archive/x.md", "reason": "read-only: hunter2-hunter2"}
        )
        part.desk.event("refused", {"act": "memory_show", "reason": "there is no such file"})

    session = await in_session(swarm, script)
    assert [(r["act"], r["target"]) for r in session["refusals"]] == [
        ("pause", "studio"), ("session_revert", "3"), ("conquer", "house"), ("ctx_set", "[secret]"),
        ("handoff_ack", "seven"), ("memory_write", "studio:archive/x.md"),
    ]  # fmt: skip
    assert "hunter2" not in json.dumps(session)


async def test_a_leaf_that_sends_to_its_children_has_that_in_its_refusals(swarm):
    async def script(part):
        await part.refused("handoff_send", to="children", text="go on")

    session = await swarm.run("game", script)
    assert [(r["act"], r["target"]) for r in session["refusals"]] == [("handoff_send", "children")]


async def test_refusals_are_bounded(swarm):
    async def script(part):
        for number in range(700):
            await part.refused(f"act{number}" + "x" * 500)

    session = await in_session(swarm, script)
    assert len(session["refusals"]) == 500
    assert max(len(r["act"]) for r in session["refusals"]) == 200


# -- the tools of models ------------------------------------------------------------------------------------

_SAMPLE = {"key": "k", "value": "v", "id": 1, "to": "game", "text": "t", "reply": "r", "file": "MEMORY.md",
           "reason": "why", "session": "1", "name": "tidy"}  # fmt: skip


async def test_the_desk_knows_every_tool_and_its_arguments(swarm):
    async def script(part):
        for tool in (*TOOLS.values(),):
            if tool.name == "checkpoint":
                continue
            given = {arg.name: _SAMPLE[arg.name] for arg in tool.args if arg.required}
            reply = await part.ask(tool.name, **given)
            assert "there is no" not in (reply.error or "") or reply.kind == "not_found", reply
            assert "no call" not in (reply.error or ""), reply
            assert "takes" not in (reply.error or ""), reply

    await in_session(swarm, script)
