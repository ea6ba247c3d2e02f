"""Verdicts on keys, handoffs and reports: limits with their numbers, what was overtaken, one change after another."""

from datetime import timedelta

import pytest

from swarmd.core.changes import MoveHandoff, Report, SendHandoff, SetKey, UnsetKey
from swarmd.core.handoffs import Move, Status
from swarmd.core.judge import fold
from tests.core.worlds import (
    DAY,
    HOUR,
    NOW,
    OPERATOR,
    DictWorld,
    Limits,
    ask,
    commit,
    decisions,
    session_of,
    tree_of,
)

STUDIO = session_of("studio")


@pytest.fixture
def world():
    return DictWorld()


def set_key(key="k", value="v", *, agent="studio", seen=0):
    return SetKey(agent=agent, key=key, value=value, seen=seen)


# -- keys ---------------------------------------------------------------------------------------------------


def test_a_key_gets_a_version_that_grows_for_ever(world):
    commit(world, STUDIO, set_key(value="a"))
    commit(world, STUDIO, UnsetKey(agent="studio", key="k", seen=1))
    commit(world, STUDIO, set_key(value="b", seen=2))
    row = world.key("studio", "k")
    assert (row.value, row.version, row.by, row.updated) == ("b", 3, "studio#7", NOW)


def test_the_same_value_again_is_nothing(world):
    commit(world, STUDIO, set_key())
    assert ask(world, STUDIO, set_key(seen=1)).decision == "nothing"


@pytest.mark.parametrize(
    ("key", "part"),
    [
        ("", "1 to 128"),
        ("a b", "1 to 128"),
        ("x" * 129, "128"),
        ("caf\u00e9", "A-Z"),
        ("a\n", "A-Z"),
        ("a=b", "A-Z"),
    ],
)
def test_a_bad_key_name_is_refused_with_the_rule(world, key, part):
    verdict = ask(world, STUDIO, set_key(key))
    assert (verdict.decision, verdict.kind) == ("refused", "refused")
    assert part in verdict.reason


@pytest.mark.parametrize("key", ["x" * 128, "A-Z.a_z:0/9"])
def test_good_key_names_are_taken(world, key):
    assert ask(world, STUDIO, set_key(key)).decision == "done"


def test_a_value_has_64_kib_and_no_nul(world):
    assert ask(world, STUDIO, set_key(value="")).decision == "done"
    assert ask(world, STUDIO, set_key(value="x" * 65536)).decision == "done"
    over = ask(world, STUDIO, set_key(value="\u00e9" * 32769))
    assert (over.decision, over.kind) == ("refused", "refused")
    assert "65536" in over.reason
    assert "65538" in over.reason
    assert "NUL" in ask(world, STUDIO, set_key(value="a\0b")).reason
    assert "UTF-8" in ask(world, STUDIO, set_key(value="\udc80")).reason


def test_an_agent_has_256_keys_at_most(world):
    for number in range(256):
        world.put_key("studio", f"k{number}", "v")
    verdict = ask(world, STUDIO, set_key("one-more"))
    assert (verdict.decision, verdict.kind) == ("refused", "refused")
    assert "256" in verdict.reason
    assert ask(world, STUDIO, set_key("k7", "other", seen=1)).decision == "done"


def test_keys_that_somebody_else_has_added_meanwhile_are_no_refusal_at_the_commit(world):
    for number in range(256):
        world.put_key("studio", f"k{number}", "v")
    folded = commit(world, STUDIO, set_key("one-more"), set_key("k7", "other", seen=1))
    assert decisions(folded) == ["superseded", "done"]


def test_an_unset_key_makes_room_in_the_same_change_set(world):
    for number in range(256):
        world.put_key("studio", f"k{number}", "v")
    wishes = (UnsetKey(agent="studio", key="k1", seen=1), set_key("one-more"))
    assert decisions(commit(world, STUDIO, *wishes)) == ["done", "done"]


