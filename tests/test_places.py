"""Where everything is: by option, by our variables, by systemd's, by the folder one stands in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from swarmd.errors import BadInput, Failed
from swarmd.places import (
    SOCKET_NAME_BYTES,
    SOCKET_PATH_BYTES,
    PlaceOptions,
    Places,
    make_runtime,
    places,
)

UID = os.getuid()


def found(environ=None, *, cwd="/w", folders=(), **options) -> Places:
    known = {Path(folder) for folder in folders}
    return places(
        PlaceOptions(**options), environ or {}, Path(cwd), UID, is_folder=lambda path: path in known
    )


def test_with_nothing_said_they_are_the_systems():
    all_four = found()
    assert str(all_four.agents) == "/etc/swarmd/agents.d"
    assert str(all_four.state) == "/var/lib/swarmd"
    assert str(all_four.config) == "/etc/swarmd/swarmd.toml"
    assert all_four.is_system
    assert not all_four.config_is_named


def test_where_a_local_state_is_both_are_local():
    local = found(folders=["/w/.swarmd"])
    assert (str(local.agents), str(local.state), str(local.config)) == (
        "/w/agents.d",
        "/w/.swarmd",
        "/w/swarmd.toml",
    )
    assert not local.is_system


def test_the_state_stands_beside_agent_files_that_were_named_by_option():
    assert str(found(agents="/x/agents.d").state) == "/x/.swarmd"
    assert str(found(agents="sub/agents.d").state) == "/w/sub/.swarmd"
    assert str(found(agents="/x/agents.d", folders=["/w/.swarmd"]).state) == "/w/.swarmd"
    assert str(found({"SWARMD_AGENTS": "/x/agents.d"}).state) == "/var/lib/swarmd"


@pytest.mark.parametrize(
    ("place", "option", "ours", "systemds", "expected"),
    [
        ("agents", "agents", "SWARMD_AGENTS", "CONFIGURATION_DIRECTORY", ["/o", "/s", "/d/agents.d"]),
        ("state", "state", "SWARMD_STATE", "STATE_DIRECTORY", ["/o", "/s", "/d"]),
        ("runtime", "runtime", "SWARMD_RUNTIME", "RUNTIME_DIRECTORY", ["/o", "/s", "/d"]),
        ("config", "config", "SWARMD_CONFIG", "CONFIGURATION_DIRECTORY", ["/o", "/s", "/d/swarmd.toml"]),
    ],
)
def test_an_option_wins_over_our_variable_and_that_over_systemds(place, option, ours, systemds, expected):
    both = {ours: "/s", systemds: "/d:/second", "XDG_RUNTIME_DIR": "/run/user/1"}
    local = ["/w/.swarmd", "/run/user/1"]
    assert str(getattr(found(both, folders=local, **{option: "/o"}), place)) == expected[0]
    assert str(getattr(found(both, folders=local), place)) == expected[1]
    assert str(getattr(found({**both, ours: ""}, folders=local), place)) == expected[2]


def test_paths_are_absolute_and_start_where_one_stands():
    assert str(found(agents="../a/./b", cwd="/w/x").agents) == "/w/a/b"
    assert str(found({"SWARMD_STATE": "s"}).state) == "/w/s"
    assert found(config="x.toml").config_is_named


def test_an_empty_option_is_a_mistake_an_empty_variable_is_none():
    with pytest.raises(BadInput, match="--state: expected a path, found ''"):
        found(state="")
    assert str(found({"SWARMD_STATE": "", "STATE_DIRECTORY": "relative"}).state) == "/var/lib/swarmd"


def test_each_state_has_a_runtime_folder_of_its_own_by_whatever_path(tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "link").symlink_to("state")
    environ = {"XDG_RUNTIME_DIR": "/run/user/1"}
    one, same, other = (
        found(environ, folders=["/run/user/1"], state=str(tmp_path / name)).runtime
        for name in ("state", "link", "x")
    )
    assert one == same != other
    assert one.parent == Path("/run/user/1")
    assert one.name.startswith("swarmd-")


def test_without_a_runtime_folder_of_the_user_it_is_a_private_one_under_temp():
    for environ in ({}, {"XDG_RUNTIME_DIR": "/gone"}, {"XDG_RUNTIME_DIR": "relative"}):
        assert str(found(environ, state="/s").runtime).startswith(f"/tmp/swarmd-{UID}-")
    assert str(found({"TMPDIR": "/t"}, state="/s").runtime).startswith(f"/t/swarmd-{UID}-")


def test_operators_find_the_sockets_of_the_systems_daemon():
    environ = {"XDG_RUNTIME_DIR": "/run/user/1"}
    folders = ["/run/swarmd", "/run/user/1"]
    assert str(found(environ, folders=folders).runtime) == "/run/swarmd"
    assert str(found(environ, folders=folders, state="/s").runtime).startswith("/run/user/1/swarmd-")


def test_the_runtime_folder_is_always_short_enough_for_a_socket():
    long = "/" + "x" * 90
    for environ in ({"XDG_RUNTIME_DIR": long}, {"TMPDIR": long}, {"TMPDIR": "/ä" + "ä" * 40}):
        runtime = found(environ, folders=[long], state=long).runtime
        assert len(os.fsencode(runtime)) + 1 + SOCKET_NAME_BYTES <= SOCKET_PATH_BYTES
    with pytest.raises(BadInput, match=r"too long for a socket's path: it has 91 bytes, 66 are allowed"):
        found(runtime=long)


def runtime_at(path: Path, *, is_named: bool = False) -> Places:
    return Places(agents=path, state=path, config=path, runtime=path, runtime_is_named=is_named)


def test_the_private_folder_is_made_for_its_owner_alone_and_taken_again(tmp_path):
    where = runtime_at(tmp_path / "r")
    make_runtime(where, UID)
    make_runtime(where, UID)
    assert where.runtime.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_is_not_private_is_refused(tmp_path):
    where = runtime_at(tmp_path / "r")
    where.runtime.mkdir(mode=0o755)
    with pytest.raises(
        Failed, match=r"is open to others \(mode 0755\); remove it, or name another with --runtime"
    ):
        make_runtime(where, UID)


def test_a_link_in_its_place_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    where = runtime_at(tmp_path / "r")
    where.runtime.symlink_to("elsewhere")
    with pytest.raises(Failed, match="is no folder"):
        make_runtime(where, UID)


def test_another_users_folder_in_its_place_is_refused(tmp_path):
    where = runtime_at(tmp_path / "r")
    where.runtime.mkdir(mode=0o700)
    with pytest.raises(Failed, match=f"belongs to uid {UID}, not to uid {UID + 1}"):
        make_runtime(where, UID + 1)


def test_a_file_in_its_place_is_refused(tmp_path):
    where = runtime_at(tmp_path / "r")
    where.runtime.write_text("")
    with pytest.raises(Failed, match="cannot be made"):
        make_runtime(where, UID)


def test_a_named_folder_may_be_open_to_readers_but_not_to_writers(tmp_path):
    where = runtime_at(tmp_path / "a" / "r", is_named=True)
    make_runtime(where, UID)
    where.runtime.chmod(0o755)
    make_runtime(where, UID)
    where.runtime.chmod(0o777)
    with pytest.raises(Failed, match="can be written by everyone"):
        make_runtime(where, UID)


def test_finding_the_places_loads_next_to_nothing():
    code = "import sys, swarmd.places; print('pydantic' in sys.modules, 'asyncio' in sys.modules, 'tempfile' in sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    assert output.stdout.split() == ["False"] * 3
