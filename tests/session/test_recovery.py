"""What a daemon that was killed leaves: the session is lost, its draft is not."""

import asyncio
import os
import shutil
from contextlib import suppress
from dataclasses import replace

import pytest

from swarmd.core.agent import Limits, Success
from swarmd.core.changes import SetKey, WriteMemory
from swarmd.core.wire import MemoryTree
from swarmd.runners import workspace
from swarmd.runners.memory_copy import materialize
from swarmd.session import journal, recovery
from swarmd.session.machine import host_of
from swarmd.session.recovery import recover
from swarmd.store.store import Store


class Killed(BaseException):
    """The daemon is gone, in the middle of a session."""


def killed(swarm, script, agent="studio", **facts):
    """Run a session up to the moment at which the daemon is killed; then start anew, as the next daemon does."""
    ids = []

    async def until(part):
        ids.append(part.request.session)
        materialize(str(copy_of(swarm, part.request.session)), part.request.memory, ())
        await script(part)
        raise Killed

    with pytest.raises(Killed):
        swarm.play(agent, until, **facts)
    swarm.close()
    swarm.open()
    lost = recover(swarm.store, host_of(swarm.places), swarm.clock.now())
    assert lost == ids
    return swarm.session(ids[0])


def killed_twice(swarm, monkeypatch, script):
    """As `killed`, and the recovery is killed too, before it has ended the session."""

    def dies(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(recovery, "_write", dies)
        with pytest.raises(Killed):
            killed(swarm, script)


def copy_of(swarm, id):
    return swarm.places.state / "sessions" / str(id) / "memory"


def edit(part, path, text):
    """The session's program edits its working copy; the next checkpoint sees it too."""
    part.write(path, text)
    place = copy_of(part.swarm, part.request.session) / path
    if text is None:
        place.unlink()
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def test_a_session_that_was_lost_has_its_draft_with_its_memory(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="old\n")

    async def script(part):
        await part.act("ctx_set", key="k", value="line one\u2028line two\x0b\x85 \U0001f680")
        await part.act("handoff_send", to="game", text="do it")
        edit(part, "MEMORY.md", "new\n")

    session = killed(swarm, script)
    assert (session["outcome"], session["reason"], session["draft"]) == (
        "lost",
        "the daemon died while it ran",
        "open",
    )
    assert [(c["act"], c["verdict"]) for c in session["changes"]] == [
        ("ctx_set", "not_written"), ("handoff_send", "not_written"), ("memory_write", "not_written"),
    ]  # fmt: skip
    assert swarm.value("studio", "k") is None
    swarm.call("session_apply", session="studio")
    assert swarm.value("studio", "k") == "line one\u2028line two\x0b\x85 \U0001f680"
    assert swarm.text("studio") == "new\n"
    assert swarm.handoff(1)["text"] == "do it"


def test_its_things_are_cleared_away_and_its_log_stays(swarm):
    async def script(part):
        (copy_of(swarm, part.request.session).parent / "output.log").write_text("hello\n")

    session = killed(swarm, script)
    folder = swarm.places.state / "sessions" / str(session["id"])
    assert sorted(path.name for path in folder.iterdir()) == ["acts.jsonl", "output.log"]
    assert swarm.call("session_log", session="studio")["output"] == "hello\n"


def test_nothing_of_it_stays_where_recovery_is_killed_too_and_its_draft_is_the_same(swarm, monkeypatch):
    async def script(part):
        edit(part, "MEMORY.md", "new\n")

    killed_twice(swarm, monkeypatch, script)
    folder = copy_of(swarm, 1).parent
    assert [path.name for path in folder.iterdir()] == ["acts.jsonl"]
    assert recover(swarm.store, host_of(swarm.places), swarm.clock.now()) == [1]
    assert [(c["act"], c["target"]) for c in swarm.session(1)["changes"]] == [
        ("memory_write", "studio:MEMORY.md")
    ]


@pytest.mark.parametrize("checkpointed", [False, True])
def test_of_a_large_file_the_journal_keeps_what_is_new_and_the_draft_is_whole(
    swarm, monkeypatch, checkpointed
):
    old = "".join(f"- line {number} of the notes\n" for number in range(10_000))
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text=old)
    before = f"{old}middle\n" if checkpointed else old

    async def script(part):
        if checkpointed:
            edit(part, "MEMORY.md", before)
            await part.checkpoint()
        edit(part, "MEMORY.md", f"{before}new\n")
        edit(part, "b.md", "b" * 10_000)

    killed_twice(swarm, monkeypatch, script)
    acts = copy_of(swarm, 1).parent / "acts.jsonl"
    assert 10_000 < acts.stat().st_size < 20_000
    assert recover(swarm.store, host_of(swarm.places), swarm.clock.now()) == [1]
    swarm.call("session_apply", session="studio")
    assert swarm.text("studio") == f"{before}new\n"
    assert swarm.text("studio", "b.md") == "b" * 10_000


