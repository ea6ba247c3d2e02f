"""Slots are claimed once; sessions end once, with what follows from how they ended."""

from datetime import timedelta
from functools import partial

import pytest

from swarmd.core.agent import Limits
from swarmd.core.changes import SetKey
from swarmd.errors import NotFound, Refused
from swarmd.store import holding, sessions, slots
from swarmd.store.slots import Claim
from tests.swarm import NOW

HOUR = timedelta(hours=1)
DRAFT = (SetKey(agent="studio", key="k", value="v"),)


def claim(swarm, *claims):
    return swarm.write(lambda c: slots.claim(c, claims, NOW))


def slot(at=NOW, decision="started", **facts):
    facts.setdefault("last", at)
    return Claim(agent="studio", slot=at, count=facts.pop("count", 1), decision=decision, reason="", **facts)


def start(swarm, id):
    row = sessions.row(swarm.reader, id)
    facts = dict.fromkeys(("token_hash", "definition", "prompt_hash", "prompt", "base"))
    facts |= {"depth": row["depth"], "cause_handoff": row["cause_handoff"]}
    return swarm.write(lambda c: sessions.start(c, id, swarm.clock.now(), facts))


def ended(swarm, outcome, agent="studio", *, limits=None, draft=(), started=True, **facts):
    """A session that ends so; its id and its retry's."""
    id = swarm.queue(agent, **facts)
    if started:
        start(swarm, id)
    retry = swarm.write(
        lambda c: sessions.end(
            c, id, outcome=outcome, reason="r", now=swarm.clock.now(), limits=limits, draft=draft
        )
    )
    swarm.clock.go(seconds=1)
    return id, retry


def paused(swarm):
    return [row["agent"] for row in swarm.rows("SELECT agent FROM pauses")]


# -- slots --------------------------------------------------------------------------------------------------


def test_a_slot_is_claimed_once(swarm):
    assert len(claim(swarm, slot())) == 1
    assert claim(swarm, slot(), slot(decision="skipped")) == []
    (row,) = swarm.rows("SELECT * FROM slots")
    assert (row["decision"], row["session"]) == ("started", 1)


def test_what_is_due_together_is_claimed_together(swarm):
    assert len(claim(swarm, *(slot(NOW + n * HOUR) for n in range(5)))) == 5
    (row,) = swarm.rows("SELECT handled_until FROM agents WHERE name = 'studio'")
    assert row["handled_until"] == (NOW + 4 * HOUR).strftime("%Y-%m-%dT%H:%M:%S.000000Z")


def test_a_skipped_or_missed_slot_queues_nothing_and_a_run_is_one_row(swarm):
    assert (
        claim(swarm, slot(decision="skipped"), slot(NOW + HOUR, "missed", last=NOW + 9 * HOUR, count=9)) == []
    )
    assert [(r["decision"], r["count"]) for r in swarm.rows("SELECT * FROM slots ORDER BY slot")] == [
        ("skipped", 1), ("missed", 9),
    ]  # fmt: skip


def test_a_deferred_slot_is_started_when_its_session_starts(swarm):
    (id,) = claim(swarm, slot(decision="deferred", not_before=NOW + HOUR))
    assert swarm.rows("SELECT decision FROM slots") == [{"decision": "deferred"}]
    start(swarm, id)
    assert swarm.rows("SELECT decision FROM slots") == [{"decision": "started"}]


def test_a_claimed_slot_whose_session_does_not_start_says_so(swarm):
    (id,) = claim(swarm, slot())
    swarm.write(lambda c: slots.redecide(c, id, "skipped", "paused"))
    assert swarm.rows("SELECT decision, reason, session FROM slots") == [
        {"decision": "skipped", "reason": "paused", "session": None}
    ]


# -- the life of a session ----------------------------------------------------------------------------------


def test_a_session_starts_once(swarm):
    id = swarm.queue("studio")
    assert start(swarm, id) == 1
    with pytest.raises(Refused, match="not queued"):
        start(swarm, id)


def test_a_session_ends_once(swarm):
    id, _ = ended(swarm, "committed")
    with pytest.raises(Refused, match="has ended already"):
        swarm.write(lambda c: sessions.end(c, id, outcome="failed", reason="", now=NOW))
    assert swarm.session(id)["outcome"] == "committed"


def test_a_dead_epoch_and_an_ended_session_are_refused(swarm):
    id = swarm.queue("studio")
    epoch = start(swarm, id)
    swarm.write(lambda c: sessions.still_running(c, id, epoch))
    with pytest.raises(Refused):
        swarm.write(lambda c: sessions.still_running(c, id, epoch + 1))
    swarm.write(lambda c: sessions.end(c, id, outcome="lost", reason="", now=NOW))
    with pytest.raises(Refused, match=r"has ended \(lost\)"):
        swarm.write(lambda c: sessions.still_running(c, id, epoch))


def test_an_unknown_session_is_not_found(swarm):
    with pytest.raises(NotFound):
        sessions.row(swarm.reader, 99)


# -- retries ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "retried"),
    [
        ("failed", True), ("timed_out", True), ("unavailable", True), ("lost", True),
        ("refused", False), ("cancelled", False), ("committed", False), ("no_change", False),
    ],
)  # fmt: skip
def test_only_what_may_go_better_is_retried(swarm, outcome, retried):
    _, retry = ended(swarm, outcome, limits=Limits(retries=1))
    assert (retry is not None) == retried


