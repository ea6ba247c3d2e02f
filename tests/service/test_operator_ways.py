"""The operator's ways without a daemon: reading by oneself, acting under the lock, files loaded when they have changed."""

import os
import pwd
import threading
from contextlib import closing
from pathlib import Path

import pytest

from swarmd.errors import NotFound, Refused, StoreUnusable
from swarmd.places import PlaceOptions, places
from swarmd.service import freshness
from swarmd.service.caller import hand_of, name_of
from swarmd.service.operator import open_local, open_reader, socket_client
from swarmd.store.opening import Lock
from swarmd.store.store import open_store
from tests.swarm import NOW

ME = f"operator:{name_of(os.getuid())}"
FILE = 'system_prompt = "x"\nschedule = "0 * * * *"\nrunner = {{ kind = "command", command = ["true"] }}\n{0}'


@pytest.fixture
def here(tmp_path, runtime_dir):
    named = PlaceOptions(
        agents=str(tmp_path / "agents.d"), state=str(tmp_path / "state"), runtime=str(runtime_dir)
    )
    here = places(named, {}, tmp_path, os.getuid())
    here.agents.mkdir()
    here.state.mkdir(mode=0o700)
    write(here, "studio")
    write(here, "game", 'parent = "studio"\n')
    return here


def write(here, name, more=""):
    text = more + FILE.format("") if more.startswith("parent") else FILE.format(more)
    (here.agents / f"{name}.toml").write_text(text)


def act(here, name, /, as_=None, **args):
    with open_local(here, as_) as local:
        return local.call(name, args)


def read(here, name, /, as_=None, **args):
    with closing((reader := open_reader(here)).connection):
        return reader.call(name, args, as_)


def agents(here):
    return [row["name"] for row in read(here, "agent_list")["items"]]


# -- reading ------------------------------------------------------------------------------------------------


def test_the_first_read_makes_the_store_and_loads_the_files(here):
    assert agents(here) == ["game", "studio"]
    assert (here.state / "swarmd.db").exists()


def test_files_that_have_changed_are_loaded_before_a_read(here):
    agents(here)
    write(here, "art", 'parent = "studio"\n')
    assert agents(here) == ["art", "game", "studio"]
    write(here, "art", 'parent = "studio"\nenabled = false\n')
    (row,) = [row for row in read(here, "agent_list")["items"] if row["name"] == "art"]
    assert row["enabled"] is False


def test_a_bad_edit_leaves_the_last_good_one_in_force_and_is_told(here):
    agents(here)
    write(here, "game", 'parent = "studoi"\n')
    (row,) = [row for row in read(here, "agent_list")["items"] if row["name"] == "game"]
    assert row["parent"] == "studio"
    assert "studoi" in row["problem"]
    (item,) = read(here, "attention")["items"]
    assert (item["kind"], "did you mean" in item["text"]) == ("bad_file", True)


def test_a_read_that_finds_nothing_new_writes_nothing(here):
    agents(here)
    stat = (here.state / "swarmd.db").stat()
    before = (stat.st_mtime_ns, stat.st_size)
    for _ in range(3):
        agents(here)
    stat = (here.state / "swarmd.db").stat()
    assert (stat.st_mtime_ns, stat.st_size) == before


def test_while_a_daemon_has_the_state_a_read_shows_what_is_in_force(here):
    agents(here)
    with closing(open_store(here.state, lambda: NOW, operator="daemon")):
        write(here, "art", 'parent = "studio"\n')
        assert agents(here) == ["game", "studio"]
    assert agents(here) == ["art", "game", "studio"]


def test_a_reader_that_meets_a_quick_writer_shows_what_there_is(here, monkeypatch):
    monkeypatch.setattr("swarmd.service.operator.READERS_WAIT_SECONDS", 0.0)
    agents(here)
    write(here, "art", 'parent = "studio"\n')
    monkeypatch.setattr(
        "swarmd.store.opening.is_locked", lambda _: False
    )  # the lock is taken just after the look
    held = Lock(here.state)
    assert held.acquire()
    assert agents(here) == ["game", "studio"]
    held.release()


def test_without_a_state_there_is_nothing_to_read(here):
    here.state.rmdir()
    with pytest.raises(NotFound, match="no state"):
        open_reader(here)


def test_a_damaged_store_is_told_and_stays_as_it_is(here):
    agents(here)
    (here.state / "swarmd.db").write_bytes(b"no database" * 1000)
    with pytest.raises(StoreUnusable, match="damaged"):
        open_reader(here)
    with pytest.raises(StoreUnusable, match="damaged"):
        act(here, "ctx_set", agent="studio", key="k", value="v")
    assert (here.state / "swarmd.db").read_bytes() == b"no database" * 1000


def test_a_read_as_an_agent_sees_what_that_agent_sees(here):
    assert [row["name"] for row in read(here, "agent_list", as_="game")["items"]] == ["game"]
    with pytest.raises(Refused):
        read(here, "ctx_list", as_="game", agent="studio")
    with pytest.raises(NotFound, match="nobody can act as it"):
        read(here, "agent_list", as_="studoi")


# -- acting -------------------------------------------------------------------------------------------------


def test_what_is_done_without_a_daemon_is_recorded_by_name(here):
    act(here, "ctx_set", agent="studio", key="k", value="v")
    assert read(here, "ctx_get", agent="studio", key="k")["by"] == ME
    act(here, "ctx_set", as_="studio", agent="game", key="k", value="v")
    assert read(here, "ctx_get", agent="game", key="k")["by"] == f"{ME} as studio"
    act(here, "memory_append", agent="studio", file="MEMORY.md", text="one")
    assert (here.state / "memory/studio/MEMORY.md").read_text() == "one\n"


