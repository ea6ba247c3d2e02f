"""The watcher: it hurries a scan after every kind of save that gives events, and survives whatever gives none."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil

import pytest
from watchdog.observers import Observer

from swarmd.config.watch import DEBOUNCE_SECONDS, LONGEST_WAIT_SECONDS, FolderWatch, Watched, _Debounce
from tests.config.kit import good
from tests.config.saves import WAYS, behind_a_link, folder_replaced

PATIENCE = 10.0
QUIET = DEBOUNCE_SECONDS + 0.4


class Watching:
    """A watch on some folders, with what it said."""

    def __init__(self, *paths, recursive=False, make_observer=Observer) -> None:
        self.dirty = asyncio.Event()
        self.calls = 0
        self.warnings: list[str] = []
        watched = [Watched(path=path, recursive=recursive) for path in paths]
        self.watch = FolderWatch(watched, self.note, self.warnings.append, make_observer=make_observer)

    def note(self) -> None:
        self.calls += 1
        self.dirty.set()

    async def __aenter__(self):
        await self.watch.start()
        return self

    async def __aexit__(self, *_):
        await self.watch.stop()

    async def told(self) -> bool:
        """Whether it is told within the patience of a slow machine."""
        try:
            await asyncio.wait_for(self.dirty.wait(), PATIENCE)
        except TimeoutError:
            return False
        self.dirty.clear()
        return True

    async def silent(self) -> bool:
        await asyncio.sleep(QUIET)
        return not self.dirty.is_set()


async def test_saves_are_told_and_reading_is_not(folder):
    folder.write("a", good())
    async with Watching(folder.path) as watching:
        folder.write("a", good(more="enabled = false\n"))
        assert await watching.told()
        folder.scan()
        folder.scan()
        assert await watching.silent()
        folder.remove("a")
        assert await watching.told()


async def test_a_burst_is_told_once(folder):
    async with Watching(folder.path) as watching:
        for number in range(200):
            folder.write(f"a{number}", good())
        assert await watching.told()
        assert await watching.silent()
        assert watching.calls == 1


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_every_way_of_saving_is_seen_by_the_watch_or_by_the_scan_that_comes_anyway(folder, way):
    way(folder.path, "a", good())
    first = folder.scan()
    async with Watching(folder.path) as watching:
        way(folder.path, "a", good(more="enabled = false\n"))
        if way is not behind_a_link:  # such an edit happens elsewhere: no event
            assert await watching.told()
        scan = folder.scan()
        assert not scan.says_same_as(first)
        await watching.watch.renew()
        watching.dirty.clear()
        folder.write("b", good())  # after a renewal events come again, whatever became of the folder
        assert await watching.told()


async def test_a_folder_that_is_missing_is_taken_up_when_it_comes(folder):
    folder.path.rmdir()
    async with Watching(folder.path) as watching:
        folder.path.mkdir()
        await watching.watch.renew()
        folder.write("a", good())
        assert await watching.told()
        shutil.rmtree(folder.path)
        await watching.watch.renew()
        await watching.watch.renew()
        assert watching.warnings == []


async def test_a_link_to_a_folder_is_watched_where_it_leads_and_followed_when_it_moves(folder, tmp_path):
    other, link = tmp_path / "other", tmp_path / "link"
    other.mkdir()
    link.symlink_to(folder.path)
    async with Watching(link) as watching:
        folder.write("a", good())
        assert await watching.told()
        link.unlink()
        link.symlink_to(other)
        await watching.watch.renew()
        (other / "b.toml").write_text(good())
        assert await watching.told()


async def test_several_folders_may_be_watched_to_their_depths(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    (one / "deep").mkdir(parents=True)
    two.mkdir()
    async with Watching(one, two, recursive=True) as watching:
        (one / "deep" / "MEMORY.md").write_text("x")
        assert await watching.told()
        (two / "new" / "deeper").mkdir(parents=True)
        assert await watching.told()
        (two / "new" / "deeper" / "MEMORY.md").write_text("x")
        assert await watching.told()


async def test_two_names_of_one_folder_do_not_end_each_others_watch(folder, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(folder.path)
    async with Watching(folder.path, link) as watching:
        link.unlink()
        await watching.watch.renew()
        folder.write("a", good())
        assert await watching.told()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC])
async def test_without_watches_left_there_is_one_warning_and_no_end(folder, number):
    limit = [OSError(number, os.strerror(number))]

    class Exhausted(Observer):
        def schedule(self, *args, **kwargs):
            if limit:
                raise limit[0]
            return super().schedule(*args, **kwargs)

    async with Watching(folder.path, make_observer=Exhausted) as watching:
        await watching.watch.renew()
        await watching.watch.renew()
        assert len(watching.warnings) == 1
        assert "changes are noticed by scanning, every 4 seconds" in watching.warnings[0]
        limit.clear()
        await watching.watch.renew()
        folder.write("a", good())
        assert await watching.told()


async def test_an_observer_that_cannot_even_start_is_the_same(folder):
    def none_left():
        raise OSError(errno.EMFILE, "inotify instance limit reached")

    async with Watching(folder.path, make_observer=none_left) as watching:
        assert len(watching.warnings) == 1


async def test_a_folder_that_may_not_be_watched_is_left_to_the_scan(folder):
    class Forbidden(Observer):
        def schedule(self, *args, **kwargs):
            raise PermissionError(errno.EACCES, "Permission denied")

    async with Watching(folder.path, make_observer=Forbidden) as watching:
        assert watching.warnings == []


async def test_after_the_end_nothing_is_told(folder):
    watching = Watching(folder.path)
    await watching.watch.stop()
    await watching.watch.start()
    folder.write("a", good())
    await watching.watch.stop()
    assert await watching.silent()
    await watching.watch.renew()
    folder.write("b", good())
    assert await watching.silent()


async def test_no_threads_and_descriptors_pile_up_when_the_folder_is_replaced_again_and_again(folder):
    folder.write("a", good())
    async with Watching(folder.path) as watching:
        before = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
        for number in range(5):
            folder_replaced(folder.path, "a", good(more=f"description = '{number}'\n"))
            await watching.watch.renew()
        after = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
        assert after[0] <= before[0] + 1
        assert after[1] <= before[1] + 1


class FakeLoop:
    """Just the timers of a loop, on a clock of the test's."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timer: tuple[float, object] | None = None

    def time(self) -> float:
        return self.now

    def call_soon_threadsafe(self, call) -> None:
        call()

    def call_at(self, when, call):
        self.timer = (when, call)

    def advance(self, now: float) -> None:
        self.now = now
        if self.timer is not None and self.timer[0] <= now:
            (_, call), self.timer = self.timer, None
            call()


def test_a_writer_that_never_rests_cannot_put_the_call_off_for_ever():
    loop, calls = FakeLoop(), []
    debounce = _Debounce(loop, lambda: calls.append(loop.now))
    for tick in range(50):
        loop.advance(tick / 10)
        debounce.touch()
    assert calls
    assert calls[0] <= LONGEST_WAIT_SECONDS + 0.1


def test_the_call_comes_when_it_has_been_quiet_for_a_while():
    loop, calls = FakeLoop(), []
    debounce = _Debounce(loop, lambda: calls.append(loop.now))
    for tick in range(6):
        loop.advance(tick / 10)
        debounce.touch()
    assert calls == []
    loop.advance(0.79)
    assert calls == []
    loop.advance(0.81)
    assert calls == [0.81]
