"""swarmd.toml: the daemon's settings, the defaults of agents, and what holds while the file is bad."""

from __future__ import annotations

import os
import time

import pytest

from swarmd.config.merge import merged
from swarmd.config.settings import read_settings
from tests.config.kit import GOOD, KINDS, LATER_NS, good

PROMPT = 'system_prompt = "x"\n'


def read(folder, previous=None, *, required=False):
    return read_settings(
        folder.settings_path,
        kinds=KINDS,
        guard=folder.guard,
        now_ns=time.time_ns() + LATER_NS,
        previous=previous,
        required=required,
    )


def test_without_a_file_the_manuals_values_hold(folder):
    settings = read(folder)
    assert (settings.max_sessions, settings.max_processes) == (8, 2 * len(os.sched_getaffinity(0)))
    assert (settings.drain_timeout_seconds, settings.reload) == (60, "auto")
    assert settings.problems == ()
    assert settings.defaults is not None
    assert settings.defaults.raw == {}


def test_a_file_that_stays_away_or_unchanged_gives_the_same_settings(folder):
    settings = read(folder)
    assert read(folder, settings) is settings
    folder.settings_path.write_text("")
    settings = read(folder, settings)
    assert read(folder, settings) is settings


def test_a_file_that_someone_named_must_be_there(folder):
    settings = read(folder, required=True)
    assert [str(problem) for problem in settings.problems] == ["swarmd.toml: does not exist"]
    assert settings.defaults is None


def test_all_values_are_taken(folder):
    folder.settings_path.write_text(
        '[daemon]\nmax_sessions = 3\nmax_processes = 4\ndrain_timeout = "2m"\nreload = "manual"\n'
    )
    settings = read(folder)
    assert (settings.max_sessions, settings.max_processes) == (3, 4)
    assert (settings.drain_timeout_seconds, settings.reload) == (120, "manual")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[daemon]\nmax_sessions = 0", "2: daemon.max_sessions: expected at least 1, found 0"),
        ("[daemon]\nmax_session = 1", "2: daemon.max_session: unknown field (did you mean 'max_sessions'?)"),
        ("[deamon]\n", "1: deamon: unknown field (did you mean 'daemon'?)"),
        ("[retention]\n", "1: retention: unknown field"),
        ("[daemon]\nreload = 'atuo'", "2: daemon.reload: expected 'auto' or 'manual', found 'atuo' (did you mean 'auto'?)"),
        ("[daemon]\ndrain_timeout = 60", "2: daemon.drain_timeout: expected a duration from 0s to 1d, such as '90s', found 60"),
        ("x =", "1: not valid TOML: Invalid value"),
        ("[defaults]\ntimout = 1", "2: defaults.timout: unknown field (did you mean 'timeout' in [limits]?)"),
        ("[defaults.limits]\nretries = -1", "2: defaults.limits.retries: expected at least 0, found -1"),
        ("[defaults]\nschedule = 'x'", "2: defaults.schedule: 1 field, 5 are wanted"),
        ("[defaults.runner]\nkind = 'comand'", "2: defaults.runner.kind: expected 'command' or 'model', found 'comand'"),
        ("[defaults.runner]\ncommand = ['a']", "1: defaults.runner.kind: is missing; expected 'command' or 'model'"),
        ("[defaults.runner]\nkind = 'command'\nenvv = 1", "3: defaults.runner.envv: unknown field (did you mean 'env'?)"),
        ("[defaults]\nsystem_prompt_file = 'no.md'", "2: defaults.system_prompt_file: 'no.md' does not exist"),
        ("defaults = 5", "1: defaults: expected a table, found 5"),
    ],
)  # fmt: skip
def test_a_bad_file_is_told_with_its_line(folder, text, sentence):
    folder.settings_path.write_text(text)
    problems = [str(problem) for problem in read(folder).problems]
    assert len(problems) == 1
    assert problems[0].startswith(f"swarmd.toml:{sentence}")


def test_while_the_file_is_bad_the_last_good_settings_hold(folder):
    folder.settings_path.write_text("[daemon]\nmax_sessions = 3\n[defaults.limits]\nretries = 2\n")
    first = read(folder)
    folder.settings_path.write_text("[daemon]\nmax_sessions = 4\nmax_processes = 'x'\n")
    second = read(folder, first)
    assert (second.max_sessions, second.defaults) == (3, first.defaults)
    assert len(second.problems) == 1
    assert read(folder, second) is second
    folder.settings_path.write_text("[daemon]\nmax_sessions = 5\n")
    third = read(folder, second)
    assert (third.max_sessions, third.problems) == (5, ())


def test_a_file_that_goes_is_no_file(folder):
    folder.settings_path.write_text("[daemon]\nmax_sessions = 3\n")
    first = read(folder)
    folder.settings_path.unlink()
    assert read(folder, first).max_sessions == 8


