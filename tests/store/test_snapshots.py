"""What a session is shown: all that it may know, in the right order, and nothing old or foreign."""

import json
from datetime import timedelta

from swarmd.core.changes import MoveHandoff, SendHandoff
from swarmd.core.handoffs import Move
from swarmd.core.snapshot import Trigger
from swarmd.core.world import Actor
from swarmd.store import commit, trees
from swarmd.store.bases import shown
from swarmd.store.snapshots import snapshot
from tests.swarm import nothing

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
OPERATOR = Actor(by="operator:ada")


def look(swarm, name="studio", **facts):
    agent = trees.tree_of(swarm.reader).agent(name)
    return snapshot(swarm.reader, agent, Trigger(kind="cron"), swarm.clock.now(), **facts)


def send(swarm, to="studio", text="do it", *, by=None, **facts):
    return swarm.call("handoff_send", to=to, text=text, as_=by, **facts)["id"]


def at(moment):
    return moment.isoformat()


# -- open work ----------------------------------------------------------------------------------------------


def test_open_work_is_urgent_first_then_oldest_and_overdue_counts_one_more(swarm):
    now = swarm.clock.now()
    old = send(swarm)
    swarm.clock.go(minutes=1)
    low = send(swarm, priority="low")
    urgent = send(swarm, priority="urgent")
    late = send(swarm, due=at(now - 2 * HOUR))
    new = send(swarm)
    assert [h.id for h in look(swarm).open_handoffs] == [urgent, late, old, new, low]


def test_what_waits_for_an_answer_and_what_has_ended_is_no_open_work(swarm):
    ids = [send(swarm) for _ in range(6)]
    swarm.call("handoff_ask", id=ids[0], text="which?", as_="studio")
    swarm.call("handoff_complete", id=ids[1], as_="studio")
    swarm.call("handoff_decline", id=ids[2], reply="no", as_="studio")
    swarm.call("handoff_cancel", id=ids[3])
    swarm.call("handoff_ack", id=ids[4], as_="studio")
    assert [h.id for h in look(swarm).open_handoffs] == ids[4:]
    swarm.call("handoff_answer", id=ids[0], text="the red one")
    assert ids[0] in [h.id for h in look(swarm).open_handoffs]


def test_five_hundred_completed_handoffs_do_not_come_back(swarm):
    sends = [SendHandoff(id=n, to="studio", text="old") for n in range(1000, 1500)]
    done = [MoveHandoff(id=n, move=Move.COMPLETE) for n in range(1000, 1500)]
    swarm.write(lambda c: commit.commit(c, OPERATOR, [*sends, *done], swarm.clock.now()))
    two = [send(swarm), send(swarm)]
    assert [h.id for h in look(swarm).open_handoffs] == two


def test_of_very_much_open_work_the_first_is_read_and_the_rest_counted(swarm):
    sends = [SendHandoff(id=n, to="studio", text="t") for n in range(1000, 1700)]
    swarm.write(lambda c: commit.commit(c, OPERATOR, sends, swarm.clock.now()))
    urgent = send(swarm, priority="urgent")
    seen = look(swarm)
    assert (len(seen.open_handoffs), seen.more_open_handoffs) == (500, 201)
    assert seen.open_handoffs[0].id == urgent


# -- what became of what was sent -----------------------------------------------------------------------------


def test_a_sender_is_told_what_became_of_what_it_sent_until_a_good_session_has_seen_it(swarm):
    id = send(swarm, "game", by="studio")
    assert look(swarm).sent == ()
    swarm.clock.go(minutes=1)
    swarm.call("handoff_complete", id=id, reply="done", as_="game")
    swarm.clock.go(minutes=1)
    assert [h.id for h in look(swarm).sent] == [id]

    async def fail(part):
        return part.done("failed")

    swarm.play("studio", fail)
    swarm.clock.go(minutes=1)
    assert [h.id for h in look(swarm).sent] == [id]
    swarm.play("studio", nothing)
    swarm.clock.go(minutes=1)
    assert look(swarm).sent == ()


def test_what_happens_while_a_session_runs_is_told_to_the_next(swarm):
    id = send(swarm, "game", by="studio")

    async def meanwhile(part):
        swarm.clock.go(minutes=1)
        swarm.call("handoff_complete", id=id, as_="game")

    swarm.clock.go(minutes=1)
    swarm.play("studio", meanwhile)
    assert [h.id for h in look(swarm).sent] == [id]


def test_a_question_is_told_until_it_is_answered(swarm):
    id = send(swarm, "game", by="studio")
    swarm.call("handoff_ask", id=id, text="which?", as_="game")
    swarm.clock.go(days=60)
    swarm.play("studio", nothing)
    assert [h.id for h in look(swarm).sent] == [id]
    swarm.call("handoff_answer", id=id, text="the red one", as_="studio")
    swarm.clock.go(minutes=1)
    assert look(swarm).sent == ()


