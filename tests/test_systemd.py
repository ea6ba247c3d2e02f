"""The units say what the daemon expects of them, and systemd takes them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from swarmd.config.settings import Settings
from swarmd.core.durations import parse_duration
from swarmd.places import SYSTEM_AGENTS, SYSTEM_RUNTIME, SYSTEM_STATE

SYSTEMD = Path(__file__).parent.parent / "systemd"
UNITS = ("swarmd.service", "user/swarmd.service")


def settings_of(unit: str) -> dict[str, list[str]]:
    """Every value of every setting, in order; the sections do not matter here."""
    found: dict[str, list[str]] = {}
    for line in (SYSTEMD / unit).read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def seconds(text: str) -> float:
    return parse_duration(text.replace("min", "m"))


@pytest.mark.parametrize("unit", UNITS)
def test_stopping_may_take_longer_than_draining_and_ending_the_rest(unit):
    (stop,) = settings_of(unit)["TimeoutStopSec"]
    assert seconds(stop) >= Settings(max_processes=1).drain_timeout_seconds + 30


@pytest.mark.parametrize("unit", UNITS)
def test_the_daemon_reports_to_systemd_and_is_reloaded_by_sighup(unit):
    found = settings_of(unit)
    assert found["Type"] == ["notify"]
    assert found["NotifyAccess"] == ["main"]
    assert seconds(found["WatchdogSec"][0]) >= 30
    assert found["ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    assert found["KillMode"] == ["mixed"]


def test_the_system_units_places_are_those_of_the_program():
    found = settings_of("swarmd.service")
    # systemd tells the daemon where by STATE_DIRECTORY and its like; the commands must look in the same places.
    assert [Path("/var/lib", name) for name in found["StateDirectory"]] == [SYSTEM_STATE]
    assert [Path("/etc", name, "agents.d") for name in found["ConfigurationDirectory"]] == [SYSTEM_AGENTS]
    assert [Path("/run", name) for name in found["RuntimeDirectory"]] == [SYSTEM_RUNTIME]
    assert found["StateDirectoryMode"] == ["0700"]
    assert found["RuntimeDirectoryMode"] == ["0750"]


def test_agent_files_cannot_be_written_from_inside_the_system_unit():
    assert settings_of("swarmd.service")["ReadOnlyPaths"] == [str(SYSTEM_AGENTS.parent)]


def test_the_system_units_user_is_the_one_that_sysusers_makes():
    found = settings_of("swarmd.service")
    kind, user, *_ = (SYSTEMD / "swarmd.sysusers").read_text().splitlines()[-1].split()
    assert (kind, [user], [user]) == ("u", found["User"], found["Group"])


def test_sessions_may_put_themselves_under_landlock():
    calls = " ".join(settings_of("swarmd.service")["SystemCallFilter"]).split()
    assert {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"} <= set(calls)


def test_programs_that_compile_as_they_run_are_not_shut_out():
    assert "MemoryDenyWriteExecute" not in settings_of("swarmd.service")


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([folder / "check.sh"], capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SYSTEMD, tmp_path / "systemd"))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
class TestWithSystemdAnalyze:
    def test_the_units_are_taken(self):
        ran = check(SYSTEMD)
        assert ran.returncode == 0, ran.stderr
        assert "exposure level" in ran.stdout

    @pytest.mark.parametrize("unit", UNITS)
    def test_an_unknown_setting_is_found(self, copy, unit):
        path = copy / unit
        path.write_text(path.read_text().replace("UMask=", "UMaks="))
        ran = check(copy)
        assert ran.returncode == 1
        assert "UMaks" in ran.stderr

    def test_a_wall_that_was_taken_down_is_found(self, copy):
        path = copy / "swarmd.service"
        path.write_text(
            path.read_text().replace("NoNewPrivileges=yes\n", "").replace("ProtectHome=yes\n", "")
        )
        assert check(copy).returncode == 1


def test_without_systemd_analyze_the_check_says_that_it_was_skipped(tmp_path):
    for name in ("bash", "dirname"):
        (tmp_path / name).symlink_to(shutil.which(name))
    ran = subprocess.run(
        ["/bin/bash", SYSTEMD / "check.sh"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "skipped" in ran.stdout
