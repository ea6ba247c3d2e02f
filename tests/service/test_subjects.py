"""What operators see of shared folders and subjects, and what is left when a subject is forgotten."""

from __future__ import annotations

import json

import pytest

from swarmd.core.agent import MemoryRules, SharedFolder
from swarmd.errors import BadInput, Busy, NotFound, Refused
from swarmd.store import trees

SECRET = "alice likes jazz"


async def learns(part):
    part.desk.event("text", {"text": SECRET})
    part.write("MEMORY.md", f"{SECRET}\n")
    await part.act("ctx_set", key="seen", value="one")


async def fails(part):
    part.write("MEMORY.md", f"{SECRET}, and blues\n")
    await part.act("fail", reason=SECRET)


@pytest.fixture
def swarm(swarm):
    swarm.change(
        "game",
        memory=MemoryRules(
            shared=(
                SharedFolder(
                    name="team",
                    write=True,
                ),
            )
        ),
    )
    swarm.change("art", memory=MemoryRules(shared=(SharedFolder(name="team"), SharedFolder(name="rules"))))
    swarm.call("memory_write", agent="@team", file="MEMORY.md", text="ours\n")
    for subject in ("alice", "bob"):
        swarm.play("game", learns, subject=subject)
    return swarm


def everything(swarm) -> str:
    """All rows of the store, and all files of the state."""
    rows = repr(swarm.dump())
    files = [f.read_bytes().decode("utf-8", "replace") for f in swarm.places.state.rglob("*") if f.is_file() and
             f.suffix not in (".db", ".db-wal", ".db-shm")]  # fmt: skip
    return rows + "".join(files)


# -- looking ----------------------------------------------------------------------------------------------------


def test_an_agents_subjects_are_listed_with_what_is_kept_of_each(swarm):
    swarm.call("memory_write", agent="game@carol", file="MEMORY.md", text="seeded by hand\n")
    swarm.play("game", subject="dave")
    found = {row["subject"]: row for row in swarm.call("memory_subjects", agent="game")["items"]}
    assert list(found) == ["alice", "bob", "carol", "dave"]
    assert (found["alice"]["files"], found["alice"]["bytes"], found["alice"]["sessions"]) == (1, 17, 1)
    assert (found["carol"]["sessions"], found["carol"]["last_session"]) == (0, None)
    assert (found["dave"]["files"], found["dave"]["owner"]) == (0, "game@dave")
    assert swarm.call("memory_subjects", agent="art")["items"] == []
    with pytest.raises(Refused):
        swarm.call("memory_subjects", agent="game", as_="studio")


def test_shared_folders_are_listed_with_who_has_them(swarm):
    found = swarm.call("memory_shared")["items"]
    assert [(row["name"], row["agents"], row["writers"], row["files"]) for row in found] == [
        ("rules", ["art"], [], 0),
        ("team", ["art", "game"], ["game"], 1),
    ]


@pytest.mark.parametrize(
    ("owner", "error"),
    [
        ("@nothing", NotFound), ("game@nobody", NotFound), ("nobody@alice", NotFound), ("nobody", NotFound),
        ("game@../../etc", NotFound), ("@../x", NotFound), ("../x", NotFound),
    ],
)  # fmt: skip
def test_what_is_nobodys_is_not_found_and_makes_no_folder(swarm, owner, error):
    before = sorted(p.name for p in (swarm.places.state / "memory").iterdir())
    for call, args in (("memory_list", {}), ("memory_show", {}), ("memory_history", {})):
        with pytest.raises(error):
            swarm.call(call, agent=owner, **args)
    if owner != "game@nobody":  # an operator may begin a subject's notes
        with pytest.raises((NotFound, Refused)):
            swarm.call("memory_write", agent=owner, file="MEMORY.md", text="x")
    assert sorted(p.name for p in (swarm.places.state / "memory").iterdir()) == before


