"""Edits of agent files, of swarmd.toml and of memory, while the daemon runs."""

from __future__ import annotations

import os
import shutil
import time

import pytest

from tests.config import saves
from tests.daemon.kit import MONDAY
from tests.daemon.processes import await_

TEXT = 'system_prompt = "You are a."\ndescription = "{word}"\nrunner = {{ kind = "command", command = ["true"] }}\n'


def described(place, word: str, name: str = "a") -> bool:
    return f'"description":"{word}"' in _json(place, name)


def test_every_way_of_saving_is_noticed_within_five_seconds(place):
    for number in range(len(saves.WAYS)):
        (place.agents / f"a{number}.toml").write_text(TEXT.format(word="first"))
    with place.serving() as served:
        slowest = 0.0
        for number, save in enumerate(saves.WAYS):
            name = f"a{number}"
            save(place.agents, name, TEXT.format(word="second"))
            began = time.monotonic()
            await_(lambda name=name: described(place, "second", name), lambda: served.log)
            slowest = max(slowest, time.monotonic() - began)
        assert slowest < 5.0
        assert len(place.rows("SELECT name FROM agents WHERE state = 'in_force'")) == len(saves.WAYS)


def test_a_broken_edit_keeps_the_last_good_one_and_the_others_reload(place):
    file = place.agents / "a.toml"
    for name in ("a", "b"):
        place.agent(name, "", 'every = "1h"')
    file.write_text(TEXT.format(word="good"))
    with place.serving() as served:
        file.write_text(TEXT.format(word="bad").replace('"You are a."', '"You are a.'))
        place.agent("b", "", 'every = "2h"')
        await_(lambda: "a.toml:1" in served.log, lambda: served.log)
        await_(lambda: '"every_seconds":7200' in _json(place, "b"), lambda: served.log)
        assert described(place, "good")
        assert "a.toml" in place.swarmd("attention").stdout
        file.write_text(TEXT.format(word="mended"))
        await_(lambda: described(place, "mended"), lambda: served.log)
        assert "a.toml" not in place.swarmd("attention").stdout
        assert served.log.count("a.toml:1") == 1, "a problem is said once"


@pytest.mark.parametrize("what", ["missing", "empty"])
def test_a_folder_that_is_missing_or_suddenly_empty_changes_nothing_and_raises_attention(place, what):
    for name in ("a", "b"):
        place.agent(name, "", 'every = "1h"')
    with place.serving() as served:
        kept = place.root / "kept"
        if what == "missing":
            place.agents.rename(kept)
        else:
            shutil.copytree(place.agents, kept)
            for file in list(place.agents.iterdir()):
                file.unlink()
        await_(lambda: place.rows("SELECT id FROM raised WHERE id = 'agents-folder'"), lambda: served.log)
        assert len(place.rows("SELECT name FROM agents WHERE state = 'in_force'")) == 2
        if what == "missing":
            kept.rename(place.agents)
        else:
            shutil.copytree(kept, place.agents, dirs_exist_ok=True)
        await_(lambda: not place.rows("SELECT id FROM raised"), lambda: served.log)


def test_a_persons_edit_of_a_memory_file_is_adopted_while_no_session_runs(place):
    script = "import os\nwith open(os.environ['SWARMD_MEMORY'] + '/MEMORY.md', 'a') as f:\n    f.write('- mine\\n')\n"
    place.agent("a", script, "")
    with place.serving() as served:
        place.swarmd("run", "a")
        file = place.state / "memory" / "a" / "MEMORY.md"
        await_(file.exists, lambda: served.log)
        with file.open("a") as opened:
            opened.write("- by hand\n")
        await_(lambda: len(place.rows("SELECT rev FROM revisions")) == 2, lambda: served.log)
        time.sleep(3)
        assert len(place.rows("SELECT rev FROM revisions")) == 2, "it does not feed itself"
        assert file.read_text() == "- mine\n- by hand\n"


def test_what_is_saved_while_a_session_runs_and_overwritten_is_in_history(place):
    place.agent("a", "import time\ntime.sleep(600)\n", 'every = "1s"')
    with place.serving() as served:
        place.swarmd("memory", "write", "a", "MEMORY.md", "l1\nl2\n")
        await_(lambda: place.rows("SELECT id FROM sessions WHERE state = 'running'"), lambda: served.log)
        file = place.state / "memory" / "a" / "MEMORY.md"
        for number, text in enumerate(("l1\nl2\nfirst\n", "l1\nl2\nsecond\n"), 2):
            file.write_text(text)
            await_(
                lambda n=number: place.rows("SELECT max(rev) AS rev FROM revisions")[0]["rev"] >= n,
                lambda: served.log,
            )
        assert place.rows("SELECT id FROM sessions WHERE state = 'running'")
        assert "first" in place.swarmd("memory", "show", "a", "--rev", "2").stdout


async def test_an_edit_takes_force_at_the_next_slot_and_a_changed_schedule_starts_afresh(swarm):
    swarm.agent("disk", "*/10 * * * *")
    async with swarm.up() as daemon:
        await swarm.at("10:40")
        swarm.agent("disk", "*/15 * * * *", part="fail")
        swarm.clock.go_to(MONDAY.replace(minute=44))
        await daemon.reload()
        await swarm.at("10:45")
        await swarm.at("10:50")
        assert swarm.slots() == [("10:40", "started", 1), ("10:45", "started", 1)]
        assert swarm.outcomes() == ["no_change", "failed"]


async def test_two_reloads_at_once_do_not_get_into_each_others_way(swarm):
    import asyncio

    async with swarm.up() as daemon:
        for number in range(20):
            swarm.agent(f"a{number}", "0 * * * *")
        await asyncio.gather(*(daemon.reload(force=True) for _ in range(10)))
        assert len(swarm._rows("SELECT name FROM agents")) == 20
        assert len(swarm._rows("SELECT * FROM agent_history")) == 20


async def test_hand_edits_are_looked_for_by_stat_alone(swarm, monkeypatch):
    from swarmd.daemon.hand_edits import HandEdits

    for name in ("a", "b"):
        swarm.agent(name)
    async with swarm.up() as daemon:
        memory = swarm.places.state / "memory"
        edits = HandEdits(memory, daemon.store.folders)
        assert edits.look(["a", "b"]) == []
        for name in ("a", "b"):
            (memory / name).mkdir()
            (memory / name / "MEMORY.md").write_text("- by hand\n")
            os.chmod(memory / name, 0o700)
        assert edits.look(["a", "b"]) == ["a", "b"]
        while edits.look(["a", "b"]):
            pass
        settled: list[str] = []
        monkeypatch.setattr(daemon.store.folders, "settle", settled.append)
        assert edits.look(["a", "b"]) == []
        assert settled == []
        assert len(swarm._rows("SELECT * FROM revisions")) == 2


def _json(place, name: str) -> str:
    rows = place.rows("SELECT d.json FROM agents a JOIN definitions d USING (hash) WHERE a.name = ?", name)
    return rows[0]["json"] if rows else ""
