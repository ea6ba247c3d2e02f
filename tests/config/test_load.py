"""What is in force after a look at the files: bad edits, removals, folders that cannot be right."""

from __future__ import annotations

import pytest

from swarmd.config.load import InForce
from swarmd.core.agent import from_json, to_json
from tests.config.kit import family, good, parents, sentences

# One bad file


def test_a_bad_edit_leaves_the_last_good_definition_in_force_and_the_others_reload(folder):
    family(folder)
    folder.write("mid", good("root", "description = 'open\n"))
    folder.write("leaf", good("mid", "description = 'new'\n"))
    reload = folder.load()
    assert (reload.changed, reload.kept) == (("leaf",), ("mid",))
    assert parents(reload) == {"leaf": "mid", "mid": "root", "root": None}
    assert sentences(reload)[0].startswith("agents.d/mid.toml:4: not valid TOML")
    folder.write("mid", good("root", "description = 'closed'\n"))
    reload = folder.load()
    assert (reload.changed, reload.kept, reload.problems) == (("mid",), (), ())


def test_nothing_of_a_bad_file_is_half_applied(folder):
    folder.write("a", good(more="enabled = true\n"))
    folder.load()
    folder.write("a", good(more="enabled = false\ntimout = 1\n"))
    assert folder.load().agents["a"].enabled


def test_the_last_good_definition_outlives_a_restart(folder):
    folder.write("a", good(more="description = 'good'\n"))
    folder.load()
    stored = {name: to_json(known.agent) for name, known in folder.in_force.items()}
    folder.write("a", "x = ")
    folder.in_force = {name: InForce(agent=from_json(text)) for name, text in stored.items()}
    folder.settings = folder.scanned = None
    reload = folder.load()
    assert reload.agents["a"].description == "good"
    assert (reload.kept, reload.is_change) == (("a",), False)


def test_an_unchanged_folder_changes_nothing_after_a_restart(folder):
    family(folder)
    folder.in_force = {
        name: InForce(agent=from_json(to_json(known.agent))) for name, known in folder.in_force.items()
    }
    assert not folder.load().is_change


def test_a_file_that_was_never_good_is_out_and_only_it(folder):
    folder.write("a", good())
    folder.write("b", "x = ")
    reload = folder.load()
    assert (list(reload.agents), reload.out) == (["a"], ("b",))


def test_the_text_of_what_was_added_or_changed_is_given_for_keeping(folder):
    folder.write("a", good())
    assert folder.load().sources == {"a": good()}
    assert folder.load().sources == {}


# Removal


def test_a_removed_file_takes_force_after_ten_seconds_of_absence(folder):
    folder.write("a", good())
    folder.write("b", good())
    folder.load(now=100.0)
    folder.remove("a")
    reload = folder.load(now=103.0)
    assert (list(reload.agents), reload.absent, reload.recheck_at) == (["a", "b"], {"a": 103.0}, 113.0)
    assert folder.load(now=112.9).absent == {"a": 103.0}
    reload = folder.load(now=113.0)
    assert (reload.removed, list(reload.agents), reload.recheck_at) == (("a",), ["b"], None)


def test_a_file_that_comes_back_in_time_was_never_away(folder):
    folder.write("a", good())
    folder.write("b", good())
    folder.load(now=100.0)
    folder.remove("a")
    folder.load(now=103.0)
    folder.write("a", good())
    reload = folder.load(now=120.0)
    assert (reload.absent, reload.is_change) == ({}, False)
    folder.remove("a")
    assert folder.load(now=121.0).absent == {"a": 121.0}


def test_an_absence_is_counted_on_across_a_restart_and_anew_when_the_clock_was_set_back(folder):
    folder.write("b", good())
    folder.write("a", good())
    agent = folder.load().agents["a"]
    folder.remove("a")
    folder.in_force["a"] = InForce(agent=agent, absent_since=95.0)
    assert folder.load(now=105.0).removed == ("a",)
    folder.in_force["a"] = InForce(agent=agent, absent_since=9000.0)
    reload = folder.load(now=100.0)
    assert (reload.absent, reload.recheck_at) == ({"a": 100.0}, 110.0)


def test_a_file_with_errors_is_no_absence(folder):
    folder.write("a", good())
    folder.load(now=0.0)
    folder.write("a", "x = ")
    assert "a" in folder.load(now=1000.0).agents


# The folder


def empty(folder):
    for path in folder.path.glob("*.toml"):
        path.unlink()


def missing(folder):
    folder.path.rename(folder.path.with_name("elsewhere"))


def a_file(folder):
    missing(folder)
    folder.path.write_text("x")


def writable_by_all(folder):
    folder.path.chmod(0o777)


@pytest.mark.parametrize("fault", [empty, missing, a_file, writable_by_all])
def test_a_folder_that_cannot_be_taken_at_its_word_changes_nothing(folder, fault):
    before = family(folder)
    fault(folder)
    for now in (100.0, 1000.0):
        reload = folder.load(now=now)
        assert reload.agents == before.agents
        assert not reload.is_change
        assert reload.absent == {}
        assert len(reload.attention) == 1


def test_an_empty_folder_is_taken_at_its_word_when_told_to(folder):
    family(folder)
    empty(folder)
    assert "swarmd reload --allow-empty" in folder.load().attention[0]
    reload = folder.load(allow_empty=True)
    assert (reload.removed, reload.attention) == (("leaf", "mid", "root"), ())
    assert folder.load().attention == ()


def test_a_missing_folder_is_not_an_empty_one_even_when_told_to(folder):
    family(folder)
    missing(folder)
    assert len(folder.load(allow_empty=True).agents) == 3


def test_an_empty_folder_of_a_new_swarm_is_nothing_to_tell(folder):
    reload = folder.load()
    assert (reload.attention, reload.problems, reload.agents) == ((), (), {})


def test_a_missing_folder_of_a_new_swarm_is_told(folder):
    folder.path.rmdir()
    assert folder.load().attention == (f"{folder.path} does not exist: the agents in force stay as they are",)


def test_absence_counts_anew_after_the_folder_was_gone(folder):
    family(folder)
    folder.remove("leaf")
    folder.load(now=100.0)
    missing(folder)
    folder.load(now=105.0)
    folder.path.with_name("elsewhere").rename(folder.path)
    assert folder.load(now=200.0).absent == {"leaf": 200.0}


# Size


def test_a_thousand_agents_are_loaded_rescanned_and_reloaded(folder):
    for number in range(1000):
        parent = f"a{(number - 1) // 4}" if number else None
        folder.write(f"a{number}", good(parent, f"schedule = '{number % 60} {number // 60} * * *'\n"))
    assert len(folder.load().agents) == 1000
    before = folder.scanned
    assert all(folder.scan().says_same_as(before) for _ in range(5))
    folder.write("a7", good("a1", "enabled = false\n"))
    assert folder.load().changed == ("a7",)
