"""`verify` names every kind of row that somebody has changed behind the program's back, and never breaks itself."""

import pytest


@pytest.fixture
def swarm(swarm):
    swarm.call("ctx_set", agent="studio", key="k", value="one")
    swarm.call("ctx_set", agent="studio", key="k", value="two")
    swarm.call("ctx_unset", agent="studio", key="k")
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="one\n")
    swarm.call("memory_append", agent="studio", file="MEMORY.md", text="two\n")
    id = swarm.call("handoff_send", to="studio", text="do it")["id"]
    swarm.call("handoff_change", id=id, priority="high")

    async def script(part):
        await part.act("handoff_ack", id=id)
        await part.act("handoff_send", to="game", text="part")
        await part.act("ctx_set", key="done", value="v")
        part.write("notes.md", "n\n")

    assert swarm.play("studio", script)["outcome"] == "committed"
    swarm.call("handoff_complete", id=id, reply="done", as_="studio")
    swarm.call("handoff_decline", id=id + 1, reply="no", as_="game")
    swarm.call("handoff_requeue", id=id + 1)
    return swarm


def found(swarm):
    return [item["text"] for item in swarm.call("verify")["items"]]


def test_a_store_with_something_of_everything_is_whole(swarm):
    assert found(swarm) == []


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("UPDATE keys SET value = 'x'", "the key studio/k is not what its history says"),
        ("DELETE FROM key_history WHERE version = 2", "the key studio/k is not what its history says"),
        ("DELETE FROM keys WHERE key = 'k'", "the key studio/k is not what its history says"),
        ("UPDATE key_history SET value = 'x' WHERE version = 1", "ctx_set by operator:ada wrote"),
        ("UPDATE heads SET rev = 1", "the newest revision of studio:MEMORY.md is not the one in force"),
        ("DELETE FROM revisions WHERE rev = 2", "the newest revision of studio:MEMORY.md"),
        ("UPDATE revisions SET by = 'game#1'", "memory_write by operator:ada wrote"),
        ("DELETE FROM blobs", "the text of studio:MEMORY.md revision 2 is damaged or gone"),
        ("UPDATE blobs SET data = 'text'", "the text of studio:MEMORY.md revision 1 is damaged or gone"),
        ("UPDATE handoffs SET status = 'open'", "handoff 1 is open; its thread says completed"),
        ("UPDATE handoffs SET text = 'x' WHERE sender = 'studio'", "commit by studio#1 wrote"),
        (
            "UPDATE handoff_entries SET text = 'x' WHERE kind = 'complete'",
            "handoff_complete by operator:ada as studio",
        ),
        ("UPDATE definitions SET text = '', json = '{'", "is not what its digest says"),
        ("UPDATE definitions SET json = replace(json, 'You are', 'I am')", "is not what its digest says"),
        ("DELETE FROM sessions", "changes of session 1 is of a session that there is not"),
        ("DROP TRIGGER audit_update", "the trigger audit_update is missing"),
        ("DROP INDEX slots_at", "the index slots_at is missing"),
        ("CREATE TABLE songs (title)", "the table songs in the database is none of swarmd's"),
        ("ALTER TABLE reports ADD COLUMN more", "the table reports in the database is not as swarmd made it"),
        ("PRAGMA user_version = 9", "the store has version 9"),
    ],
)
def test_each_change_behind_its_back_is_named(swarm, sql, told):
    swarm.write(lambda c: c.execute(sql))
    texts = found(swarm)
    assert any(told in text for text in texts), texts


def test_a_rename_and_a_removal_leave_the_store_whole(swarm, monkeypatch):
    monkeypatch.setattr(swarm.control, "reload", lambda **_: {})
    swarm.remove("studio")
    swarm.agent("atelier", "house")
    swarm.call("rename", old="studio", new="atelier")
    assert found(swarm) == []
    swarm.call("ctx_set", agent="atelier", key="k", value="new")
    swarm.remove("atelier")
    swarm.call("forget", name="atelier")
    assert found(swarm) == []
