"""From a call to changes: arguments are checked once, here, for every way in which an act can be asked for."""

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmd.core.acts import ACTS
from swarmd.core.asking import build, checked
from swarmd.core.changes import (
    AppendMemory,
    ChangeHandoff,
    MoveHandoff,
    Report,
    SendHandoff,
    SetKey,
    WriteMemory,
)
from swarmd.core.handoffs import Move
from swarmd.errors import BadInput, NotFound
from tests.core.worlds import OPERATOR, DictWorld, session_of

STUDIO = session_of("studio")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.fixture
def world():
    return DictWorld()


def built(world, name, args, actor=STUDIO, seen=None):
    numbers = itertools.count(101)
    return build(name, args, actor, world, reserve=lambda: next(numbers), seen=seen)


def test_an_agents_own_name_may_be_left_out(world):
    assert built(world, "ctx_set", {"key": "k", "value": "v"}) == [SetKey(agent="studio", key="k", value="v")]
    assert built(world, "ctx_set", {"agent": "game", "key": "k", "value": "v"})[0].agent == "game"
    with pytest.raises(BadInput, match="name the agent"):
        built(world, "ctx_set", {"key": "k", "value": "v"}, OPERATOR)


def test_a_key_that_was_not_read_counts_as_read_when_asked_for(world):
    world.put_key("studio", "k", "v", version=5)
    assert built(world, "ctx_set", {"key": "k", "value": "v"}, seen={})[0].seen == 5
    assert built(world, "ctx_set", {"key": "k", "value": "v"}, seen={("studio", "k"): 3})[0].seen == 3
    assert built(world, "ctx_unset", {"key": "new"}, seen={})[0].seen == 0
    assert built(world, "ctx_set", {"agent": "studio", "key": "k", "value": "v"}, OPERATOR)[0].seen is None


def test_each_child_gets_a_handoff_of_its_own(world):
    sent = built(world, "handoff_send", {"to": "children", "text": "t", "priority": "high"})
    assert [(change.id, change.to, change.priority) for change in sent] == [
        (101, "art", "high"),
        (102, "game", "high"),
    ]
    assert [change.to for change in built(world, "handoff_send", {"to": "children", "text": "t"}, OPERATOR)] == [
        "house", "stranger",
    ]  # fmt: skip
    with pytest.raises(NotFound):
        built(world, "handoff_send", {"to": "children", "text": "t"}, session_of("game"))


def test_times_are_instants_with_an_offset(world):
    (sent,) = built(world, "handoff_send", {"to": "game", "text": "t", "due": "2026-12-24T18:00+01:00"})
    assert isinstance(sent, SendHandoff)
    assert sent.due.isoformat() == "2026-12-24T17:00:00+00:00"
    for bad in ("tomorrow", "2026-12-24T18:00", "", "0001-01-01T00:00+14:00", "9999-12-31T23:59-12:00"):
        with pytest.raises(BadInput, match="due"):
            built(world, "handoff_send", {"to": "game", "text": "t", "due": bad})


@pytest.mark.parametrize("move", ["ack", "complete", "decline", "ask", "answer", "cancel", "requeue"])
def test_every_move_is_an_act(world, move):
    args = {"id": 4, "text": "t"} if move in ("ask", "answer") else {"id": 4}
    args |= {"reply": "t"} if move in ("complete", "decline") else {}
    text = "t" if len(args) > 1 else ""
    assert built(world, f"handoff_{move}", args) == [MoveHandoff(id=4, move=Move(move), text=text)]


def test_a_change_needs_something_to_change(world):
    assert built(world, "handoff_change", {"id": 4, "priority": "low"}) == [
        ChangeHandoff(id=4, priority="low")
    ]
    with pytest.raises(BadInput, match="nothing to change"):
        built(world, "handoff_change", {"id": 4})


def test_memory_is_written_from_the_head(world):
    world.put_file("studio", "a.md", "x", rev=4)
    assert built(world, "memory_write", {"file": "a.md", "text": "\u00e9"}) == [
        WriteMemory(agent="studio", path="a.md", data="\u00e9".encode(), base=4)
    ]
    assert built(world, "memory_append", {"file": "b.md", "text": "x"}) == [
        AppendMemory(agent="studio", path="b.md", text="x")
    ]
    assert built(world, "memory_delete", {"file": "a.md"})[0].data is None
    with pytest.raises(NotFound):
        built(world, "memory_delete", {"file": "b.md"})
    with pytest.raises(BadInput, match="UTF-8"):
        built(world, "memory_write", {"file": "a.md", "text": "\udc80"})


def test_a_report_has_no_other_argument(world):
    assert built(world, "report", {"text": "t"}) == [Report(text="t")]
    with pytest.raises(BadInput, match="'agent'"):
        built(world, "report", {"text": "t", "agent": "game"})


@pytest.mark.parametrize(
    ("name", "args", "part"),
    [
        ("ctx_set", {"key": "k"}, "value is missing"),
        ("ctx_set", {"key": "k", "value": 1}, "text is expected"),
        ("ctx_set", {"key": "k", "value": "v", "by": "operator"}, "'by'"),
        ("handoff_send", {"to": "game", "text": "t", "sender": "house"}, "'sender'"),
        ("handoff_send", {"to": "game", "text": "t", "from": "house"}, "'from'"),
        ("handoff_send", {"to": "game", "text": "t", "priority": "now"}, "low, normal, high, urgent"),
        ("handoff_ack", {"id": "4"}, "whole number"),
        ("handoff_ack", {"id": True}, "whole number"),
        ("handoff_ack", {"id": 0}, "whole number"),
        ("handoff_ack", {"id": 2**63}, "whole number"),
        ("handoff_ack", {}, "id is missing"),
    ],
)
def test_wrong_arguments_are_named(name, args, part):
    with pytest.raises(BadInput, match=part):
        checked(name, args)


def test_an_unknown_act_is_not_found():
    with pytest.raises(NotFound):
        checked("handoff_expire", {"id": 4})


@given(name=st.sampled_from(sorted(ACTS)), data=st.data())
def test_whatever_arguments_come_they_give_changes_or_a_sentence(name, data):
    known = [arg.name for arg in ACTS[name].args]
    args = data.draw(st.dictionaries(st.sampled_from([*known, "other"]), JSON, max_size=5))
    with contextlib.suppress(BadInput, NotFound):
        built(DictWorld(), name, args)
