"""The rule of schedules that follow the work, by itself: the step's bounds, what shortens and what lengthens a wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmd.core.adaptive import Ended, Work, after, after_all, begun, chosen, passed_over, says_work
from swarmd.core.agent import Adaptive, When

T0 = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
RULE = Adaptive(min_seconds=600, max_seconds=21600, work=("backlog",))
MINUTE = timedelta(minutes=1)
PENDING = Work(keys=("backlog",))


def played(*outcomes, rule=RULE, every=timedelta(hours=7)):
    """The pace after sessions that ended one after the other, and when the last of them did."""
    pace, ended = begun(rule, T0), T0
    for number, outcome in enumerate(outcomes, 1):
        ended = T0 + every * number
        pace = after(rule, pace, Ended(id=number, outcome=outcome, ended=ended))
    return pace, ended


def wait(*outcomes, work=Work(), rule=RULE):  # noqa: B008
    pace, ended = played(*outcomes, rule=rule)
    return (chosen(rule, pace, work, now=ended, handled=T0).next - ended) / MINUTE


def reason(*outcomes, work=Work(), late=0.0):  # noqa: B008
    pace, ended = played(*outcomes)
    return chosen(RULE, pace, work, now=ended + late * MINUTE, handled=T0).reason


@pytest.mark.parametrize(
    ("outcomes", "minutes"),
    [
        ([], 10),
        (["no_change"], 20), (["no_change"] * 2, 40), (["no_change"] * 5, 320), (["no_change"] * 6, 360),
        (["no_change"] * 50, 360),
        (["committed"], 10), (["no_change", "no_change", "committed"], 20), (["no_change", "no_change", "committed", "committed"], 10),
        (["no_change", "no_change", "failed"], 40), (["no_change", "no_change", *["timed_out", "lost", "unavailable", "refused"]], 40),
        (["no_change", "no_change", "cancelled"], 40),
    ],
)  # fmt: skip
def test_the_step_follows_what_became_of_the_sessions(outcomes, minutes):
    assert wait(*outcomes) == minutes


@pytest.mark.parametrize(
    "outcomes", [[], ["no_change"] * 9, ["committed"], ["failed", "no_change"], ["no_change", "cancelled"]]
)
def test_with_work_pending_only_the_least_is_waited(outcomes):
    assert wait(*outcomes, work=PENDING) == 10
    assert wait(*outcomes, work=Work(handoffs=3)) == 10


@pytest.mark.parametrize("outcome", ["failed", "refused", "timed_out", "lost", "unavailable"])
def test_work_does_not_bring_a_session_forward_after_one_that_went_wrong(outcome):
    assert wait("no_change", "no_change", outcome, work=PENDING) == 40
    assert wait("no_change", "no_change", outcome, "cancelled", work=PENDING) == 40, (
        "a cancellation says nothing"
    )
    assert wait("no_change", "no_change", outcome, "no_change", work=PENDING) == 10


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, False), ("", False), (" \n", False), ("0", False), ("false", False), ("False", False), ("no", False),
        ("none", False), ("null", False), ("[]", False), ("[ ]", False), ("{}", False), ('""', False),
        ("1", True), ("-1", True), ("0.5", True), ("true", True), ("[0]", True), ('{"a": 0}', True), ("backlog", True),
    ],
)  # fmt: skip
def test_which_values_of_a_key_say_that_work_is_pending(value, says):
    assert says_work(value) is says


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (reason(), "no session yet: 10m after the schedule came into force"),
        (reason("committed"), "committed: 10m after session 1"),
        (reason("no_change"), "no_change: 20m after session 1; sooner when a handoff comes or key backlog is set"),
        (reason("no_change", "no_change", "no_change"),
         "no_change 3 times: 1h20m after session 3; sooner when a handoff comes or key backlog is set"),
        (reason("no_change", work=PENDING), "key backlog is set: 10m after session 1"),
        (reason("no_change", work=Work(handoffs=1)), "1 open handoff: 10m after session 1"),
        (reason("no_change", work=Work(handoffs=2, keys=("backlog", "x"))),
         "2 open handoffs, key backlog, x is set: 10m after session 1"),
        (reason("no_change", work=PENDING, late=15), "key backlog is set: 10m after session 1, which is past"),
        (reason("failed", "failed"), "failed 2 times: 10m after session 2"),
        (reason("failed", work=PENDING),
         "failed: 10m after session 1; key backlog is set, which does not bring it forward until a session ends well"),
    ],
)  # fmt: skip
def test_the_reason_is_a_sentence_for_people(words, said):
    assert words == said


def test_work_that_comes_during_a_long_wait_brings_it_forward_to_now_at_most():
    pace, ended = played(*["no_change"] * 9)
    for minutes, expected in ((1, 10), (9, 10), (10, 10), (200, 200)):
        now = ended + minutes * MINUTE
        assert chosen(RULE, pace, PENDING, now=now, handled=T0).next == ended + expected * MINUTE


def test_a_slot_that_started_nothing_begins_the_wait_anew():
    pace, ended = played("no_change")
    later = ended + timedelta(days=3)
    found = chosen(RULE, passed_over(pace, later), Work(), now=later, handled=later)
    assert found.next == later + 20 * MINUTE
    assert found.reason.startswith("no_change: 20m after its last slot, which started nothing")


def test_a_clock_that_was_set_back_neither_repeats_a_slot_nor_waits_for_an_old_session():
    pace, ended = played("no_change")
    back = ended - timedelta(hours=2)
    assert chosen(RULE, pace, Work(), now=back, handled=T0).next == back + 20 * MINUTE
    assert chosen(RULE, pace, Work(), now=back, handled=ended).next == ended + timedelta(seconds=1)


def test_other_bounds_hold_the_step_from_the_next_choice_on():
    pace, ended = played(*["no_change"] * 9)
    tighter = Adaptive(min_seconds=60, max_seconds=1200)
    assert chosen(tighter, pace, Work(), now=ended, handled=T0).step_seconds == 1200


def test_its_text_is_short():
    assert RULE.text == When(adaptive=RULE).text == "adaptive 10m..6h"


# -- of any history ---------------------------------------------------------------------------------------------------

OUTCOMES = st.sampled_from(
    ["committed", "no_change", "failed", "refused", "timed_out", "lost", "unavailable", "cancelled"]
)
RULES = st.tuples(st.integers(1, 10**5), st.integers(0, 10**6)).map(
    lambda pair: Adaptive(min_seconds=float(pair[0]), max_seconds=float(sum(pair)), work=("backlog",))
)
WORK = st.builds(Work, handoffs=st.integers(0, 3), keys=st.sampled_from([(), ("backlog",)]))
SESSIONS = st.lists(st.tuples(OUTCOMES, st.integers(0, 10**9)), max_size=30).map(
    lambda rows: [
        Ended(id=n, outcome=outcome, ended=T0 + timedelta(milliseconds=after)) for n, (outcome, after) in enumerate(rows)
    ]
)  # fmt: skip


@given(RULES, SESSIONS, WORK, st.integers(0, 10**9), st.integers(-(10**9), 10**9))
def test_it_stays_in_its_bounds_whatever_happens(rule, sessions, work, now_ms, handled_ms):
    now, handled = T0 + timedelta(milliseconds=now_ms), T0 + timedelta(milliseconds=handled_ms)
    pace = after_all(rule, begun(rule, T0), sessions)
    found = chosen(rule, pace, work, now=now, handled=handled)
    assert rule.min_seconds <= found.step_seconds <= rule.max_seconds
    assert found.next >= now
    assert found.next > handled
    assert found.next.microsecond == 0
    assert (found.next - found.base).total_seconds() >= rule.min_seconds
    if handled < now:
        assert found.next <= now + timedelta(seconds=rule.max_seconds + 1)
    assert found.reason


@given(RULES, SESSIONS, WORK, st.integers(0, 10**9))
def test_it_is_the_same_each_time_and_in_whatever_order_rows_come(rule, sessions, work, now_ms):
    now = T0 + timedelta(milliseconds=now_ms)
    found = chosen(rule, after_all(rule, begun(rule, T0), sessions), work, now=now, handled=T0)
    again = chosen(rule, after_all(rule, begun(rule, T0), reversed(sessions)), work, now=now, handled=T0)
    assert found == again
    assert chosen(rule, found, work, now=now, handled=T0) == found, "looking again changes nothing"


@given(RULES, SESSIONS, WORK)
def test_work_never_makes_it_later_and_a_session_without_changes_never_sooner(rule, sessions, work):
    pace = after_all(rule, begun(rule, T0), sessions)
    now = pace.base
    idle = chosen(rule, pace, Work(), now=now, handled=T0)
    assert chosen(rule, pace, work, now=now, handled=T0).next <= idle.next
    one_more = after(rule, pace, Ended(id=99, outcome="no_change", ended=now))
    assert chosen(rule, one_more, Work(), now=now, handled=T0).next >= idle.next
    saved = after(rule, pace, Ended(id=99, outcome="committed", ended=now))
    assert chosen(rule, saved, Work(), now=now, handled=T0).next <= idle.next
