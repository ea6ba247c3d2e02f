"""Shared folders and subjects with a daemon and with programs: edits by people, `swarmd run --subject`, `--agent @NAME`."""

from __future__ import annotations

import asyncio
import json

import pytest

from swarmd.daemon.hand_edits import HandEdits
from swarmd.daemon.main import _owners
from swarmd.errors import BadInput, Busy
from tests.daemon.kit import until

SHARED = '[[memory.shared]]\nname = "team"\nwrite = true\n'

WRITES = """
import os, pathlib, subprocess
def swarmd(*words, check=True):
    done = subprocess.run(["swarmd", "memory", *words], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done
who = os.environ.get("SWARMD_SUBJECT", "nobody")
swarmd("append", "--agent", "@team", "MEMORY.md", f"{who} was here")
assert f"{who} was here" in swarmd("show", "--agent", "@team").stdout
pathlib.Path(os.environ["SWARMD_MEMORY"], "MEMORY.md").write_text(f"about {who}\\n")
pathlib.Path(os.environ["HOME"], "cache").write_text(who)
denied = swarmd("show", "--agent", "writer@bob", check=False)
assert denied.returncode == 3, denied
if who != "nobody":
    assert swarmd("append", "--agent", "writer", "MEMORY.md", "x", check=False).returncode == 3
    # By its owner's name it is its own copy.
    assert f"about {who}" in swarmd("show", "--agent", f"writer@{who}").stdout
"""


async def test_edits_of_people_are_found_in_every_kind_of_folder(swarm):
    swarm.agent("disk", more=SHARED)
    memory = swarm.places.state / "memory"
    async with swarm.up() as daemon:
        for owner in ("disk", "@team", "disk@alice", "@unlisted", "gone@alice"):
            (memory / owner).mkdir(exist_ok=True)
            (memory / owner / "MEMORY.md").write_text("by hand\n")
        edits = HandEdits(memory, daemon.store.folders)
        assert edits.look(_owners(daemon)) == ["disk", "@team", "disk@alice"]
        for owner in ("disk", "@team", "disk@alice"):
            assert (await swarm.ask("memory_show", agent=owner))["text"] == "by hand\n"
        assert edits.look(_owners(daemon)) == []


async def test_one_session_an_agent_whatever_it_is_about(swarm):
    swarm.agent("disk", "0 * * * *")
    swarm.stage.hold()
    async with swarm.up():
        first = asyncio.ensure_future(swarm.ask("run", agent="disk", subject="alice"))
        await until(lambda: swarm.stage.now == 1)
        with pytest.raises(Busy):
            await swarm.ask("run", agent="disk", subject="bob")
        await swarm.at("11:00:00")
        swarm.stage.release()
        assert (await first)["subject"] == "alice"
        await swarm.rest()
        assert swarm.slots() == [("11:00", "skipped", 1)]
        with pytest.raises(BadInput, match="a subject has"):
            await swarm.ask("run", agent="disk", subject="Alice!")


async def test_what_waited_is_about_the_same_subject_after_a_restart(swarm):
    swarm.agent("disk", part="fail", more='[limits]\nretries = 1\nretry_delay = "10m"\n')
    async with swarm.up():
        await swarm.ask("run", agent="disk", subject="alice")
    async with swarm.up():
        assert [row["subject"] for row in swarm.sessions() if row["state"] == "queued"] == ["alice"]
        swarm.clock.pass_(3600)
        await swarm.tick()
        assert [(row["subject"], row["state"]) for row in swarm.sessions()] == [("alice", "ended")] * 2


async def test_a_session_given_again_needs_no_subject_and_takes_none(swarm):
    swarm.agent("disk")
    async with swarm.up():
        first = await swarm.ask("run", agent="disk", subject="alice")
        again = await swarm.ask("run", agent="disk", mode="no_commit", from_session=first["id"])
        assert again["subject"] == "alice"
        with pytest.raises(BadInput, match="leave it out"):
            await swarm.ask("run", agent="disk", mode="no_commit", from_session=first["id"], subject="bob")


def test_programs_act_in_them_by_their_names(place):
    place.agent("writer", WRITES, more=SHARED)
    for subject in ("alice", "bob@example.com", None):
        words = ["--subject", subject] if subject else []
        done = place.swarmd("--json", "run", "writer", *words, check=False)
        document = json.loads(done.stdout)
        assert (document["outcome"], document["subject"]) == ("committed", subject), done.stderr
    memory = place.state / "memory"
    assert (memory / "@team" / "MEMORY.md").read_text() == (
        "alice was here\nbob@example.com was here\nnobody was here\n"
    )
    for folder, who in (
        ("writer@alice", "alice"),
        ("writer@bob@example.com", "bob@example.com"),
        ("writer", "nobody"),
    ):
        assert (memory / folder / "MEMORY.md").read_text() == f"about {who}\n"
        assert (place.state / "homes" / folder / "cache").read_text() == who
    assert place.swarmd("memory", "show", "writer@alice").stdout == "about alice\n"
    assert "about alice" not in place.swarmd("prompt", "writer").stdout
    assert "about alice" in place.swarmd("prompt", "writer", "--subject", "alice").stdout
    assert "bob@example.com" in place.swarmd("memory", "subjects", "writer").stdout
    assert "@team" in place.swarmd("memory", "shared").stdout
    assert place.swarmd("run", "writer", "--subject", "Alice", check=False).returncode == 2
    assert place.swarmd("memory", "show", "writer@../x", check=False).returncode == 2
    assert place.swarmd("memory", "show", "writer@nobody", check=False).returncode == 4
    place.swarmd("memory", "forget-subject", "writer", "alice")
    assert not (memory / "writer@alice").exists()
    assert place.swarmd("memory", "show", "writer@alice", check=False).returncode == 4
    assert place.swarmd("verify").returncode == 0
