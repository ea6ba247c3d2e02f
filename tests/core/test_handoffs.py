"""The moves of a handoff, walked as a table, with repeats; priority and order of open work."""

import itertools
from dataclasses import replace

import pytest

from swarmd.core.changes import ChangeHandoff, MoveHandoff
from swarmd.core.handoffs import FINAL, Move, Status, move_problem, urgency, work_order
from swarmd.core.world import Actor
from tests.core.worlds import DAY, HOUR, NOW, OPERATOR, DictWorld, ask, commit, decisions, session_of, thread

# The manual's section 5, copied by hand.
TABLE = {
    "open": {"acknowledged", "waiting", "completed", "declined", "cancelled", "expired"},
    "acknowledged": {"waiting", "completed", "declined", "cancelled", "expired"},
    "waiting": {"open", "cancelled", "expired"},
    "completed": set(),
    "declined": set(),
    "cancelled": set(),
    "expired": set(),
}
LEADS_TO = {
    "ack": "acknowledged",
    "complete": "completed",
    "decline": "declined",
    "ask": "waiting",
    "answer": "open",
    "cancel": "cancelled",
    "expire": "expired",
}
MADE_BY = dict.fromkeys(("ack", "complete", "decline", "ask"), "game#3") | {
    "answer": "studio#2",
    "cancel": "studio#2",
    "expire": "system",
}


def at_status(world, status):
    """A handoff that came to this status in the usual way."""
    move = next((move for move, result in LEADS_TO.items() if result == status and move != "answer"), None)
    entries = thread((MADE_BY[move], move)) if move else ()
    return world.put_handoff(1, "studio", "game", Status(status), thread=entries)


@pytest.mark.parametrize(("status", "move"), list(itertools.product(TABLE, LEADS_TO)))
def test_the_table_of_moves_is_the_manuals(status, move):
    world = DictWorld()
    handoff = at_status(world, status)
    may = LEADS_TO[move] in TABLE[status]
    assert (move_problem(handoff, Move(move)) is None) == may
    stranger = Actor(by="operator:bob")  # so that no move repeats its own
    verdict = ask(world, stranger, MoveHandoff(id=1, move=Move(move), text="because"))
    assert verdict.decision == ("done" if may else "refused")
    if may:
        (effect,) = verdict.effects
        assert effect.handoff.status == LEADS_TO[move]
        assert effect.entry.text == "because"
        assert effect.handoff.last == effect.entry
    else:
        assert verdict.kind == "refused"
        assert status in verdict.reason


@pytest.mark.parametrize("move", ["complete", "decline"])
def test_the_same_final_move_by_the_same_agent_does_nothing(move):
    world = DictWorld()
    world.put_handoff(1, "studio", "game")
    wish = MoveHandoff(id=1, move=Move(move), text="done with it")
    assert decisions(commit(world, session_of("game", 3), wish)) == ["done"]
    before = world.handoff_rows[1]
    assert ask(world, session_of("game", 3), wish).decision == "nothing"
    assert ask(world, session_of("game", 4), replace(wish, text="again")).decision == "nothing"
    assert decisions(commit(world, session_of("game", 4), wish)) == ["nothing"]
    assert world.handoff_rows[1] == before


def test_another_final_move_is_no_repeat():
    world = DictWorld()
    world.put_handoff(1, "studio", "game")
    commit(world, session_of("game"), MoveHandoff(id=1, move=Move.COMPLETE))
    assert (
        ask(world, session_of("game"), MoveHandoff(id=1, move=Move.DECLINE, text="no")).decision == "refused"
    )


def test_somebody_elses_final_move_is_no_repeat():
    world = DictWorld()
    world.put_handoff(1, "studio", "game")
    commit(world, OPERATOR, MoveHandoff(id=1, move=Move.COMPLETE))
    assert ask(world, session_of("game"), MoveHandoff(id=1, move=Move.COMPLETE)).decision == "refused"


def test_a_second_acknowledgement_is_a_move_that_does_not_exist():
    world = DictWorld()
    world.put_handoff(1, "studio", "game")
    commit(world, session_of("game"), MoveHandoff(id=1, move=Move.ACK))
    assert ask(world, session_of("game"), MoveHandoff(id=1, move=Move.ACK)).decision == "refused"