def test_a_retry_is_numbered_and_knows_what_it_retries(swarm):
    id, retry = ended(
        swarm, "failed", limits=Limits(retries=2, retry_delay_seconds=60), slot=NOW, cause_handoff=5, depth=2
    )
    row = sessions.row(swarm.reader, retry)
    assert (row["attempt"], row["retry_of"], row["trigger"], row["cause_handoff"], row["depth"]) == (
        2,
        id,
        "retry",
        5,
        2,
    )
    assert row["slot"] == sessions.row(swarm.reader, id)["slot"]
    assert row["not_before"] >= (NOW + timedelta(seconds=60)).isoformat()[:19]


def test_retries_end_at_their_limit_and_wait_longer_each_time(swarm):
    limits = Limits(retries=2, retry_delay_seconds=60)
    waits = []
    id = swarm.queue("studio")
    while id is not None:
        start(swarm, id)
        now = swarm.clock.now()
        end = partial(sessions.end, id=id, outcome="failed", reason="", now=now, limits=limits)
        id = swarm.write(end)
        if id is not None:
            due = sessions.row(swarm.reader, id)["not_before"]
            waits.append(due > (now + timedelta(seconds=60 * 2 ** len(waits))).isoformat()[:19])
    assert waits == [True, True]


def test_nothing_is_retried_after_a_checkpoint(swarm):
    id = swarm.queue("studio")
    start(swarm, id)
    swarm.write(lambda c: sessions.checkpointed(c, id, 1))
    assert (
        swarm.write(
            lambda c: sessions.end(c, id, outcome="failed", reason="", now=NOW, limits=Limits(retries=3))
        )
        is None
    )


def test_what_saves_nothing_is_neither_retried_nor_counted(swarm):
    limits = Limits(retries=3, pause_after_failures=1)
    _, retry = ended(swarm, "failed", limits=limits, mode="no_commit")
    assert retry is None
    assert paused(swarm) == []


# -- pause after failures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["failed", "timed_out", "refused"])
def test_an_agent_is_paused_after_failures_in_a_row(swarm, outcome):
    limits = Limits(pause_after_failures=3)
    for _ in range(2):
        ended(swarm, outcome, limits=limits)
    assert paused(swarm) == []
    ended(swarm, outcome, limits=limits)
    (row,) = swarm.rows("SELECT * FROM pauses")
    assert (row["agent"], row["by"], row["reason"]) == ("studio", "system", "3 failures in a row")


@pytest.mark.parametrize("outcome", ["unavailable", "cancelled", "lost"])
def test_what_is_not_the_agents_fault_is_never_counted(swarm, outcome):
    for _ in range(5):
        ended(swarm, outcome, limits=Limits(pause_after_failures=2))
    assert paused(swarm) == []


def test_what_is_not_counted_does_not_break_the_row_either(swarm):
    limits = Limits(pause_after_failures=2)
    for outcome in ("failed", "unavailable", "cancelled", "failed"):
        ended(swarm, outcome, limits=limits)
    assert paused(swarm) == ["studio"]


@pytest.mark.parametrize("good", ["committed", "no_change"])
def test_a_good_session_begins_the_count_anew(swarm, good):
    limits = Limits(pause_after_failures=2)
    for outcome in ("failed", good, "failed"):
        ended(swarm, outcome, limits=limits)
    assert paused(swarm) == []


def test_after_a_resume_the_count_begins_anew(swarm):
    limits = Limits(pause_after_failures=2)
    for _ in range(2):
        ended(swarm, "failed", limits=limits)
    swarm.write(lambda c: holding.resume(c, "studio", swarm.clock.now()))
    swarm.clock.go(seconds=1)
    ended(swarm, "failed", limits=limits)
    assert paused(swarm) == []
    ended(swarm, "failed", limits=limits)
    assert paused(swarm) == ["studio"]


def test_zero_means_never(swarm):
    for _ in range(5):
        ended(swarm, "failed", limits=Limits(pause_after_failures=0))
    assert paused(swarm) == []


def test_a_pause_that_is_there_keeps_its_reason(swarm):
    swarm.write(lambda c: holding.pause(c, "studio", reason="holiday", by="operator:ada", now=NOW))
    ended(swarm, "failed", limits=Limits(pause_after_failures=1))
    assert swarm.rows("SELECT reason FROM pauses") == [{"reason": "holiday"}]


# -- drafts -------------------------------------------------------------------------------------------------


def test_a_change_set_that_was_not_committed_is_kept(swarm):
    id, _ = ended(swarm, "failed", draft=DRAFT)
    assert sessions.draft(swarm.reader, id) == list(DRAFT)
    assert sessions.newest_draft(swarm.reader, "studio") == id


def test_without_changes_there_is_no_draft(swarm):
    id, _ = ended(swarm, "failed")
    assert sessions.newest_draft(swarm.reader, "studio") is None
    assert swarm.session(id)["draft"] is None


def test_the_newest_open_draft_is_shown(swarm):
    first, _ = ended(swarm, "failed", draft=DRAFT)
    second, _ = ended(swarm, "failed", draft=DRAFT)
    assert sessions.newest_draft(swarm.reader, "studio") == second
    swarm.write(lambda c: sessions.close_draft(c, second, "discarded"))
    assert sessions.newest_draft(swarm.reader, "studio") == first


def test_a_draft_is_closed_once(swarm):
    id, _ = ended(swarm, "failed", draft=DRAFT)
    swarm.write(lambda c: sessions.close_draft(c, id, "applied"))
    with pytest.raises(NotFound, match="no open draft"):
        swarm.write(lambda c: sessions.close_draft(c, id, "discarded"))
    swarm.write(lambda c: sessions.close_draft(c, id, "discarded", strict=False))
    assert swarm.session(id)["draft"] == "applied"
    assert sessions.draft(swarm.reader, id) == list(DRAFT)  # its text stays in history
