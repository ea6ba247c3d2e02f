"""The one door: everything or nothing, in one transaction with its audit row."""

import pytest

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
from swarmd.core.handoffs import Move
from swarmd.core.world import Actor
from swarmd.store import audit
from swarmd.store.commit import commit
from swarmd.store.world import SqlWorld
from tests.swarm import NOW

STUDIO = Actor(by="studio#7", agent="studio", session=7, depth=1, cause_handoff=1)
OPERATOR = Actor(by="operator:ada")


@pytest.fixture
def swarm(swarm):
    send = [SendHandoff(id=n, to="studio", text="do it") for n in (1, 2, 3)]
    swarm.write(lambda c: commit(c, OPERATOR, send, NOW))
    swarm.write(lambda c: commit(c, OPERATOR, [SetKey(agent="studio", key="old", value="v")], NOW))
    return swarm


ALL = (
    SetKey(agent="studio", key="status", value="POLISH", seen=0),
    SetKey(agent="game", key="status", value="go", seen=0),
    UnsetKey(agent="studio", key="old", seen=1),
    MoveHandoff(id=1, move=Move.COMPLETE, text="done"),
    MoveHandoff(id=2, move=Move.ASK, text="which?"),
    SendHandoff(id=10, to="game", text="a", priority="high", due=NOW, dedupe="d"),
    SendHandoff(id=11, to="art", text="b"),
    ChangeHandoff(id=11, priority="low"),
    WriteMemory(agent="studio", path="MEMORY.md", data=b"notes\n"),
    AppendMemory(agent="studio", path="log.md", text="one"),
    Report(text="all well"),
)


def test_every_kind_of_change_is_written_and_read_back(swarm):
    done = swarm.write(lambda c: commit(c, STUDIO, ALL, NOW, target="studio"))
    assert [v.decision for v in done.folded.verdicts] == ["done"] * len(ALL)
    assert done.memory_of == {"studio"}
    world = SqlWorld(swarm.reader, NOW)
    assert world.key("studio", "status").value == "POLISH"
    assert world.key("studio", "old").value is None
    assert [key.key for key in world.keys("studio")] == ["status"]
    first = world.handoff(1)
    assert (first.status, first.last.text, first.last.by) == ("completed", "done", "studio#7")
    sent = world.handoff(10)
    assert (sent.sender, sent.depth, sent.cause.session, sent.cause.handoff, sent.due) == (
        "studio",
        2,
        7,
        1,
        NOW,
    )
    assert world.handoff(11).priority == "low"
    assert world.document("studio", "MEMORY.md").data == b"notes\n"
    assert world.revision("studio", "log.md", 1) == b"one\n"
    assert world.sent_in_session(7) == 2
    assert world.open_with_dedupe("studio", "game", "d").id == 10
    (report,) = swarm.rows("SELECT * FROM reports")
    assert (report["agent"], report["parent"], report["session"]) == ("studio", "house", 7)


def test_after_a_refusal_nothing_at_all_has_changed(swarm):
    before = swarm.dump()
    for bad in (
        SendHandoff(id=12, to="garage", text="across"),
        SetKey(agent="house", key="k", value="up"),
        WriteMemory(agent="game", path="MEMORY.md", data=b"x"),
        MoveHandoff(id=99, move=Move.ACK),
        WriteMemory(agent="studio", path="archive/x.md", data=b"x"),
    ):
        for changes in ((bad, *ALL), (*ALL, bad), (*ALL[:5], bad, *ALL[5:])):
            done = swarm.write(lambda c, changes=changes: commit(c, STUDIO, changes, NOW))
            assert len(done.refusals) == 1
            assert not done.changed
            assert swarm.dump() == before


def test_all_reasons_are_given(swarm):
    bad = [SendHandoff(id=12, to="garage", text="x"), SetKey(agent="house", key="k", value="v"), *ALL]
    done = swarm.write(lambda c: commit(c, STUDIO, bad, NOW))
    assert len(done.refusals) == 2


def test_a_fault_in_the_middle_leaves_nothing(swarm):
    before = swarm.dump()

    def work(connection):
        commit(connection, STUDIO, ALL, NOW)
        raise RuntimeError("after the commit, before the COMMIT")

    with pytest.raises(RuntimeError):
        swarm.write(work)
    assert swarm.dump() == before


def test_what_a_session_wrote_is_kept_change_by_change(swarm):
    swarm.write(lambda c: commit(c, STUDIO, ALL, NOW, part=2))
    rows = swarm.rows("SELECT * FROM changes WHERE session = 7 ORDER BY seq")
    assert [row["seq"] for row in rows] == list(range(1, len(ALL) + 1))
    assert {row["part"] for row in rows} == {2}
    assert rows[0]["act"] == "ctx_set"
    assert (rows[0]["target"], rows[0]["before"], rows[0]["after"]) == ("studio/status", None, "POLISH")
    assert (rows[3]["act"], rows[3]["before"], rows[3]["after"]) == ("handoff_complete", "open", "completed")
    assert rows[10]["effect"] == '[{"report": 1}]'


def test_the_audit_has_one_row_a_commit_and_names_the_session(swarm):
    last, _ = audit.head(swarm.reader)
    swarm.write(lambda c: commit(c, STUDIO, ALL, NOW, target="studio"))
    (row,) = swarm.rows("SELECT * FROM audit WHERE seq > ?", last)
    assert (row["by"], row["act"], row["target"], row["session"]) == ("studio#7", "commit", "studio", 7)
    assert audit.faults(swarm.reader) == []


def test_an_operators_act_that_does_nothing_leaves_no_row(swarm):
    last, _ = audit.head(swarm.reader)
    swarm.write(lambda c: commit(c, OPERATOR, [SetKey(agent="studio", key="old", value="v")], NOW))
    assert audit.head(swarm.reader)[0] == last
    swarm.write(lambda c: commit(c, OPERATOR, [], NOW, act="memory_take", always_told=True))
    assert audit.head(swarm.reader)[0] == last + 1


def test_the_history_of_a_key_has_every_value(swarm):
    for value in ("a", "b"):
        swarm.write(
            lambda c, value=value: commit(c, OPERATOR, [SetKey(agent="studio", key="old", value=value)], NOW)
        )
    rows = swarm.rows("SELECT version, value FROM key_history WHERE key = 'old' ORDER BY version")
    assert [(row["version"], row["value"]) for row in rows] == [(1, "v"), (2, "a"), (3, "b")]


def test_a_number_that_is_there_is_never_written_over(swarm):
    before = swarm.handoff(1)
    done = swarm.write(lambda c: commit(c, OPERATOR, [SendHandoff(id=1, to="game", text="other")], NOW))
    assert done.folded.verdicts[0].decision == "superseded"
    assert swarm.handoff(1) == before