def test_a_day_past_due_the_sender_is_told(swarm):
    due = swarm.clock.now() + HOUR
    id = send(swarm, "game", by="studio", due=at(due))
    swarm.play("studio", nothing)
    swarm.clock.wall = due + DAY
    assert look(swarm).sent == ()
    swarm.clock.go(seconds=1)
    assert [h.id for h in look(swarm).sent] == [id]


def test_what_expires_is_told_to_the_sender(swarm):
    id = send(swarm, "game", by="studio", expires=at(swarm.clock.now() + HOUR))
    swarm.clock.go(hours=2)
    expire = [MoveHandoff(id=id, move=Move.EXPIRE)]
    swarm.write(lambda c: commit.commit(c, Actor(by="system"), expire, swarm.clock.now()))
    (told,) = look(swarm).sent
    assert (told.status, told.last.by) == ("expired", "system")


def test_an_urgent_word_is_not_pushed_out_by_many_moves(swarm):
    asked = send(swarm, "game", by="studio")
    swarm.call("handoff_ask", id=asked, text="which?", as_="game")
    swarm.clock.go(minutes=1)
    actor = Actor(by="studio#1", agent="studio")
    sends = [SendHandoff(id=n, to="game", text="t") for n in range(1000, 1300)]
    ends = [MoveHandoff(id=n, move=Move.CANCEL) for n in range(1000, 1300)]
    swarm.write(lambda c: commit.commit(c, actor, [*sends, *ends], swarm.clock.now()))
    assert asked in [h.id for h in look(swarm).sent]


# -- below --------------------------------------------------------------------------------------------------


def test_the_agents_directly_below_are_shown_with_state_keys_and_reports(swarm):
    swarm.change("game", description="A game.")
    swarm.call("ctx_set", agent="game", key="k", value="v")
    send(swarm, "game")
    waiting = send(swarm, "game")
    swarm.call("handoff_ask", id=waiting, text="?", as_="game")
    swarm.call("report", text="all well", as_="game")
    swarm.play("game", nothing)
    art, game = look(swarm).below
    assert (art.agent, art.last_outcome) == ("art", None)
    assert (game.description, game.last_outcome, game.open_handoffs) == ("A game.", "no_change", 2)
    assert [key.key for key in game.keys] == ["k"]
    assert [report.text for report in game.reports] == ["all well"]
    assert [b.agent for b in look(swarm, "house").below] == ["garage", "studio"]


def test_reports_that_went_to_another_parent_are_not_shown_to_the_new_one(swarm):
    swarm.call("report", text="for studio only", as_="game")
    swarm.change("game", parent="garage")
    swarm.call("report", text="for garage", as_="game")
    (game,) = look(swarm, "garage").below
    assert [report.text for report in game.reports] == ["for garage"]


# -- the last session ---------------------------------------------------------------------------------------


def test_refusals_superseded_acts_and_the_draft_of_the_last_session_are_told(swarm):
    async def script(part):
        await part.act("ctx_set", key="good", value="v")
        await part.refused("handoff_send", to="house", text="up")
        return part.done("failed", reason="exit status 1")

    row = swarm.play("studio", script)
    after = look(swarm).aftermath
    assert (after.session, after.outcome, after.reason) == (row["id"], "failed", "exit status 1")
    assert after.draft == ("ctx_set studio/good",)
    assert after.refusals == ("handoff_send house: no agent named 'house' stands below studio",)


def test_the_running_session_is_not_its_own_last(swarm):
    async def script(part):
        assert look(swarm, session=part.request.session).aftermath is None

    swarm.play("studio", script)
    assert look(swarm).last_outcome == "no_change"
    swarm.play("game", nothing, mode="no_commit")
    assert look(swarm, "game").aftermath is None


def test_sessions_that_never_started_are_no_last_session(swarm):
    id = swarm.queue("studio")
    swarm.control.cancel(id, "cancelled")
    assert look(swarm).aftermath is None
    assert look(swarm).last_started is None


# -- stable -------------------------------------------------------------------------------------------------


def test_the_same_state_gives_the_same_snapshot(swarm):
    for number in range(50):
        swarm.call("ctx_set", agent="studio", key=f"k{number}", value="v")
    assert look(swarm) == look(swarm)
    assert [key.key for key in look(swarm).keys] == sorted(f"k{number}" for number in range(50))


def test_each_agent_has_a_fence_of_its_own_that_stays(swarm):
    assert look(swarm).fence != look(swarm, "game").fence
    assert len(look(swarm).fence) == 64
    before = look(swarm).fence
    swarm.close()
    swarm.open()
    assert look(swarm).fence == before


def test_what_was_shown_can_be_told_later(swarm):
    swarm.call("ctx_set", agent="game", key="k", value="v")
    id = send(swarm)
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="x")
    base = json.loads(shown(look(swarm)))
    assert (base["memory"], base["keys"], base["handoffs"], base["reports"]) == (
        {"MEMORY.md": 1}, [["game", "k", 1]], [id], [],
    )  # fmt: skip