def test_sessions_that_add_to_a_large_file_grow_by_what_they_add(swarm):
    old = "".join(f"- line {number} of the notes\n" for number in range(10_000))
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text=old)

    async def script(part):
        part.write("MEMORY.md", part.files["MEMORY.md"].decode() + "- one more\n")

    for _ in range(3):
        assert swarm.play("studio", script)["outcome"] == "committed"
    sizes = [path.stat().st_size for path in (swarm.places.state / "sessions").glob("*/acts.jsonl")]
    assert len(sizes) == 3
    assert max(sizes) < 2000


def test_a_difference_whose_base_is_gone_is_no_difference(tmp_path):
    base = b"line\n" * 2000
    grown = WriteMemory(agent="a", path="MEMORY.md", data=base + b"more\n", base=1)
    kept = [
        grown,
        replace(grown, path="new.md", base=0),
        replace(grown, path="gone.md", data=None),
        change("k"),
    ]
    made = journal.Journal(tmp_path)
    made.left(kept, lambda write: base if write.base else None)
    made.close()
    assert journal.left(tmp_path, lambda _: base) == kept
    for other in (None, b"x" + base, b""):
        assert journal.left(tmp_path, lambda _, other=other: other) is None


def test_what_a_checkpoint_saved_is_not_in_the_draft(swarm):
    async def script(part):
        await part.act("ctx_set", key="a", value="1")
        edit(part, "MEMORY.md", "one\n")
        await part.checkpoint()
        await part.act("ctx_set", key="b", value="2")
        edit(part, "MEMORY.md", "one\ntwo\n")

    session = killed(swarm, script)
    assert (session["checkpoints"], session["draft"]) == (1, "open")
    assert [(c["target"], c["verdict"]) for c in session["changes"]] == [
        ("studio/a", "done"), ("studio:MEMORY.md", "done"), ("studio/b", "not_written"), ("studio:MEMORY.md", "not_written"),
    ]  # fmt: skip
    assert swarm.live() == []
    swarm.call("session_apply", session="studio")
    assert (swarm.value("studio", "a"), swarm.value("studio", "b")) == ("1", "2")
    assert swarm.text("studio") == "one\ntwo\n"


def test_a_persons_line_that_a_checkpoint_merged_in_is_not_lost_with_the_draft(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="one\n")

    async def script(part):
        swarm.file("studio").write_text("one\nperson\n")
        edit(part, "MEMORY.md", "zero\none\n")
        await part.checkpoint()
        edit(part, "MEMORY.md", "minus one\nzero\none\n")

    killed(swarm, script)
    assert swarm.text("studio") == "zero\none\nperson\n"
    swarm.call("session_apply", session="studio")
    assert swarm.text("studio") == "minus one\nzero\none\nperson\n"


def test_a_checkpoint_that_was_announced_and_not_made_leaves_all_in_the_draft(swarm):
    async def script(part):
        await part.act("ctx_set", key="a", value="1")
        edit(part, "MEMORY.md", "one\n")
        part.desk._journal.checkpoint(1, {"MEMORY.md": (-1, "0" * 64)})
        await part.act("ctx_set", key="b", value="2")

    session = killed(swarm, script)
    assert [c["target"] for c in session["changes"]] == ["studio/a", "studio/b", "studio:MEMORY.md"]