def test_a_folder_that_everybody_has_left_is_still_read_and_not_written(swarm):
    for name in ("game", "art"):
        swarm.change(name, memory=MemoryRules())
    assert swarm.call("memory_show", agent="@team")["text"] == "ours\n"
    with pytest.raises(NotFound, match="no agent has a shared folder 'team'"):
        swarm.call("memory_append", agent="@team", file="MEMORY.md", text="x")


def test_an_operator_who_acts_as_an_agent_has_its_rights_to_folders_and_to_no_subject(swarm):
    swarm.call("memory_append", agent="@team", file="MEMORY.md", text="as game", as_="game")
    with pytest.raises(Refused, match="read-only for art"):
        swarm.call("memory_append", agent="@team", file="MEMORY.md", text="x", as_="art")
    with pytest.raises(Refused):
        swarm.call("memory_show", agent="@team", as_="studio")
    with pytest.raises(Refused):
        swarm.call("memory_show", agent="game@alice", as_="game")


def test_every_read_and_act_on_memory_works_for_every_owner(swarm):
    for owner in ("@team", "game@alice", "game"):
        swarm.call("memory_write", agent=owner, file="a.md", text="one\n")
        swarm.call("memory_write", agent=owner, file="a.md", text="two\n")
        assert [row["rev"] for row in swarm.call("memory_history", agent=owner, file="a.md")["items"]] == [
            2,
            1,
        ]
        assert "+two" in swarm.call("memory_diff", agent=owner, file="a.md", rev=1)["diff"]
        assert swarm.call("memory_blame", agent=owner, file="a.md")["lines"][0]["rev"] == 2
        assert swarm.call("memory_restore", agent=owner, file="a.md", rev=1)["rev"] == 3
        assert swarm.text(owner, "a.md") == "one\n"
        swarm.call("memory_delete", agent=owner, file="a.md")
        assert not swarm.file(owner, "a.md").exists()
    assert swarm.call("verify")["items"] == []


def test_prompts_and_dry_runs_of_a_subject(swarm):
    assert SECRET in swarm.call("prompt", agent="game", subject="alice")["user"]
    assert SECRET not in swarm.call("prompt", agent="game")["user"]
    dry = swarm.call("run", agent="game", mode="dry_run", subject="alice")
    assert (dry["outcome"], dry["subject"]) == ("dry_run", "alice")
    for subject in ("Alice", "../x", "", 7):
        for call, args in (("prompt", {}), ("run", {"mode": "dry_run"})):
            with pytest.raises(BadInput):
                swarm.call(call, agent="game", subject=subject, **args)


def test_the_log_of_an_agent_has_what_was_done_to_its_subjects_folders(swarm):
    swarm.call("memory_write", agent="game@alice", file="x.md", text="x")
    assert any(row.get("target") == "game@alice:x.md" for row in swarm.call("log", agent="game")["items"])


# -- forgetting -------------------------------------------------------------------------------------------------


def test_nothing_that_was_kept_about_a_forgotten_subject_is_left(swarm):
    failed = swarm.play("game", fails, subject="alice")
    swarm.file("game@alice", "odd\udcff.md").write_text(SECRET)  # no file that could be adopted
    home = swarm.places.state / "homes" / "game@alice"
    home.mkdir()
    (home / ".history").write_text(SECRET)
    assert SECRET in everything(swarm)
    done = swarm.call("forget_subject", agent="game", subject="alice")
    assert (done["sessions"], done["forgotten"]) == (2, True)
    assert swarm.text("game@bob") == f"{SECRET}\n"  # of the same words, but bob's
    swarm.call("forget_subject", agent="game", subject="bob")
    assert SECRET not in everything(swarm)
    assert not swarm.file("game@alice").parent.exists()
    assert not home.exists()
    shown = swarm.session(failed["id"])
    assert (shown["outcome"], shown["subject"], shown["reason"], shown["draft"]) == (
        "failed",
        "-",
        "",
        "discarded",
    )
    assert swarm.call("memory_subjects", agent="game")["items"] == []
    assert swarm.call("verify")["items"] == []
    assert [row["act"] for row in swarm.rows("SELECT act, target FROM audit ORDER BY seq")][
        -1
    ] == "forget_subject"