def test_to_unset_what_is_not_there_is_not_found_when_asked_and_nothing_later(world):
    verdict = ask(world, STUDIO, UnsetKey(agent="studio", key="k", seen=0))
    assert (verdict.decision, verdict.kind) == ("refused", "not_found")
    assert ask(world, OPERATOR, UnsetKey(agent="studio", key="k")).kind == "not_found"
    assert decisions(commit(world, STUDIO, UnsetKey(agent="studio", key="k", seen=3))) == ["nothing"]


def test_an_operator_cannot_set_a_key_of_an_agent_that_is_not_there(world):
    assert ask(world, OPERATOR, set_key(agent="nobody", seen=None)).kind == "not_found"


@pytest.mark.parametrize(
    ("writer", "stays"),
    [
        ("operator:ada", True),
        ("operator:ada as studio", True),
        ("house#9", True),
        ("game#9", False),
        ("studio#6", True),
        ("art#9", True),
        ("nobody#9", True),
    ],
)
def test_a_key_changed_since_it_was_read_goes_to_the_operator_then_the_higher_then_the_first(
    world, writer, stays
):
    """The session is studio's, the key game's; art, garage and those out of force stand no lower than studio."""
    tree = tree_of(house=None, studio="house", game="studio", art=None)
    world = DictWorld(tree)
    world.put_key("game", "k", "theirs", version=5, by=writer)
    for wish in (
        SetKey(agent="game", key="k", value="mine", seen=4),
        UnsetKey(agent="game", key="k", seen=4),
    ):
        (decision,) = decisions(fold(STUDIO, [wish], world))
        assert decision == ("superseded" if stays else "done")


def test_a_key_that_was_read_since_is_overwritten(world):
    world.put_key("studio", "k", "theirs", version=5, by="operator:ada")
    assert decisions(commit(world, STUDIO, set_key(value="mine", seen=5))) == ["done"]


def test_ones_own_writes_never_overtake_one(world):
    wishes = [set_key(value=str(n), seen=0) for n in range(3)]
    assert decisions(commit(world, STUDIO, *wishes)) == ["done"] * 3
    assert world.key("studio", "k").value == "2"


def test_a_superseded_key_names_who_and_the_rest_commits(world):
    world.put_key("studio", "k", "theirs", version=5, by="house#9")
    folded = commit(world, STUDIO, set_key(seen=4), set_key("other"))
    assert decisions(folded) == ["superseded", "done"]
    assert "house#9" in folded.verdicts[0].reason
    assert not folded.refusals
    assert world.key("studio", "other").value == "v"


def test_an_operator_is_never_overtaken(world):
    world.put_key("studio", "k", "theirs", version=5, by="house#9")
    assert decisions(commit(world, OPERATOR, set_key(value="mine", seen=1))) == ["done"]


# -- handoffs -----------------------------------------------------------------------------------------------


def send(id=1, to="game", text="do it", **facts):
    return SendHandoff(id=id, to=to, text=text, **facts)


def test_a_handoff_carries_whom_it_is_from_and_what_it_came_from(world):
    actor = session_of("studio", 7, depth=2, cause_handoff=40)
    commit(world, actor, send(41, due=NOW + DAY, priority="high", dedupe="d"))
    row = world.handoff_rows[41]
    assert (row.sender, row.receiver, row.by, row.depth, row.cause.session, row.cause.handoff) == (
        "studio", "game", "studio#7", 3, 7, 40,
    )  # fmt: skip
    assert (row.status, row.created, row.dedupe, row.priority) == (Status.OPEN, NOW, "d", "high")


def test_the_sender_is_never_the_callers_to_choose(world):
    commit(world, STUDIO, send(sender="house"))
    assert world.handoff_rows[1].sender == "studio"
    commit(world, OPERATOR, send(2, sender="house"))
    assert world.handoff_rows[2].sender == "house"