@pytest.mark.parametrize("when", ["made", "removed"])
def test_a_memory_copy_that_was_being_made_or_removed_is_no_deletion(swarm, monkeypatch, when):
    for name in ("MEMORY.md", "a.md"):
        swarm.call("memory_write", agent="studio", file=name, text=f"{name}\n")
    host = host_of(swarm.places)

    async def script(part):
        memory, id = part.request.memory, str(part.request.session)
        shutil.rmtree(copy_of(swarm, id))
        # Half of what it was to do, then the daemon is gone.
        with monkeypatch.context() as patch, suppress(OSError):
            if when == "made":
                patch.setattr(workspace, "materialize", half_made)
                workspace.prepare(host, id, prompt=b"", memory=memory, read_only=())
            else:
                workspace.prepare(host, id, prompt=b"", memory=memory, read_only=())
                patch.setattr(workspace, "remove_tree", half_removed)
                workspace.drop_memory(workspace.places(host, id).folder)

    session = killed(swarm, script)
    assert (session["outcome"], session["draft"], session["changes"]) == ("lost", None, [])
    swarm.call("memory_show", agent="studio", file="a.md")


def half_made(folder, tree, read_only):
    materialize(folder, MemoryTree.of({"MEMORY.md": b""}), read_only)
    raise OSError


def half_removed(folder):
    if os.path.exists(folder):
        os.unlink(os.path.join(folder, "a.md"))


def test_what_a_session_has_made_of_its_memory_is_in_the_draft_when_the_copy_is_gone_before_the_commit(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="old\n")
    swarm.change("studio", success=Success(command=("true",)))

    async def script(part):
        materialize(str(copy_of(swarm, part.request.session)), part.request.memory, ())
        await part.act("ctx_set", key="k", value="v")
        edit(part, "MEMORY.md", "new\n")

    async def check(request, command, memory):
        # The program has ended, the commit has not begun: minutes may lie between.
        assert not copy_of(swarm, request.session).exists()
        raise Killed

    id = swarm.queue("studio")
    with pytest.raises(Killed):
        asyncio.run(swarm.start(id, script, check=check))
    swarm.close()
    swarm.open()
    assert recover(swarm.store, host_of(swarm.places), swarm.clock.now()) == [id]
    assert [c["act"] for c in swarm.session(id)["changes"]] == ["ctx_set", "memory_write"]
    swarm.call("session_apply", session="studio")
    assert swarm.text("studio") == "new\n"


def test_what_a_power_cut_has_left_of_a_memory_copy_is_nobodys_draft(swarm, monkeypatch):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="old\n")

    async def script(part):
        await part.act("ctx_set", key="k", value="v")
        edit(part, "MEMORY.md", "")
        monkeypatch.setattr(journal, "boot_id", lambda: "the next boot")

    assert [c["act"] for c in killed(swarm, script)["changes"]] == ["ctx_set"]


def test_after_a_power_cut_that_took_a_checkpoints_line_no_draft_repeats_what_it_saved(swarm, monkeypatch):
    async def script(part):
        await part.act("ctx_set", key="a", value="1")
        await part.checkpoint()
        await part.act("ctx_set", key="b", value="2")
        path = copy_of(swarm, part.request.session).parent / journal.NAME
        path.write_bytes(path.read_bytes().replace(b'"checkpoint"', b"\0\0checkpoint\0"))
        monkeypatch.setattr(journal, "boot_id", lambda: "the next boot")

    session = killed(swarm, script)
    assert [(c["target"], c["verdict"]) for c in session["changes"]] == [("studio/a", "done")]
    assert session["draft"] is None


def test_a_lost_session_is_retried_but_not_after_a_checkpoint(swarm):
    swarm.change("studio", limits=Limits(retries=1))
    swarm.change("game", limits=Limits(retries=1))

    async def without(part):
        await part.act("ctx_set", key="a", value="1")

    async def with_one(part):
        await without(part)
        await part.checkpoint()

    killed(swarm, without)
    assert [row["agent"] for row in swarm.live()] == ["studio"]
    killed(swarm, with_one, "game")
    assert [row["agent"] for row in swarm.live()] == ["studio"]


def test_a_lost_session_that_saves_nothing_leaves_nothing(swarm):
    async def script(part):
        await part.act("ctx_set", key="a", value="1")

    session = killed(swarm, script, mode="no_commit")
    assert (session["outcome"], session["draft"]) == ("lost", None)