def test_what_it_wrote_elsewhere_stays(swarm):
    swarm.call("forget_subject", agent="game", subject="alice")
    assert swarm.value("game", "seen") == "one"
    (session,) = [row for row in swarm.call("session_list", agent="game")["items"] if row["subject"] == "-"]
    assert [change["act"] for change in session["changes"]] == ["ctx_set"]


def test_a_forgotten_subject_may_begin_anew(swarm):
    swarm.call("forget_subject", agent="game", subject="alice")
    with pytest.raises(NotFound):
        swarm.call("forget_subject", agent="game", subject="alice")

    async def script(part):
        assert SECRET not in part.request.user
        assert "your first session" in part.request.user
        part.write("MEMORY.md", "anew\n")

    swarm.play("game", script, subject="alice")
    assert swarm.text("game@alice") == "anew\n"
    assert swarm.call("verify")["items"] == []


def test_one_whose_session_waits_is_not_forgotten(swarm):
    swarm.queue("game", subject="alice")
    with pytest.raises(Busy):
        swarm.call("forget_subject", agent="game", subject="alice")
    swarm.call("forget_subject", agent="game", subject="bob")


def test_forgetting_that_was_cut_off_is_done_again(swarm, monkeypatch):
    def died(owner):
        raise SystemExit

    monkeypatch.setattr(swarm.store.folders, "remove", died)
    with pytest.raises(SystemExit):
        swarm.call("forget_subject", agent="game", subject="alice")
    monkeypatch.undo()
    assert swarm.file("game@alice").exists()
    swarm.call("forget_subject", agent="game", subject="alice")
    assert not swarm.file("game@alice").parent.exists()
    assert "alice" not in json.dumps(swarm.call("memory_subjects", agent="game"))


def test_what_an_edit_took_away_is_not_quoted_in_the_audit_of_a_subjects_folder(swarm):
    swarm.file("game@alice").write_text("gone\n")
    swarm.store.folders.settle("game@alice")
    (row,) = swarm.rows("SELECT detail FROM audit WHERE act = 'memory_adopt'")
    assert SECRET not in row["detail"]
    assert json.loads(row["detail"])["removed_lines"] == 1


def test_an_agents_subjects_go_with_it_when_it_is_renamed_and_forgotten(swarm):
    swarm.play("game", fails, subject="bob")
    swarm.agent("toy", "studio")
    swarm.write(lambda c: trees.mark(c, "game", None, swarm.clock.now()))
    swarm.control.reload = lambda **_: {}
    swarm.call("rename", old="game", new="toy")
    assert swarm.text("toy@alice") == f"{SECRET}\n"
    assert not swarm.file("game@alice").parent.exists()
    assert [row["subject"] for row in swarm.call("memory_subjects", agent="toy")["items"]] == ["alice", "bob"]
    assert swarm.call("verify")["items"] == []
    swarm.call("session_apply", session=swarm.call("session_list", agent="toy")["items"][0]["id"])
    assert swarm.text("toy@bob") == f"{SECRET}, and blues\n"
    swarm.call("forget_subject", agent="toy", subject="alice")
    assert swarm.call("verify")["items"] == []
    swarm.remove("toy")
    swarm.call("forget", name="toy")
    assert not swarm.file("toy@bob").parent.exists()
    assert swarm.rows("SELECT * FROM revisions WHERE agent GLOB 'toy*' OR agent GLOB 'game*'") == []
    assert swarm.text("@team") == "ours\n"
    assert swarm.call("verify")["items"] == []


def test_a_new_name_that_has_subjects_of_its_own_is_not_given_another_agents(swarm):
    swarm.agent("toy", "studio")
    swarm.call("memory_write", agent="toy@zoe", file="MEMORY.md", text="x")
    swarm.write(lambda c: trees.mark(c, "game", None, swarm.clock.now()))
    swarm.control.reload = lambda **_: {}
    with pytest.raises(Refused, match="of its own"):
        swarm.call("rename", old="game", new="toy")