@pytest.mark.parametrize("status", TABLE)
def test_an_operator_requeues_all_but_what_is_completed(status):
    world = DictWorld()
    at_status(world, status)
    verdict = ask(world, OPERATOR, MoveHandoff(id=1, move=Move.REQUEUE))
    assert verdict.decision == ("refused" if status == "completed" else "done")
    if status != "completed":
        assert verdict.effects[0].handoff.status is Status.OPEN


def test_what_is_requeued_after_it_expired_does_not_expire_again_at_once():
    world = DictWorld()
    world.put_handoff(1, "studio", "game", Status.EXPIRED, expires=NOW - HOUR)
    world.put_handoff(2, "studio", "game", Status.DECLINED, expires=NOW + HOUR)
    commit(world, OPERATOR, MoveHandoff(id=1, move=Move.REQUEUE), MoveHandoff(id=2, move=Move.REQUEUE))
    assert world.handoff_rows[1].expires is None
    assert world.handoff_rows[2].expires == NOW + HOUR


@pytest.mark.parametrize("move", [Move.DECLINE, Move.ASK, Move.ANSWER])
def test_a_decline_a_question_and_an_answer_need_words(move):
    world = DictWorld()
    world.put_handoff(1, "studio", "game", Status.WAITING if move is Move.ANSWER else Status.OPEN)
    verdict = ask(world, OPERATOR, MoveHandoff(id=1, move=move))
    assert (verdict.decision, verdict.kind) == ("refused", "bad_input")


def test_a_reply_has_a_limit_and_names_it():
    world = DictWorld()
    world.put_handoff(1, "studio", "game")
    assert (
        ask(world, session_of("game"), MoveHandoff(id=1, move=Move.COMPLETE, text="x" * 8192)).decision
        == "done"
    )
    verdict = ask(world, session_of("game"), MoveHandoff(id=1, move=Move.COMPLETE, text="x" * 8193))
    assert verdict.decision == "refused"
    assert "8192" in verdict.reason


def test_an_unknown_handoff_is_not_found():
    verdict = ask(DictWorld(), session_of("game"), MoveHandoff(id=9, move=Move.ACK))
    assert (verdict.decision, verdict.kind) == ("refused", "not_found")


@pytest.mark.parametrize("status", TABLE)
def test_priority_and_due_change_until_the_end(status):
    world = DictWorld()
    at_status(world, status)
    verdict = ask(world, session_of("studio"), ChangeHandoff(id=1, priority="urgent", due=NOW + DAY))
    assert verdict.decision == ("refused" if Status(status) in FINAL else "done")
    if verdict.decision == "done":
        changed = verdict.effects[0].handoff
        assert (changed.priority, changed.due, changed.status) == ("urgent", NOW + DAY, Status(status))


def test_a_change_that_changes_nothing_does_nothing():
    world = DictWorld()
    world.put_handoff(1, "studio", "game", priority="high")
    assert ask(world, session_of("studio"), ChangeHandoff(id=1, priority="high")).decision == "nothing"


def test_an_hour_past_due_one_priority_is_added():
    world = DictWorld()
    handoff = world.put_handoff(1, "studio", "game", due=NOW - HOUR)
    assert urgency(handoff, NOW) == "normal"
    assert urgency(handoff, NOW + HOUR / 60) == "high"
    assert urgency(replace(handoff, priority="urgent"), NOW + DAY) == "urgent"
    assert urgency(replace(handoff, due=None), NOW + DAY) == "normal"


def test_open_work_is_urgent_first_then_oldest():
    world = DictWorld()
    rows = [
        replace(world.put_handoff(1, "studio", "game"), created=NOW - HOUR),
        replace(world.put_handoff(2, "studio", "game"), created=NOW - DAY),
        replace(world.put_handoff(3, "studio", "game", priority="urgent"), created=NOW),
        replace(world.put_handoff(4, "studio", "game", due=NOW - DAY), created=NOW),
        replace(world.put_handoff(5, "studio", "game", priority="low"), created=NOW - 9 * DAY),
    ]
    assert [h.id for h in sorted(rows, key=lambda h: work_order(h, NOW))] == [3, 4, 2, 1, 5]