def test_a_handoffs_text_has_a_limit_and_is_not_empty(world):
    assert ask(world, STUDIO, send(text="x" * 8192)).decision == "done"
    over = ask(world, STUDIO, send(text="x" * 8193))
    assert (over.decision, over.kind) == ("refused", "refused")
    assert "8192" in over.reason
    assert ask(world, STUDIO, send(text=" \n")).kind == "bad_input"


def test_handoffs_per_session_counts_what_the_session_has_sent_before(world):
    world.with_agent("studio", limits=Limits(handoffs_per_session=3))
    commit(world, STUDIO, send(1), send(2))
    assert ask(world, STUDIO, send(3)).decision == "done"
    folded = fold(STUDIO, [send(3), send(4)], world, asked=True)
    assert decisions(folded) == ["done", "refused"]
    assert "3 handoffs" in folded.verdicts[1].reason
    assert ask(world, session_of("studio", 8), send(3)).decision == "done"


def test_a_limit_that_was_lowered_meanwhile_supersedes(world):
    world.with_agent("studio", limits=Limits(handoffs_per_session=1))
    folded = commit(world, STUDIO, send(1), send(2), set_key())
    assert decisions(folded) == ["done", "superseded", "done"]


def test_a_chain_of_handoffs_ends_at_the_depth_limit(world):
    world.with_agent("studio", limits=Limits(handoff_depth=5))
    assert ask(world, session_of("studio", 7, depth=4), send()).decision == "done"
    verdict = ask(world, session_of("studio", 7, depth=5), send())
    assert verdict.decision == "refused"
    assert "6 deep" in verdict.reason
    assert "5" in verdict.reason


def test_a_second_send_of_a_dedupe_key_returns_the_first_while_it_is_open(world):
    commit(world, STUDIO, send(1, dedupe="d"))
    for status in ("open", "acknowledged", "waiting"):
        world.put_handoff(1, "studio", "game", status, dedupe="d")
        verdict = ask(world, STUDIO, send(2, dedupe="d"))
        assert (verdict.decision, verdict.value) == ("nothing", 1)
    assert ask(world, STUDIO, send(2, to="art", dedupe="d")).decision == "done"
    assert ask(world, OPERATOR, send(2, dedupe="d")).decision == "done"
    world.put_handoff(1, "studio", "game", "completed", dedupe="d")
    assert ask(world, STUDIO, send(2, dedupe="d")).decision == "done"


def test_a_dedupe_key_counts_within_one_change_set(world):
    assert decisions(fold(STUDIO, [send(1, dedupe="d"), send(2, dedupe="d")], world)) == ["done", "nothing"]


def test_a_repeated_send_does_not_count_against_the_limit(world):
    world.with_agent("studio", limits=Limits(handoffs_per_session=1))
    folded = fold(STUDIO, [send(1, dedupe="d"), send(2, dedupe="d")], world, asked=True)
    assert decisions(folded) == ["done", "nothing"]


def test_a_handoff_that_would_expire_at_once_is_bad_input_when_asked_and_superseded_later(world):
    verdict = ask(world, STUDIO, send(expires=NOW))
    assert (verdict.decision, verdict.kind) == ("refused", "bad_input")
    assert decisions(commit(world, STUDIO, send(expires=NOW - HOUR), set_key())) == ["superseded", "done"]
    assert ask(world, STUDIO, send(expires=NOW + timedelta(seconds=1))).decision == "done"


def test_a_number_that_was_sent_already_is_not_sent_over_it(world):
    world.put_handoff(1, "house", "studio", "completed")
    before = world.handoff_rows[1]
    assert decisions(commit(world, STUDIO, send(1))) == ["superseded"]
    assert world.handoff_rows[1] == before


