"""Every row of the manual's table of authority: who may, who may not, and in which words."""

import pytest

from swarmd.core.authority import may_read_handoff, may_read_keys, may_read_memory, refusal
from swarmd.core.changes import (
    AppendMemory,
    ChangeHandoff,
    MoveHandoff,
    Report,
    SendHandoff,
    SetKey,
    UnsetKey,
    WriteMemory,
)
from swarmd.core.handoffs import Move, Status
from tests.core.worlds import OPERATOR, DictWorld, MemoryRules, session_of

STUDIO = session_of("studio")
EVERYBODY = ["house", "studio", "game", "art", "garage", "stranger", "nobody"]
BELOW_STUDIO = {"game", "art"}
OWN_AND_BELOW = {"studio", *BELOW_STUDIO}


@pytest.fixture
def world():
    return DictWorld()


def allowed(world, change, actor=STUDIO):
    return refusal(actor, change, world) is None


@pytest.mark.parametrize("other", EVERYBODY)
def test_keys_are_read_of_oneself_and_below(world, other):
    assert (may_read_keys(STUDIO, other, world.tree) is None) == (other in OWN_AND_BELOW)


@pytest.mark.parametrize("other", EVERYBODY)
def test_keys_are_set_and_unset_of_oneself_and_below(world, other):
    assert allowed(world, SetKey(agent=other, key="k", value="v")) == (other in OWN_AND_BELOW)
    assert allowed(world, UnsetKey(agent=other, key="k")) == (other in OWN_AND_BELOW)


@pytest.mark.parametrize("other", EVERYBODY)
def test_with_keys_own_only_ones_own_keys_are_set(world, other):
    world.with_agent("studio", keys_scope="own")
    assert allowed(world, SetKey(agent=other, key="k", value="v")) == (other == "studio")
    assert allowed(world, UnsetKey(agent=other, key="k")) == (other == "studio")


def test_keys_own_names_the_line_of_the_file(world):
    world.with_agent("studio", keys_scope="own")
    assert 'authority.keys = "own"' in refusal(STUDIO, SetKey(agent="game", key="k", value="v"), world)


@pytest.mark.parametrize("other", EVERYBODY)
def test_a_handoff_goes_only_below(world, other):
    assert allowed(world, SendHandoff(id=1, to=other, text="t")) == (other in BELOW_STUDIO)


@pytest.mark.parametrize("move", [Move.ACK, Move.COMPLETE, Move.DECLINE, Move.ASK])
@pytest.mark.parametrize("who", ["house", "studio", "game", "art", "stranger"])
def test_only_its_receiver_acknowledges_completes_declines_and_asks(world, move, who):
    world.put_handoff(1, "studio", "game")
    assert allowed(world, MoveHandoff(id=1, move=move), session_of(who)) == (who == "game")


@pytest.mark.parametrize("move", [Move.CANCEL, Move.ANSWER, None])
@pytest.mark.parametrize("who", ["house", "studio", "game", "art", "garage", "stranger"])
def test_its_sender_and_those_above_the_sender_cancel_change_and_answer(world, move, who):
    world.put_handoff(1, "studio", "game", Status.WAITING)
    change = MoveHandoff(id=1, move=move) if move else ChangeHandoff(id=1, priority="high")
    assert allowed(world, change, session_of(who)) == (who in ("studio", "house"))


def test_what_an_operator_sent_no_agent_cancels(world):
    world.put_handoff(1, "operator", "game", by="operator:ada")
    for who in ("house", "studio", "game"):
        assert not allowed(world, MoveHandoff(id=1, move=Move.CANCEL), session_of(who))


def test_who_stands_above_the_receiver_only_may_not_cancel(world):
    world.put_handoff(1, "house", "game")
    assert not allowed(world, MoveHandoff(id=1, move=Move.CANCEL), STUDIO)


@pytest.mark.parametrize("move", [Move.REQUEUE, Move.EXPIRE])
@pytest.mark.parametrize("who", ["house", "studio", "game"])
def test_no_agent_requeues_or_expires(world, move, who):
    world.put_handoff(1, "studio", "game", Status.DECLINED)
    assert not allowed(world, MoveHandoff(id=1, move=move), session_of(who))