def test_a_copy_that_may_not_be_taken_is_left_out_of_the_draft(swarm):
    async def script(part):
        await part.act("ctx_set", key="a", value="1")
        edit(part, "MEMORY.md", "one\n")
        (copy_of(swarm, part.request.session) / "evil.md").symlink_to("/etc/passwd")

    session = killed(swarm, script)
    assert [c["target"] for c in session["changes"]] == ["studio/a"]


def test_an_operators_run_that_had_only_been_queued_is_cancelled_and_a_slots_waits_on(swarm):
    manual, cron = swarm.queue("studio", "manual"), swarm.queue("game")
    assert recover(swarm.store, host_of(swarm.places), swarm.clock.now()) == []
    assert swarm.session(manual)["outcome"] == "cancelled"
    assert swarm.session(cron)["state"] == "queued"


def test_an_agent_that_was_removed_meanwhile_is_no_hindrance(swarm):
    async def script(part):
        await part.act("ctx_set", key="a", value="1")
        swarm.remove("studio")

    assert killed(swarm, script)["draft"] == "open"


def test_recovery_may_be_repeated(swarm: Store):
    async def script(part):
        await part.act("ctx_set", key="a", value="1")

    killed(swarm, script)
    before = swarm.dump()
    assert recover(swarm.store, host_of(swarm.places), swarm.clock.now()) == []
    assert swarm.dump() == before


# -- the journal --------------------------------------------------------------------------------------------


def change(key, value="v"):
    return SetKey(agent="studio", key=key, value=value)


def written(folder, *steps):
    kept = journal.Journal(folder)
    for step in steps:
        kept.checkpoint(step, {}) if isinstance(step, int) else kept.staged(step)
    kept.close()
    return folder / journal.NAME


def test_the_journal_tells_what_came_after_the_last_checkpoint_that_was_made(tmp_path):
    written(tmp_path, change("a"), 1, change("b"), 2, change("c"))
    for checkpoints, keys in ((0, "abc"), (1, "bc"), (2, "c")):
        changes, bases = journal.read(tmp_path, checkpoints)
        assert [c.key for c in changes] == list(keys)
        assert (bases is None) == (checkpoints == 0)


def test_a_torn_last_line_is_left_out_and_what_follows_it_is_not(tmp_path):
    path = written(tmp_path, change("a"), change("b"))
    whole = path.read_bytes()
    for cut in range(1, 40):
        path.write_bytes(whole[:-cut])
        assert [c.key for c in journal.read(tmp_path, 0)[0]][:1] == ["a"]
    written(tmp_path, change("c"))
    assert [c.key for c in journal.read(tmp_path, 0)[0]] == ["a", "c"]


@pytest.mark.parametrize("junk", [b"\xff\xfe\n", b"1\n", b"[]\n", b"{}\n", b"null\n", b"\0\0\0\n"])
def test_junk_in_the_journal_is_left_out(tmp_path, junk):
    path = written(tmp_path, change("a"))
    with path.open("ab") as file:
        file.write(junk)
    written(tmp_path, change("b"))
    assert [c.key for c in journal.read(tmp_path, 5)[0]] == ["a", "b"]


@pytest.mark.parametrize(
    "text", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "a\nb\r\nc", "\U0001f680"]
)
def test_line_ends_of_every_kind_within_a_value_are_kept(tmp_path, text):
    written(tmp_path, change("k", text))
    assert journal.read(tmp_path, 0)[0] == [change("k", text)]


def test_without_a_journal_there_is_nothing(tmp_path):
    assert journal.read(tmp_path, 0) == ([], None)


def test_a_journal_is_private(tmp_path):
    assert os.stat(written(tmp_path / "new", change("a"))).st_mode & 0o777 == 0o600


def test_differences_name_the_base_of_each_file():
    base, now = MemoryTree.of({"a": b"1", "b": b"1"}), MemoryTree.of({"a": b"2", "c": b"3"})
    found = journal.differences("studio", base, now, {"a": (4, None), "b": (-1, "h")})
    assert [(c.path, c.data, c.base, c.base_hash) for c in found] == [
        ("a", b"2", 4, None), ("b", None, -1, "h"), ("c", b"3", 0, None),
    ]  # fmt: skip
