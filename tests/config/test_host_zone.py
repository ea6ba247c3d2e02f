"""Which zone is in force where a file names none: the host's, found as cron finds it."""

from __future__ import annotations

import pytest

from swarmd.config.host_zone import host_zone


@pytest.fixture
def etc(tmp_path):
    folder = tmp_path / "etc"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    "value", ["Pacific/Auckland", ":Pacific/Auckland", "/usr/share/zoneinfo/Pacific/Auckland"]
)
def test_tz_comes_first(etc, value):
    (etc / "timezone").write_text("Europe/Berlin\n")
    assert host_zone({"TZ": value}, etc.parent) == ("Pacific/Auckland", None)


def test_a_tz_without_a_name_is_told(etc):
    name, warning = host_zone({"TZ": "EST5EDT4,M3.2.0,M11.1.0"}, etc.parent)
    assert name == "UTC"
    assert "names no time zone of the tz database" in (warning or "")


@pytest.mark.parametrize("target", ["/usr/share/zoneinfo/Asia/Kolkata", "../usr/share/zoneinfo/Asia/Kolkata"])
def test_the_link_of_localtime_names_the_zone(etc, target):
    (etc / "localtime").symlink_to(target)
    assert host_zone({"TZ": ""}, etc.parent) == ("Asia/Kolkata", None)


def test_a_link_to_a_link_is_followed(etc):
    zones = etc.parent / "usr/zoneinfo/Asia"
    zones.mkdir(parents=True)
    (zones / "Kolkata").write_text("")
    (etc / "other").symlink_to(zones / "Kolkata")
    (etc / "localtime").symlink_to("other")
    assert host_zone({}, etc.parent) == ("Asia/Kolkata", None)


def test_the_file_timezone_comes_after_it(etc):
    (etc / "localtime").write_bytes(b"TZif2")
    (etc / "timezone").write_text("Europe/Berlin\n")
    assert host_zone({}, etc.parent) == ("Europe/Berlin", None)


def test_a_host_that_says_nothing_is_in_utc(etc):
    assert host_zone({}, etc.parent) == ("UTC", None)


def test_a_zone_without_a_name_is_told(etc):
    (etc / "localtime").write_bytes(b"TZif2")
    (etc / "timezone").write_bytes(b"\xff")
    name, warning = host_zone({}, etc.parent)
    assert name == "UTC"
    assert "has no name" in (warning or "")