def test_authority_is_that_of_the_files_as_they_are_now(here):
    act(here, "handoff_send", as_="studio", to="game", text="t")
    write(here, "game")
    with pytest.raises(Refused, match="stands below studio"):
        act(here, "handoff_send", as_="studio", to="game", text="t")


def test_an_act_waits_for_another_and_not_for_ever(here):
    agents(here)
    held = Lock(here.state)
    assert held.acquire()
    threading.Timer(0.3, held.release).start()
    act(here, "ctx_set", agent="studio", key="k", value="v")
    daemon = open_store(here.state, lambda: NOW, operator="daemon")
    refused = pytest.raises(StoreUnusable, match="another swarmd has the state")
    with closing(daemon), refused, open_local(here, None, wait_seconds=0.0):
        pass


def test_without_state_and_files_there_is_nothing_to_act_on(here):
    here.state.rmdir()
    (here.agents / "studio.toml").unlink()
    (here.agents / "game.toml").unlink()
    here.agents.rmdir()
    with pytest.raises(NotFound, match="swarmd init"):
        act(here, "reload")
    assert not here.state.exists()


def test_many_at_once_lose_nothing(here):
    agents(here)
    errors = []

    def send(number):
        try:
            for n in range(10):
                act(here, "handoff_send", to="game", text=f"{number}.{n}")
        except Exception as error:  # noqa: BLE001 - told below, on the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=send, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len({row["text"] for row in read(here, "handoff_list")["items"]}) == 40


# -- reload -------------------------------------------------------------------------------------------------


def test_reload_tells_what_came_into_force(here):
    first = act(here, "reload")
    assert sorted(first["added"]) == ["game", "studio"]
    write(here, "game", 'parent = "studio"\ndescription = "A game."\n')
    assert act(here, "reload")["changed"] == ["game"]
    assert act(here, "reload")["changed"] == []
    assert [row["what"] for row in read(here, "agent_history", agent="game")["items"]] == ["changed", "added"]


def test_a_removed_file_takes_force_only_after_a_while(here):
    act(here, "reload")
    (here.agents / "game.toml").unlink()
    assert act(here, "reload")["absent"] == ["game"]
    assert agents(here) == ["game", "studio"]


def test_forgetting_an_agent_whose_file_is_just_gone_says_when_it_can_be(here):
    act(here, "reload")
    with pytest.raises(Refused, match=r"remove game\.toml first"):
        act(here, "forget", name="game")
    (here.agents / "game.toml").unlink()
    with pytest.raises(Refused, match=r"game\.toml is gone, .* try again in \d+ seconds"):
        act(here, "forget", name="game")


def test_an_empty_folder_changes_nothing_and_raises_attention(here):
    act(here, "reload")
    for path in here.agents.iterdir():
        path.unlink()
    assert agents(here) == ["game", "studio"]
    assert "agents-folder" in [item["id"] for item in read(here, "attention")["items"]]


def test_freshness_sees_every_kind_of_edit(here):
    seen = {freshness.fingerprint(here)}
    for change in (
        lambda: write(here, "art"),
        lambda: write(here, "art", "enabled = false\n"),
        lambda: (here.agents / "art.md").write_text("a prompt"),
        lambda: (here.agents / "art.toml").chmod(0o600),
        lambda: (here.agents / "art.toml").rename(here.agents / "kunst.toml"),
        (here.agents / "kunst.toml").unlink,
        lambda: here.config.write_text("[daemon]\nmax_sessions = 4\n"),
    ):
        change()
        seen.add(freshness.fingerprint(here))
    assert len(seen) == 8


# -- dry run ------------------------------------------------------------------------------------------------


def test_a_dry_run_of_an_edited_file_starts_and_writes_nothing(here):
    agents(here)
    text = FILE.format('description = "edited"\n').replace('["true"]', '["false", "--now"]')
    document = act(
        here, "run", agent="game", mode="dry_run", file_text=text, file_path=str(here.agents / "new.toml")
    )
    assert document["command_line"][1:] == ["--now"]
    assert read(here, "agent_show", agent="game")["definition"]["description"] == ""
    assert read(here, "session_list")["items"] == []


# -- the way to a daemon ------------------------------------------------------------------------------------


def test_without_a_daemon_there_is_no_way_to_one(here):
    with pytest.raises(ConnectionError):
        socket_client(here)


def test_status_does_not_take_a_command_for_a_daemon(here):
    agents(here)
    with open_local(here, None) as local:
        assert local.call("status", {})["daemon"]["running"] is False
    Path(here.runtime / "operator.sock").touch()
    with closing(open_store(here.state, lambda: NOW, operator="daemon")):
        assert read(here, "status")["daemon"]["running"] is True
    assert read(here, "status")["daemon"]["running"] is False


def test_who_edits_files_of_the_daemons_own_user_is_that_user_where_somebody_is_it(monkeypatch):
    account = pwd.getpwuid(0)
    shells = {0: "/bin/sh", 7: "/bin/bash", 8: "/usr/sbin/nologin"}

    def getpwuid(uid):
        names = {0: "root", 7: "ada", 8: "swarmd"}
        return pwd.struct_passwd((names[uid], *account[1:6], shells[uid]))

    monkeypatch.setattr(pwd, "getpwuid", getpwuid)
    assert [hand_of(uid) for uid in (0, 7, 8, 9)] == ["root", "ada", "unknown", "unknown"]
