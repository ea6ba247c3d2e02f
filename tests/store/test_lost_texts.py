"""A text that the store has lost is damage: never taken as empty, never published, healed from the file that has it."""

import pytest

from swarmd.errors import StoreUnusable


@pytest.fixture
def swarm(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="precious\n")
    return swarm


def lose(swarm, how="DELETE FROM blobs"):
    swarm.write(lambda c: c.execute(how))


WAYS = pytest.mark.parametrize(
    "how",
    [
        "DELETE FROM blobs",
        "UPDATE blobs SET data = CAST('preciouS' || char(10) AS BLOB)",
        "UPDATE blobs SET data = 'precious'",
    ],
)


@WAYS
def test_a_session_heals_the_text_from_the_published_file(swarm, how):
    lose(swarm, how)

    async def script(part):
        assert part.files == {"MEMORY.md": b"precious\n"}
        part.write("MEMORY.md", "precious\nmore\n")

    assert swarm.play("studio", script)["outcome"] == "committed"
    assert swarm.text("studio") == "precious\nmore\n"
    assert swarm.call("memory_show", agent="studio", rev=1)["text"] == "precious\n"
    healed = swarm.rows("SELECT target, detail FROM audit WHERE act = 'memory_heal'")
    assert [row["target"] for row in healed] == ["studio:MEMORY.md"]
    assert swarm.call("verify")["ok"]


@WAYS
def test_what_no_file_holds_fails_the_session_and_stays_until_a_person_puts_it_right(swarm, how):
    swarm.file("studio").unlink()
    lose(swarm, how)

    async def script(part):
        raise AssertionError("it must not start")

    session = swarm.play("studio", script)
    assert session["outcome"] == "failed"
    assert "the text of studio:MEMORY.md, revision 1, is gone or is not what it was" in session["reason"]
    assert "memory-damage:studio:MEMORY.md" in swarm.attention()
    assert not swarm.file("studio").exists()
    with pytest.raises(StoreUnusable, match="restore a backup"):
        swarm.call("memory_show", agent="studio")
    with pytest.raises(StoreUnusable, match="restore a backup"):
        swarm.call("memory_append", agent="studio", file="MEMORY.md", text="x")

    swarm.file("studio").write_text("from a person\n")
    assert swarm.play("studio")["outcome"] == "no_change"
    assert swarm.text("studio") == "from a person\n"
    assert "memory-damage:studio:MEMORY.md" not in swarm.attention()


def test_a_commit_over_a_text_lost_meanwhile_keeps_its_draft_and_the_file(swarm):
    async def script(part):
        part.write("MEMORY.md", "mine\n")
        swarm.file("studio").unlink()
        lose(swarm)

    session = swarm.play("studio", script)
    assert session["outcome"] == "failed"
    assert "studio:MEMORY.md" in session["reason"]
    assert session["draft"] == "open"
    assert not swarm.file("studio").exists()


def test_a_lost_text_of_an_earlier_revision_is_not_shown_as_empty(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="two\n")
    lose(swarm, "DELETE FROM blobs WHERE hash = (SELECT hash FROM revisions WHERE rev = 1)")
    with pytest.raises(Exception, match="revision 1 is not kept any more"):
        swarm.call("memory_show", agent="studio", rev=1)


def test_an_altered_text_of_an_earlier_revision_is_neither_shown_nor_brought_back(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="two\n")
    lose(swarm, "UPDATE blobs SET data = x'00' WHERE hash = (SELECT hash FROM revisions WHERE rev = 1)")
    for name, args in (("memory_show", {}), ("memory_restore", {"file": "MEMORY.md"})):
        with pytest.raises(Exception, match="revision 1 is not kept any more"):
            swarm.call(name, agent="studio", rev=1, **args)
    assert swarm.text("studio") == "two\n"
    assert not swarm.call("verify")["ok"]


def test_what_is_told_of_a_lost_text_says_what_puts_it_right(swarm):
    swarm.file("studio").unlink()
    lose(swarm)
    swarm.play("studio")
    (item,) = [i for i in swarm.call("attention")["items"] if i["id"] == "memory-damage:studio:MEMORY.md"]
    assert item["kind"] == "damage"
    assert item["next_step"].startswith("save the file in the memory folder: its old text heals the store")
    with pytest.raises(StoreUnusable, match="what that still holds is put back at the agent's next session"):
        swarm.call("memory_show", agent="studio")
    swarm.file("studio").write_text("precious\n")
    swarm.store.folders.settle("studio")
    assert "memory-damage:studio:MEMORY.md" not in swarm.attention()