@pytest.mark.parametrize(
    ("sender", "receiver", "may"),
    [
        ("studio", "game", True),
        ("house", "studio", True),
        ("house", "game", True),
        ("operator", "art", True),
        ("house", "garage", False),
        ("operator", "house", False),
        ("operator", "gone", False),
    ],
)
def test_a_handoff_is_read_where_it_was_sent_or_received_by_oneself_or_below(world, sender, receiver, may):
    handoff = world.put_handoff(1, sender, receiver)
    assert (may_read_handoff(STUDIO, handoff, world.tree) is None) == may


@pytest.mark.parametrize("other", EVERYBODY)
def test_memory_is_read_of_oneself_below_and_as_the_file_says(world, other):
    world.with_agent("studio", memory=MemoryRules(reads=("garage", "nobody")))
    may = other in {*OWN_AND_BELOW, "garage"}
    assert (may_read_memory(STUDIO, other, world.tree) is None) == may


def test_what_may_be_read_by_the_file_is_never_written(world):
    world.with_agent("studio", memory=MemoryRules(reads=("garage",)))
    assert not allowed(world, WriteMemory(agent="garage", path="MEMORY.md", data=b"x"))


@pytest.mark.parametrize("other", EVERYBODY)
def test_memory_is_written_of_oneself_only(world, other):
    assert allowed(world, WriteMemory(agent=other, path="MEMORY.md", data=b"x")) == (other == "studio")
    assert allowed(world, AppendMemory(agent=other, path="MEMORY.md", text="x")) == (other == "studio")


@pytest.mark.parametrize(
    ("path", "may"),
    [
        ("MEMORY.md", True),
        ("policies/pay.md", False),
        ("policies/a/b.md", False),
        ("policies", False),
        ("archive/history_2026-04-20_14-30-45.md", False),
        ("archive/a/b.md", False),
        ("archived.md", True),
        ("my/archive/x.md", True),
    ],
)
def test_read_only_files_and_the_archive_are_not_written(world, path, may):
    world.with_agent("studio", memory=MemoryRules(read_only=("policies/**", "policies")))
    for change in (
        WriteMemory(agent="studio", path=path, data=b"x"),
        WriteMemory(agent="studio", path=path, data=None),
        AppendMemory(agent="studio", path=path, text="x"),
    ):
        assert allowed(world, change) == may


def test_a_report_is_always_allowed(world):
    assert allowed(world, Report(text="all is well"))
    assert allowed(world, Report(text="all is well"), session_of("stranger"))


def test_the_operator_may_do_all(world):
    world.put_handoff(1, "house", "game", Status.DECLINED)
    for change in (
        SetKey(agent="art", key="k", value="v"),
        SendHandoff(id=2, to="house", text="t"),
        MoveHandoff(id=1, move=Move.REQUEUE),
        MoveHandoff(id=1, move=Move.ACK),
        WriteMemory(agent="art", path="archive/x.md", data=b"x"),
    ):
        assert allowed(world, change, OPERATOR)


def test_an_unknown_name_and_one_that_is_not_below_get_the_same_words(world):
    def words(other, change):
        return refusal(STUDIO, change, world).replace(other, "NAME")

    for make in (
        lambda other: SendHandoff(id=1, to=other, text="t"),
        lambda other: SetKey(agent=other, key="k", value="v"),
        lambda other: WriteMemory(agent=other, path="MEMORY.md", data=b"x"),
    ):
        assert len({words(other, make(other)) for other in ("house", "garage", "stranger", "nobody")}) == 1
    for may in (may_read_keys, may_read_memory):
        answers = {
            may(STUDIO, other, world.tree).replace(other, "NAME") for other in ("house", "garage", "nobody")
        }
        assert len(answers) == 1


def test_of_a_handoff_that_one_may_not_read_nobody_is_named(world):
    world.put_handoff(1, "house", "garage")
    for move in (Move.ACK, Move.CANCEL):
        sentence = refusal(STUDIO, MoveHandoff(id=1, move=move), world)
        assert "garage" not in sentence
        assert "house" not in sentence


def test_of_a_handoff_that_one_may_read_its_receiver_is_named(world):
    world.put_handoff(1, "studio", "game")
    sentence = refusal(STUDIO, MoveHandoff(id=1, move=Move.ACK), world)
    assert sentence.startswith("handoff 1 belongs to game, not to studio")
