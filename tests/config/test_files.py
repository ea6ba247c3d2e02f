"""What may configure agents: which files are trusted, what is no file, and how changes are seen."""

from __future__ import annotations

import os
import socket
import time

import pytest

from swarmd.config.files import MAX_BYTES, Guard, SessionUser, read_file

NOW = time.time_ns() + 3600 * 10**9  # long after every save: what was read has rested
GUARD = Guard(uid=os.getuid())
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")


def read(path, previous=None, guard=GUARD, now_ns=NOW):
    return read_file(path, guard, now_ns, previous)


def test_an_unchanged_file_is_not_read_again(tmp_path):
    path = tmp_path / "a"
    path.write_text("x")
    first = read(path)
    assert first.data == b"x"
    assert read(path, first) is first


def test_an_edit_that_puts_size_and_time_back_is_seen(tmp_path):
    path = tmp_path / "a"
    path.write_text("one")
    before = os.stat(path)
    first = read(path)
    path.write_text("two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.stat(path).st_mtime_ns == before.st_mtime_ns
    assert read(path, first).data == b"two"


def test_a_file_saved_a_moment_ago_is_read_again_since_the_next_save_may_look_the_same(tmp_path):
    path = tmp_path / "a"
    path.write_text("x")
    fresh = read(path, now_ns=time.time_ns())
    assert not fresh.settled
    again = read(path, fresh)
    assert again is not fresh
    assert again.says_same_as(fresh)
    assert again.settled


def test_an_edit_behind_a_link_is_seen(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("one")
    link.symlink_to(target)
    first = read(link)
    target.write_text("other")
    assert read(link, first).data == b"other"


def test_a_pipe_is_named_and_never_waited_for(tmp_path):
    os.mkfifo(tmp_path / "p")
    assert read(tmp_path / "p").problem == "is a pipe, not a file"


def test_folders_sockets_and_devices_are_named(tmp_path):
    assert read(tmp_path).problem == "is a folder, not a file"
    (tmp_path / "null").symlink_to("/dev/null")
    assert read(tmp_path / "null").problem == "is a device, not a file"
    os.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("s")
        assert read(tmp_path / "s").problem == "is a socket, not a file"


def test_links_that_lead_nowhere_are_named(tmp_path):
    (tmp_path / "dangling").symlink_to("nothing")
    (tmp_path / "loop").symlink_to("loop")
    assert read(tmp_path / "dangling").problem == "is a symbolic link to nothing"
    assert not read(tmp_path / "dangling").missing
    assert read(tmp_path / "loop").problem == "is a symbolic link that leads back to itself"


def test_what_is_not_there_is_missing(tmp_path):
    for path in (tmp_path / "x", tmp_path / "x/y"):
        assert read(path).missing
        assert read(path).problem == "does not exist"


def test_a_file_over_the_limit_is_refused_unread(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"x" * MAX_BYTES)
    assert read(path).problem is None
    path.write_bytes(b"x" * (MAX_BYTES + 1))
    assert read(path).problem == f"is larger than {MAX_BYTES} bytes, the most that is read"
    assert read(path).data is None


def test_what_everyone_may_write_is_refused(tmp_path):
    path = tmp_path / "a"
    path.write_text("x")
    path.chmod(0o666)
    assert read(path).problem == "refused: everyone may write it (mode 0666; chmod o-w)"
    path.chmod(0o664)
    assert read(path).problem is None


def test_a_change_of_mode_alone_is_seen(tmp_path):
    path = tmp_path / "a"
    path.write_text("x")
    first = read(path)
    path.chmod(0o602)
    assert "everyone" in (read(path, first).problem or "")


def test_what_a_user_of_sessions_may_write_is_refused(tmp_path):
    path = tmp_path / "a"
    path.write_text("x")
    path.chmod(0o664)
    gid = os.stat(path).st_gid
    own = Guard(uid=os.getuid(), session_users=(SessionUser(uid=os.getuid()),))
    by_group = Guard(uid=os.getuid(), session_users=(SessionUser(uid=4321, gids=frozenset({gid})),))
    assert read(path, guard=own).problem is None
    assert "uid 4321, which sessions run as, may write it" in (read(path, guard=by_group).problem or "")
    path.chmod(0o644)
    assert read(path, guard=by_group).problem is None


@needs_root
def test_what_a_stranger_owns_is_refused(tmp_path):
    path, link = tmp_path / "a", tmp_path / "link"
    path.write_text("x")
    os.chown(path, 1234, 0)
    assert read(path).problem == "refused: uid 1234 owns it, which is neither root nor the daemon's user (0)"
    assert read(path, guard=Guard(uid=1234)).problem is None
    assert "which sessions run as" in (
        read(path, guard=Guard(uid=0, session_users=(SessionUser(uid=1234),))).problem or ""
    )
    os.chown(path, 0, 0)
    link.symlink_to(path)
    os.chown(link, 1234, 0, follow_symlinks=False)
    assert "(the symbolic link)" in (read(link).problem or "")
