"""What needs a person: items open and close by themselves, and stay off the list once they were seen."""

from datetime import timedelta

from swarmd.core.agent import Limits
from swarmd.store.raising import cure, raise_attention
from tests.swarm import nothing


async def fail(part):
    return part.done("failed", reason="exit status 1")


async def unavailable(part):
    return part.done("unavailable", reason="429")


def item(swarm, id):
    (found,) = [row for row in swarm.call("attention")["items"] if row["id"] == id]
    return found


def test_a_swarm_that_is_well_needs_nobody(swarm):
    swarm.play("studio")
    assert swarm.call("attention") == {"items": [], "next": None}


def test_failures_are_counted_from_the_first_and_cured_by_a_good_session(swarm):
    for _ in range(3):
        swarm.play("studio", fail)
        swarm.clock.go(minutes=5)
    found = item(swarm, "failing:studio")
    assert found["since"] == "2026-11-30T09:00:00.000000Z"
    assert found["text"].startswith(
        "session 3 failed: 3 in a row since 2026-11-30T09:00:00.000000Z; the last: exit status 1"
    )
    assert found["next_step"] == "swarmd session show 3"
    swarm.play("studio", nothing)
    assert swarm.attention() == []


async def test_a_fault_of_swarmds_own_at_the_start_is_told_with_the_words_of_the_exception(swarm):
    """Whoever reads the list is to know that it is no fault of the agent's."""

    def count(_text):
        raise TypeError("object of type 'NoneType' has no len()")

    fault = """it could not be started: TypeError("object of type 'NoneType' has no len()")"""
    await swarm.start(swarm.queue("studio"), count=count)
    assert item(swarm, "failing:studio")["text"] == f"session 1 failed: {fault}"
    swarm.clock.go(minutes=5)
    await swarm.start(swarm.queue("studio"), count=count)
    text = item(swarm, "failing:studio")["text"]
    assert text.startswith("session 2 failed: 2 in a row since ")
    assert text.endswith(f"; the last: {fault}")


def test_what_was_seen_stays_off_the_list_for_as_long_as_it_lasts(swarm):
    for script in (unavailable, unavailable, fail):
        swarm.play("studio", script)
        swarm.clock.go(minutes=5)
        if swarm.attention():
            swarm.call("attention_ack", id="failing:studio")
        assert swarm.attention() == []
    swarm.play("studio", nothing)
    swarm.clock.go(minutes=5)
    swarm.play("studio", fail)
    assert swarm.attention() == ["failing:studio"]


def test_a_refused_session_is_an_item_of_its_own(swarm):
    async def script(part):
        await part.act("handoff_send", to="game", text="t")
        swarm.change("game", parent="garage")

    swarm.play("studio", script)
    assert item(swarm, "refused:studio")["kind"] == "refused"
    swarm.play("studio", nothing)
    assert swarm.attention() == []


def test_what_was_only_cancelled_or_saved_nothing_is_no_item(swarm):
    swarm.control.cancel(swarm.queue("studio"), "cancelled")
    swarm.play("game", fail, mode="no_commit")
    assert swarm.attention() == []


def test_a_pause_is_an_item_also_the_systems_own(swarm):
    swarm.change("studio", limits=Limits(pause_after_failures=1))
    swarm.play("studio", fail)
    swarm.call("pause", agent="garage", reason="holiday")
    assert swarm.attention() == ["failing:studio", "paused:garage", "paused:studio"]
    assert "1 failures in a row" in item(swarm, "paused:studio")["text"]
    swarm.call("resume", agent="studio")
    swarm.call("resume", agent="garage")
    assert swarm.attention() == ["failing:studio"]


def test_a_handoff_two_days_past_due_is_the_operators(swarm):
    due = swarm.clock.now() + timedelta(hours=1)
    swarm.call("handoff_send", to="studio", text="t", due=due.isoformat())
    swarm.clock.wall = due + timedelta(days=2)
    assert swarm.attention() == []
    swarm.clock.go(seconds=1)
    assert swarm.attention() == ["overdue:1"]
    swarm.call("handoff_complete", id=1, as_="studio")
    assert swarm.attention() == []


def test_a_conflict_is_an_item_until_it_is_settled(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="a\n")

    async def script(part):
        part.write("MEMORY.md", "agent\n")
        swarm.file("studio").write_text("person\n")

    swarm.play("studio", script)
    assert swarm.attention() == ["conflict:studio"]
    assert item(swarm, "conflict:studio")["text"] == "1 conflict in the memory of studio (MEMORY.md)"
    id = swarm.call("memory_conflicts", agent="studio")["items"][0]["id"]
    swarm.call("memory_take", agent="studio", conflict=id, side="theirs")
    assert swarm.attention() == []


def test_a_roots_report_is_an_item_until_it_is_seen(swarm):
    swarm.call("report", text="the disk is full", as_="house")
    for number in range(300):
        swarm.call("report", text=str(number), as_="studio")
    assert item(swarm, "report:1")["text"] == "the disk is full"
    swarm.call("attention_ack", id="report:1")
    assert swarm.attention() == []
    assert swarm.call("report_list", from_="house")["items"]


def raised(swarm, text):
    swarm.write(
        lambda c: raise_attention(
            c, id="clock-jump", kind="clock", agent=None, text=text, next_step="look", now=swarm.clock.now()
        )
    )
    swarm.clock.go(minutes=1)


def test_what_is_raised_again_keeps_its_first_moment_until_it_is_seen_and_new(swarm):
    raised(swarm, "one")
    raised(swarm, "two")
    assert item(swarm, "clock-jump")["since"] == "2026-11-30T09:00:00.000000Z"
    assert item(swarm, "clock-jump")["text"] == "two"
    swarm.call("attention_ack", id="clock-jump")
    raised(swarm, "two")
    assert swarm.attention() == []
    raised(swarm, "three")
    assert item(swarm, "clock-jump")["since"] == "2026-11-30T09:03:00.000000Z"
    swarm.write(lambda c: cure(c, "clock-jump"))
    assert swarm.attention() == []


def test_many_items_that_were_seen_hide_none_that_is_new(swarm):
    swarm.agent("short-lived", "house")
    for _ in range(220):
        swarm.call("handoff_send", to="short-lived", text="t")
    swarm.remove("short-lived")
    for row in swarm.call("attention")["items"]:
        swarm.call("attention_ack", id=row["id"])
    swarm.clock.go(hours=1)
    swarm.play("studio", fail)
    assert swarm.attention() == ["failing:studio"]
    assert swarm.call("status")["attention"]["count"] == 1


def test_what_is_oldest_stands_first(swarm):
    swarm.play("studio", fail)
    swarm.clock.go(hours=1)
    swarm.call("pause", agent="garage")
    assert swarm.attention() == ["failing:studio", "paused:garage"]
    assert swarm.call("status")["attention"]["oldest"] == "2026-11-30T09:00:00.000000Z"


def test_a_state_that_others_may_look_into_is_on_the_list_until_it_is_closed(swarm):
    swarm.places.state.chmod(0o755)
    assert "mode 0755; 0700 is wanted" in item(swarm, "state:mode")["text"]
    assert swarm.call("status")["attention"]["kinds"] == {"state": 1}
    swarm.places.state.chmod(0o700)
    assert swarm.attention() == []