def test_at_a_start_with_a_bad_file_no_agent_changes_and_none_is_let_in(folder):
    folder.settings_path.write_text("[defaults.limits]\nretries = 2\n")
    folder.write("old", good())
    assert folder.load().agents["old"].limits.retries == 2
    folder.settings = None  # as after a restart
    folder.settings_path.write_text("[defaults.limits]\nretries = \n")
    folder.write("old", good(more="enabled = false\n"))
    folder.write("new", good())
    folder.write("bad", "x = \n")
    reload = folder.load()
    assert list(reload.agents) == ["old"]
    assert (reload.agents["old"].limits.retries, reload.agents["old"].enabled) == (2, True)
    assert len(reload.attention) == 1
    assert "[defaults] are part of every agent" in reload.attention[0]
    assert [problem.file for problem in reload.problems] == ["swarmd.toml", "agents.d/bad.toml"]


def test_defaults_are_laid_under_every_agent_table_by_table(folder):
    folder.settings_path.write_text(
        "[defaults.limits]\nretries = 2\ntimeout = '5m'\n[defaults.sandbox]\nwrite = ['shared', '/x']\n"
    )
    folder.write("a", GOOD + "[limits]\ntimeout = '1m'\n")
    folder.write("b", GOOD + "[sandbox]\nwrite = ['own']\n")
    agents = folder.load().agents
    assert (agents["a"].limits.retries, agents["a"].limits.timeout_seconds) == (2, 60)
    assert agents["a"].sandbox.write == (f"{folder.path.parent}/shared", "/x")
    assert agents["b"].sandbox.write == (f"{folder.path}/own",)


def test_a_change_of_defaults_changes_the_agents(folder):
    folder.write("a", good())
    folder.load()
    folder.settings_path.write_text("[defaults]\ndescription = 'all'\n")
    assert folder.load().changed == ("a",)


def test_runner_options_come_only_from_defaults_of_the_same_kind(folder):
    folder.settings_path.write_text(
        "[defaults.runner]\nkind = 'command'\ncommand = ['d']\npass_env = ['A']\nenv = { X = '1' }\n"
    )
    folder.write("same", PROMPT + "runner = { kind = 'command', env = { Y = '2' } }\n")
    folder.write("none", PROMPT)
    folder.write("other", PROMPT + "runner = { kind = 'model', model = 'm' }\n")
    agents = folder.load().agents
    assert agents["same"].runner_options["command"] == ["d"]
    assert agents["same"].runner_options["env"] == {"X": "1", "Y": "2"}
    assert agents["none"].runner_kind == "command"
    assert agents["other"].runner_options == {"model": "m", "effort": "low"}


def test_an_own_schedule_or_prompt_takes_the_place_of_the_defaults(folder):
    (folder.path.parent / "all.md").write_text("for all")
    folder.settings_path.write_text(
        "[defaults]\nsystem_prompt_file = 'all.md'\n[defaults.schedule]\ncron = '0 * * * *'\ntimezone = 'UTC'\n"
    )
    runner = "runner = { kind = 'command', command = ['a'] }\n"
    folder.write("a", runner + "schedule = '5 * * * *'\n")
    folder.write("b", PROMPT + runner + "schedule.every = '5m'\n")
    agents = folder.load().agents
    assert (agents["a"].when.cron, agents["a"].when.timezone, agents["a"].system_prompt) == (
        "5 * * * *",
        "UTC",
        "for all",
    )
    assert (agents["b"].when.cron, agents["b"].when.every_seconds, agents["b"].system_prompt) == (
        None,
        300,
        "x",
    )


def test_an_edit_of_the_defaults_prompt_file_changes_the_agents(folder):
    (folder.path.parent / "all.md").write_text("one")
    folder.settings_path.write_text("[defaults]\nsystem_prompt_file = 'all.md'\n")
    folder.write("a", "runner = { kind = 'command', command = ['a'] }\n")
    assert folder.load().agents["a"].system_prompt == "one"
    (folder.path.parent / "all.md").write_text("two")
    assert folder.load().agents["a"].system_prompt == "two"


def test_a_parent_for_all_is_not_its_own_parent(folder):
    folder.settings_path.write_text("[defaults]\nparent = 'root'\n")
    folder.write("root", good())
    folder.write("leaf", good())
    tree = folder.load().tree
    assert (tree.parent("root"), tree.parent("leaf")) == (None, "root")


def test_a_fault_that_only_shows_in_an_agent_is_told_where_its_value_stands(folder):
    folder.settings_path.write_text("[defaults.limits]\ntokens_per_session = 5\n")
    folder.write("a", good())
    (problem,) = folder.load().problems
    assert str(problem).startswith(
        "swarmd.toml:2: defaults.limits.tokens_per_session: a limit that the runner cannot"
    )


def test_merging_leaves_odd_shapes_for_the_check_to_find():
    assert merged({"limits": 5}, {"limits": {"retries": 1}}) == {"limits": {"retries": 1}}
    assert merged({"limits": {"retries": 1}}, {"limits": 5}) == {"limits": 5}
    assert merged({"a": {"b": {"c": 1, "d": 2}}}, {"a": {"b": {"c": 3}}}) == {"a": {"b": {"c": 3, "d": 2}}}
