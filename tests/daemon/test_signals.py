"""A daemon as a process: how it starts, stops, is killed, and what it says to systemd."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from tests.daemon.processes import KEEPS, SLEEPER, STUBBORN, await_, kill

MANUAL = 'every = "1s"'


def test_sigterm_ends_all_sessions_within_the_drain_and_keeps_what_they_wanted(place):
    for number in range(6):
        place.agent(f"a{number}", SLEEPER, MANUAL)
    place.agent("stubborn", STUBBORN, MANUAL)
    place.agent("keeps", KEEPS.format(ready=place.root / "ready"), MANUAL)
    with place.serving() as served:
        place.running(8)
        await_((place.root / "ready").exists, lambda: served.log)
        began = time.monotonic()
        served.signal(signal.SIGTERM)
        assert served.ended() == 0, served.log
        assert 1.0 < time.monotonic() - began < 12.0
    assert place.programs() == []
    ended = [row for row in place.sessions() if row["state"] != "queued"]
    assert {(row["outcome"], row["reason"]) for row in ended} == {("cancelled", "daemon stopped")}
    assert len(ended) == 8
    assert [row["draft"] for row in ended if row["agent"] == "keeps"] == ["open"]
    assert place.rows("SELECT count(*) AS n FROM keys")[0]["n"] == 0
    assert "stopped" in served.lines[-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_drain_at_once(place, number):
    place.settings(drain_timeout="10m")
    place.agent("stubborn", STUBBORN, MANUAL)
    with place.serving() as served:
        place.running(1)
        served.signal(number)
        served.await_line("stopping")
        began = time.monotonic()
        served.signal(number)
        assert served.ended() == 0
        assert time.monotonic() - began < 8.0
    assert place.programs() == []
    assert place.sessions()[0]["outcome"] == "cancelled"


def test_sessions_that_end_within_the_drain_are_committed(place):
    place.settings(drain_timeout="30s")
    place.agent("short", "import time\ntime.sleep(2)\n", MANUAL)
    with place.serving() as served:
        place.running(1)
        served.signal(signal.SIGTERM)
        assert served.ended() == 0
    assert [row["outcome"] for row in place.sessions() if row["state"] == "ended"] == ["no_change"]


@pytest.mark.parametrize("delay", [0.0, 0.15, 0.3, 0.45, 0.6])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_it_starts_is_obeyed_and_breaks_nothing(place, delay, number):
    place.agent("a", "", 'every = "1h"')
    with place.serving(ready=False) as served:
        await_(
            lambda: _handles(served.process.pid, number) or served.process.poll() is not None,
            lambda: "no handler",
        )
        time.sleep(delay)
        served.signal(number)
        if number == signal.SIGHUP:
            served.await_line("ready:")
            served.signal(signal.SIGTERM)
        assert served.ended() == 0, served.log
        assert "Traceback" not in served.log
    assert place.swarmd("verify").returncode == 0


def test_sighup_reloads_also_where_reload_is_manual_and_a_storm_of_it_loses_nothing(place, systemd):
    place.settings(reload="manual", drain_timeout="1s")
    place.agent("a", "", 'every = "1h"')
    with place.serving(NOTIFY_SOCKET=systemd.address) as served:
        systemd.await_("READY=1")
        for number in range(30):
            place.agent(f"n{number}", "", 'every = "1h"')
            served.signal(signal.SIGHUP)
        await_(lambda: len(place.rows("SELECT name FROM agents")) == 31, lambda: served.log)
        await_(lambda: systemd.hear(0.05)[-1] != "RELOADING=1", lambda: systemd.heard)
        said = [word for word in systemd.heard if word in ("READY=1", "RELOADING=1")]
        assert said[:2] == ["READY=1", "RELOADING=1"]
        assert said[-1] == "READY=1"
        place.agent("later", "", 'every = "1h"')
        time.sleep(5)
        assert len(place.rows("SELECT name FROM agents")) == 31, "reload = manual"
        place.swarmd("reload")
        assert len(place.rows("SELECT name FROM agents")) == 32


def test_systemd_hears_ready_after_the_first_load_and_a_watchdog_that_a_blocked_loop_does_not_feed(
    place, systemd
):
    place.agent("env", f"import os\nopen('{place.root}/env', 'w').write(repr(sorted(os.environ)))\n", MANUAL)
    with place.serving(NOTIFY_SOCKET=systemd.address, WATCHDOG_USEC="2000000", ready=False) as served:
        systemd.await_("READY=1")
        assert len(place.rows("SELECT name FROM agents")) == 1
        await_((place.root / "env").exists, lambda: served.log)
        assert not any(name in (place.root / "env").read_text() for name in ("NOTIFY_SOCKET", "WATCHDOG"))
        systemd.await_("WATCHDOG=1")
        served.signal(signal.SIGSTOP)
        time.sleep(0.2)
        systemd.hear()
        before = len(systemd.heard)
        assert systemd.hear(2.5)[before:] == []
        served.signal(signal.SIGCONT)
        served.signal(signal.SIGTERM)
        assert served.ended() == 0
        assert "STOPPING=1" in systemd.hear(0.1)
        assert any(word.startswith("STATUS=") for word in systemd.heard)


def test_the_watchdog_is_fed_while_sessions_drain(place, systemd):
    place.settings(drain_timeout="3s")
    place.agent("sleeper", SLEEPER, MANUAL)
    with place.serving(NOTIFY_SOCKET=systemd.address, WATCHDOG_USEC="2000000") as served:
        place.running(1)
        served.signal(signal.SIGTERM)
        assert served.ended() == 0
        words = systemd.hear(0.1)
        assert words[words.index("STOPPING=1") :].count("WATCHDOG=1") >= 3


@pytest.mark.parametrize("by", ["the same path", "a link"])
def test_a_second_daemon_on_the_same_state_is_refused(place, by, tmp_path):
    places = place.places
    if by == "a link":
        (tmp_path / "link").symlink_to(place.state)
        places = [
            "--agents",
            str(place.agents),
            "--state",
            str(tmp_path / "link"),
            "--runtime",
            f"{place.runtime}2",
        ]
    with place.serving():
        with place.serving(ready=False, places=places) as second:
            assert second.ended() == 5
            assert "another swarmd has the state" in second.log
            assert "Traceback" not in second.log
        assert place.swarmd("pause", "all").returncode == 0, "the first one still answers"


def test_a_daemon_for_another_state_does_not_take_the_socket_of_a_living_one(place, tmp_path):
    other = [
        "--agents",
        str(place.agents),
        "--state",
        str(tmp_path / "other"),
        "--runtime",
        str(place.runtime),
    ]
    with place.serving():
        with place.serving(ready=False, places=other) as second:
            assert second.ended() == 5
            assert "another swarmd listens at" in second.log
            assert "Traceback" not in second.log
        assert place.swarmd("pause", "all").returncode == 0


def test_killed_with_sessions_running_they_are_lost_dead_and_their_drafts_kept(place):
    place.agent("keeps", KEEPS.format(ready=place.root / "ready"), MANUAL)
    place.agent("stubborn", STUBBORN, MANUAL)
    with place.serving() as served:
        place.running(2)
        await_((place.root / "ready").exists, lambda: served.log)
        kill(served.process.pid)
        assert served.ended() == -signal.SIGKILL
    assert (place.runtime / "operator.sock").exists(), "a stale socket"
    before = [row["id"] for row in place.sessions() if row["state"] == "running"]
    place.agent("keeps", "")
    place.agent("stubborn", "")
    with place.serving() as served:
        rows = {row["id"]: row for row in place.sessions()}
        assert len(before) == 2
        assert {rows[id]["outcome"] for id in before} == {"lost"}
        assert [rows[id]["draft"] for id in before if rows[id]["agent"] == "keeps"] == ["open"]
        assert place.programs() == []
        assert place.swarmd("resume", "all").returncode == 0
        assert served.log.count("was lost with the daemon before") == 2


def test_killed_again_and_again_no_slot_runs_twice(place):
    marks = place.root / "marks"
    place.agent("a", f"import os\nopen('{marks}', 'a').write(os.environ['SWARMD_SESSION'] + chr(10))\n",
                'every = "1s"\ncatch_up = "all"')  # fmt: skip
    for round in range(4):
        with place.serving() as served:
            time.sleep(0.3 + round * 0.23)
            kill(served.process.pid)
            served.ended()
    by_slot = "SELECT slot, count(*) AS n FROM sessions GROUP BY slot"
    with place.serving() as served:
        await_(lambda: len(place.rows(by_slot)) > 5, lambda: served.log)
    slots = place.rows(by_slot)
    assert {row["n"] for row in slots} == {1}
    run = marks.read_text().split()
    assert len(run) == len(set(run))


@pytest.mark.parametrize("stderr", ["full", "closed"])
def test_it_goes_on_where_nobody_reads_its_log_and_where_there_is_no_standard_error(place, stderr):
    place.agent("a", "import sys\nsys.exit('x' * 5000)\n", MANUAL + "\n[limits]\npause_after_failures = 100")
    command = [sys.executable, "-m", "swarmd", *place.places, "serve"]
    if stderr == "closed":
        command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command]
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    while stderr == "full":
        try:
            os.write(writing, b"x" * 4096)
        except BlockingIOError:
            break
    os.set_blocking(writing, True)
    daemon = subprocess.Popen(command, env=place.environment(), cwd=place.root, stderr=writing)
    try:
        await_(lambda: len(_ended(place)) >= 3, lambda: "no session ends")
    finally:
        daemon.terminate()
        status = daemon.wait(30)
        os.close(reading)
        os.close(writing)
    assert status == 0


def test_a_file_that_is_gone_for_ten_seconds_takes_force_and_one_that_comes_back_stays(place):
    for name in ("goes", "returns", "stays"):
        place.agent(name, "", 'every = "1h"')
    with place.serving() as served:
        text = (place.agents / "returns.toml").read_text()
        (place.agents / "goes.toml").unlink()
        (place.agents / "returns.toml").unlink()
        await_(
            lambda: place.rows("SELECT name FROM agents WHERE absent_since IS NOT NULL"), lambda: served.log
        )
        began = time.monotonic()
        (place.agents / "returns.toml").write_text(text)
        await_(
            lambda: len(place.rows("SELECT name FROM agents WHERE state = 'in_force'")) == 2,
            lambda: served.log,
        )
        assert time.monotonic() - began > 5


def _ended(place) -> list:
    try:
        return place.rows("SELECT id FROM sessions WHERE state = 'ended'")
    except sqlite3.OperationalError:
        return []  # there is no store yet


def _handles(pid: int, number: int) -> bool:
    try:
        with open(f"/proc/{pid}/status") as file:
            caught = next(int(line.split()[1], 16) for line in file if line.startswith("SigCgt"))
    except (OSError, StopIteration):
        return False
    return bool(caught >> (number - 1) & 1)