def test_the_second_of_two_moves_of_one_handoff_is_judged_after_the_first(world):
    world.put_handoff(1, "house", "studio")
    ack, done = MoveHandoff(id=1, move=Move.ACK), MoveHandoff(id=1, move=Move.COMPLETE, text="done")
    folded = fold(STUDIO, [ack, done], world)
    assert decisions(folded) == ["done", "done"]
    assert [e.kind for e in folded.effects[1].handoff.thread] == ["ack", "complete"]
    assert decisions(fold(STUDIO, [done, ack], world, asked=True)) == ["done", "refused"]


def test_what_was_sent_in_a_change_set_can_be_cancelled_in_it(world):
    folded = fold(STUDIO, [send(1), MoveHandoff(id=1, move=Move.CANCEL)], world)
    assert decisions(folded) == ["done", "done"]


def test_one_reply_closes_one_handoff(world):
    world.put_handoff(1, "house", "studio")
    world.put_handoff(2, "house", "studio")
    commit(world, STUDIO, MoveHandoff(id=1, move=Move.COMPLETE))
    assert world.handoff_rows[2].status is Status.OPEN


def test_a_handoff_that_somebody_else_has_moved_is_superseded_and_the_rest_commits(world):
    world.put_handoff(1, "house", "studio")
    commit(world, session_of("house", 8), MoveHandoff(id=1, move=Move.CANCEL))
    folded = commit(world, STUDIO, MoveHandoff(id=1, move=Move.COMPLETE, text="done"), set_key())
    assert decisions(folded) == ["superseded", "done"]
    assert folded.verdicts[0].reason == "handoff 1 was cancelled by house#8 meanwhile"


# -- reports ------------------------------------------------------------------------------------------------


def test_a_report_goes_to_the_parent_and_a_roots_to_the_operator(world):
    (effect,) = ask(world, STUDIO, Report(text="all well")).effects
    assert (effect.agent, effect.parent) == ("studio", "house")
    (effect,) = ask(world, session_of("house"), Report(text="all well")).effects
    assert effect.parent is None


def test_a_report_of_one_whose_parent_is_gone_goes_to_the_operator(world):
    world.with_agent("game", parent="house", gone_parent="studio")
    (effect,) = ask(world, session_of("game"), Report(text="all well")).effects
    assert effect.parent is None


def test_a_report_has_2_kib(world):
    assert ask(world, STUDIO, Report(text="x" * 2048)).decision == "done"
    over = ask(world, STUDIO, Report(text="x" * 2049))
    assert (over.decision, over.kind) == ("refused", "refused")
    assert "2048" in over.reason
    assert ask(world, STUDIO, Report(text=" ")).kind == "bad_input"


def test_an_operator_reports_only_what_a_draft_of_an_agents_reports(world):
    assert ask(world, OPERATOR, Report(text="t")).kind == "bad_input"
    (effect,) = ask(world, OPERATOR, Report(text="t", agent="game")).effects
    assert (effect.agent, effect.parent) == ("game", "studio")


def test_an_agent_cannot_report_as_another(world):
    (effect,) = ask(world, STUDIO, Report(text="t", agent="game")).effects
    assert effect.agent == "studio"


# -- the whole change set -----------------------------------------------------------------------------------


def test_all_reasons_are_given_not_only_the_first(world):
    folded = fold(STUDIO, [send(1, to="house"), set_key(agent="garage"), set_key()], world)
    assert len(folded.refusals) == 2


def test_nothing_of_the_world_is_changed_by_judging(world):
    world.put_handoff(1, "house", "studio")
    before = dict(world.handoff_rows), dict(world.key_rows)
    fold(STUDIO, [set_key(), send(2), MoveHandoff(id=1, move=Move.ACK)], world)
    assert (dict(world.handoff_rows), dict(world.key_rows)) == before


def test_an_agent_that_is_out_of_force_commits_nothing_and_may_still_ask(world):
    ghost = session_of("ghost")
    assert ask(world, ghost, set_key(agent="ghost")).decision == "done"
    folded = fold(ghost, [set_key(agent="ghost"), Report(text="t")], world)
    assert decisions(folded) == ["refused", "refused"]
    assert "not in force" in folded.refusals[0]
