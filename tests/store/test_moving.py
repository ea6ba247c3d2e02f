"""An agent under another name, and one that is forgotten."""

import pytest

from swarmd.errors import Busy, NotFound, Refused
from swarmd.store import trees


@pytest.fixture
def swarm(swarm):
    """studio's file was renamed to atelier.toml: atelier is in force, studio is absent."""
    swarm.call("ctx_set", agent="studio", key="k", value="v")
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="notes\n")
    swarm.call("memory_write", agent="studio", file="topics/a.md", text="a\n")
    swarm.call("handoff_send", to="studio", text="do it")
    swarm.call("handoff_send", to="game", text="do it", as_="studio")
    swarm.call("report", text="all well", as_="studio")

    async def fail(part):
        await part.act("ctx_set", key="draft", value="v")
        await part.act("handoff_send", to="game", text="from the draft")
        part.write("MEMORY.md", "from the draft\n")
        return part.done("failed")

    swarm.play("studio", fail)
    return swarm


def renamed_file(swarm):
    swarm.agent("atelier", "house")
    swarm.write(lambda c: trees.mark(c, "studio", None, swarm.clock.now()))
    (swarm.places.agents / "house.toml").write_text(
        'system_prompt = "x"\nrunner = { kind = "command", command = ["true"] }\n'
    )


def rename(swarm):
    """Without the files: what a look at them brings into force is not the question here."""
    swarm.control.reload = lambda **_: {}
    return swarm.call("rename", old="studio", new="atelier")


def test_all_that_was_the_olds_is_the_news(swarm):
    renamed_file(swarm)
    assert rename(swarm) == {"old": "studio", "new": "atelier"}
    assert swarm.value("atelier", "k") == "v"
    assert swarm.value("studio", "k") is None
    assert swarm.text("atelier") == "notes\n"
    assert swarm.text("atelier", "topics/a.md") == "a\n"
    assert not swarm.file("studio").parent.exists()
    assert [h["receiver"] for h in swarm.call("handoff_list", to="atelier")["items"]] == ["atelier"]
    assert [h["sender"] for h in swarm.call("handoff_list", from_="atelier")["items"]] == ["atelier"]
    assert swarm.call("report_list", from_="atelier")["items"][0]["text"] == "all well"
    assert swarm.call("session_list", agent="atelier")["items"][0]["outcome"] == "failed"
    assert swarm.call("ctx_history", agent="atelier", key="k")["items"][0]["value"] == "v"
    assert "studio" not in trees.tree_of(swarm.reader)
    assert swarm.call("verify")["ok"]


def test_how_far_its_memory_was_looked_through_goes_with_it_and_is_forgotten_with_it(swarm):
    def marks():
        return [(row["agent"], row["until_session"]) for row in swarm.rows("SELECT * FROM consolidated")]

    for name in ("studio", "atelier"):
        swarm.write(
            lambda c, name=name: c.execute("INSERT INTO consolidated VALUES (?, 3, '2026', NULL)", (name,))
        )
    renamed_file(swarm)
    rename(swarm)
    assert marks() == [("atelier", 3)]
    swarm.remove("atelier")
    swarm.call("forget", name="atelier")
    assert marks() == []


def test_its_draft_can_still_be_applied(swarm):
    swarm.change("game", parent="house")
    renamed_file(swarm)
    swarm.change("game", parent="atelier")
    rename(swarm)
    session = swarm.call("session_apply", session="atelier")
    assert session["draft"] == "applied"
    assert swarm.value("atelier", "draft") == "v"
    assert "from the draft" in swarm.text("atelier")


def test_a_name_with_state_of_its_own_is_not_mixed_in(swarm):
    renamed_file(swarm)
    swarm.call("ctx_set", agent="atelier", key="k", value="mine")
    before = swarm.dump()
    with pytest.raises(Refused, match="mixed"):
        rename(swarm)
    assert swarm.dump() == before


def test_a_file_that_still_stands_is_renamed_first(swarm):
    with pytest.raises(NotFound, match="rename its file"):
        rename(swarm)
    swarm.agent("atelier", "house")
    with pytest.raises(Refused, match="still has its file"):
        rename(swarm)


def test_a_session_under_way_is_waited_for(swarm):
    renamed_file(swarm)
    swarm.queue("studio")
    with pytest.raises(Busy):
        rename(swarm)


def test_an_agent_that_was_removed_is_forgotten_and_history_stays(swarm):
    swarm.call("memory_write", agent="game", file="MEMORY.md", text="a\n")  # the same text as studio's topic
    with pytest.raises(Refused, match="in force"):
        swarm.call("forget", name="studio")
    swarm.remove("studio")
    assert swarm.call("forget", name="studio") == {"name": "studio", "forgotten": True}
    for table in ("keys", "key_history", "heads", "revisions", "pending", "published", "agents"):
        column = "name" if table == "agents" else "agent"
        assert swarm.rows(f"SELECT * FROM {table} WHERE {column} = 'studio'") == [], table
    assert not swarm.file("studio").parent.exists()
    assert [row["data"] for row in swarm.rows("SELECT data FROM blobs")] == [b"a\n"]
    assert swarm.session(1)["draft"] == "discarded"
    assert swarm.call("handoff_list")["items"]
    with pytest.raises(NotFound):
        swarm.call("forget", name="studio")
    assert swarm.call("verify")["ok"]


def test_one_whose_session_still_runs_is_not_forgotten(swarm):
    async def script(part):
        swarm.remove("studio")
        with pytest.raises(Busy, match="runs"):
            swarm.call("forget", name="studio")

    swarm.play("studio", script)
