"""Agent files judged one by one: the manual's samples, a corpus of broken files, and what is made of good ones."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, model_validator

from swarmd.config.check import Rules, check_file
from swarmd.config.document import Document
from swarmd.config.files import FileRead
from swarmd.config.kinds import RunnerKind
from swarmd.config.model import TABLES, AgentFile
from swarmd.config.scan import ScannedFile
from swarmd.config.settings import Defaults
from swarmd.core.agent import (
    Agent,
    Limits,
    MemoryRules,
    Sandbox,
    Success,
    When,
    definition_hash,
    from_json,
    to_json,
)
from tests.config.kit import DATA, GOOD, KINDS, Folder, good

FULL = (DATA / "agent_full.toml").read_text()


def loaded(folder: Folder, text: str, name: str = "bob", **others: str) -> Agent:
    for other, its_text in others.items():
        folder.write(other.replace("_", "-"), its_text)
    folder.write(name, text)
    reload = folder.load()
    assert [str(problem) for problem in reload.problems] == []
    return reload.agents[name]


def test_the_smallest_sample_loads_with_the_defaults_of_the_manual(folder):
    agent = loaded(folder, (DATA / "agent_small.toml").read_text(), "disk")
    assert agent == Agent(
        name="disk",
        system_prompt="You watch the disk.",
        folder=str(folder.path),
        runner_kind="command",
        runner_options={"command": ["./bin/disk.py"], "workdir": None, "env": {}, "pass_env": []},
        when=When(cron="0 * * * *", timezone="Pacific/Auckland"),
    )
    assert agent.when == When(
        cron="0 * * * *",
        timezone="Pacific/Auckland",
        jitter_seconds=0,
        catch_up="none",
        catch_up_max_age_seconds=86400,
        overlap="skip",
    )
    assert agent.limits == Limits(
        timeout_seconds=3600,
        retries=0,
        retry_delay_seconds=60,
        pause_after_failures=10,
        handoffs_per_session=20,
        handoff_depth=8,
        sessions_per_cause=50,
    )
    assert agent.sandbox == Sandbox(level="auto", write=(), home="private", network=True)
    assert (agent.enabled, agent.keys_scope, agent.memory.prompt_tokens) == (True, "below", 4000)


def test_of_the_full_sample_only_what_this_version_lacks_is_refused(folder):
    folder.write("polybreak.md", "Keep it moving.")
    folder.write("love2d-studio", good())
    folder.write("game-voidrunner", good())
    folder.write("polybreak", FULL)
    problems = folder.load().problems
    assert {problem.field for problem in problems} == {
        "wake", "gate", "limits.sessions_per_day", "limits.tokens_per_day", "limits.usd_per_day",
        "limits.tokens_per_session",
    }  # fmt: skip
    lines = FULL.split("\n")
    for problem in problems:
        assert problem.field.split(".")[-1] in lines[problem.line - 1]
        if problem.field != "limits.tokens_per_session":
            assert problem.hint == "this version of swarmd does not have it"


def without_what_is_missing(text: str) -> str:
    text = re.sub(r"\[(wake|gate)\].*?\n\n", "", text, flags=re.DOTALL)
    return "".join(
        line
        for line in text.splitlines(keepends=True)
        if not re.match(r"(\w+_per_day|tokens_per_session) ", line)
    )


def test_the_rest_of_the_full_sample_loads_with_just_its_values(folder):
    folder.write("polybreak.md", "Keep it moving.\r\nAlways.\r\n")
    text = without_what_is_missing(FULL)
    agent = loaded(folder, text, "polybreak", love2d_studio=good(), game_voidrunner=good())
    assert agent == Agent(
        name="polybreak",
        description="Keeps Polybreak moving",
        parent="love2d-studio",
        enabled=True,
        system_prompt="Keep it moving.\nAlways.\n",
        folder=str(folder.path),
        runner_kind="command",
        runner_options={
            "command": ["python3", "agent.py"],
            "workdir": "/srv/polybreak",
            "env": {"LANG": "C.UTF-8"},
            "pass_env": ["GAME_TOKEN"],
        },
        when=When(
            cron="0 * * * *",
            timezone="Europe/Berlin",
            jitter_seconds=120,
            catch_up="last",
            catch_up_max_age_seconds=86400,
            overlap="skip",
        ),
        sandbox=Sandbox(level="auto", write=("/srv/polybreak",), home="private", network=True),
        limits=Limits(
            timeout_seconds=1800,
            retries=1,
            retry_delay_seconds=60,
            pause_after_failures=5,
            handoffs_per_session=20,
            handoff_depth=5,
            sessions_per_cause=50,
        ),
        memory=MemoryRules(prompt_tokens=4000, read_only=("policies/**",), reads=("game-voidrunner",)),
        keys_scope="below",
        success=Success(keys_changed=("last_run",), command=("test", "-s", "report.html")),
    )


def test_a_definition_survives_the_store_unchanged(folder):
    folder.write("polybreak.md", "x")
    agent = loaded(
        folder, without_what_is_missing(FULL), "polybreak", love2d_studio=good(), game_voidrunner=good()
    )
    assert from_json(to_json(agent)) == agent
    assert definition_hash(from_json(to_json(agent))) == definition_hash(agent)


def test_a_runner_that_counts_tokens_may_have_a_limit_of_them(folder):
    text = (
        'system_prompt = "x"\n[runner]\nkind = "model"\nmodel = "m"\n[limits]\ntokens_per_session = 400_000\n'
    )
    agent = loaded(folder, text)
    assert agent.limits.tokens_per_session == 400_000
    assert agent.runner_options == {"model": "m", "effort": "low"}
    refused = folder.problems(GOOD + "[limits]\ntokens_per_session = 5\n")
    assert [problem.split(":")[:3] for problem in refused] == [
        ["agents.d/bob.toml", "4", " limits.tokens_per_session"]
    ]
    assert (
        "a limit that the runner cannot measure: 'command' tells too late, or not, how many tokens it uses"
        in refused[0]
    )


P = 'system_prompt = "x"\n'
R = 'runner = { kind = "command", command = ["a"] }\n'


def test_a_time_that_the_clocks_leave_out_is_kept_as_it_was_written(folder):
    once = "[schedule]\nat = '2026-03-29T02:30'\ntimezone = 'Europe/Berlin'\n"
    assert loaded(folder, GOOD + once).when.at == "2026-03-29T02:30"


def test_an_interval_becomes_seconds(folder):
    assert loaded(folder, GOOD + "[schedule]\nevery = 'PT15M'\n").when.every_seconds == 900


def test_without_a_zone_the_hosts_is_in_force(folder):
    assert loaded(folder, "schedule = '0 13 * * *'\n" + GOOD).when.timezone == "Pacific/Auckland"


def test_paths_start_at_the_file_that_names_them(folder):
    agent = loaded(folder, GOOD + "[sandbox]\nwrite = ['out', '../x', '/abs/./y']\nhome = 'home'\n")
    base = folder.path.parent
    assert agent.sandbox.write == (f"{folder.path}/out", f"{base}/x", "/abs/y")
    assert agent.sandbox.home == f"{folder.path}/home"


def test_places_that_no_session_may_write_are_refused(folder):
    rules = Rules(kinds=KINDS, write_problems=lambda paths: [f"{path!r} reaches state" for path in paths])
    folder.write("bob", GOOD + "[sandbox]\nwrite = [\n 'a',\n]\nhome = '/h'\n")
    judged = check_file(folder.scan().files["bob"], Defaults(), rules)
    assert [str(problem) for problem in judged.problems] == [
        f"agents.d/bob.toml:5: sandbox.write[0]: '{folder.path}/a' reaches state",
        "agents.d/bob.toml:7: sandbox.home: '/h' reaches state",
    ]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"caf\xe9", "is not UTF-8 (byte 0xe9); save it as UTF-8 on line 1"),
        (b"a\x00b", "holds a NUL character"),
        (b"x" * (1024 * 1024 + 1), "is larger than 1048576 bytes, the most that is read"),
    ],
)
def test_a_prompt_file_that_cannot_be_a_prompt_is_refused(folder, data, reason):
    folder.write("p.md", data)
    problems = folder.problems("system_prompt_file = 'p.md'\n" + R)
    assert problems == [f"agents.d/bob.toml:1: system_prompt_file: 'p.md' {reason}"]


def test_a_prompt_file_that_everyone_may_write_is_refused(folder):
    folder.write("p.md", "x").chmod(0o666)
    (problem,) = folder.problems("system_prompt_file = 'p.md'\n" + R)
    assert "'p.md' refused: everyone may write it" in problem


def test_a_prompt_is_taken_byte_for_byte_but_for_line_ends_and_bom(folder):
    text = '{"a": {x}} {0} %s $HOME ${x} \\n {{\n'
    folder.write("p.md", b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert loaded(folder, "system_prompt_file = 'p.md'\n" + R).system_prompt == text


def test_an_edit_of_the_prompt_file_changes_the_agent(folder):
    folder.write("p.md", "one")
    loaded(folder, "system_prompt_file = 'p.md'\n" + R)
    folder.write("p.md", "two")
    reload = folder.load()
    assert reload.changed == ("bob",)
    assert reload.agents["bob"].system_prompt == "two"


class BadlyWritten(BaseModel):
    """A plug-in's options whose validator is broken."""

    @model_validator(mode="before")
    @classmethod
    def broken(cls, value):
        raise RuntimeError("oh")


class Explaining(BaseModel):
    """A plug-in's options that explain themselves."""

    @model_validator(mode="before")
    @classmethod
    def explain(cls, value):
        raise ValueError("SWARMD_X cannot be set" if "x" in value else "Nothing fits")


@pytest.mark.parametrize(
    ("options", "table", "text"),
    [
        (BadlyWritten, "{ kind = 'x' }", "2: runner: the runner 'x' failed to check it: RuntimeError('oh')"),
        (Explaining, "{ kind = 'x' }", "2: runner: nothing fits"),
        (Explaining, "{ kind = 'x', x = 1 }", "2: runner: SWARMD_X cannot be set"),
    ],
)
def test_a_runners_own_checks_speak_for_themselves_and_stop_only_its_files(folder, options, table, text):
    folder.write("bob", f"{P}runner = {table}\n")
    rules = Rules(kinds={"x": RunnerKind(options=options)})
    judged = check_file(folder.scan().files["bob"], Defaults(), rules)
    assert [str(problem) for problem in judged.problems] == [f"agents.d/bob.toml:{text}"]


WORDS = st.sampled_from(
    [
        *AgentFile.model_fields,
        *(name for table in TABLES.values() for name in table.model_fields),
        "kind",
        "command",
        "x",
    ]
)
TEXTS = st.one_of(
    st.text(max_size=5),
    st.sampled_from(
        [
            "command",
            "model",
            "0 * * * *",
            "5m",
            "bob",
            "auto",
            "/x",
            "~",
            "\x00",
            "Europe/Berlin",
            "2026-12-24T18:00",
        ]
    ),
)
VALUES = st.recursive(
    st.one_of(TEXTS, st.booleans(), st.integers(), st.floats(), st.datetimes()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.one_of(WORDS, TEXTS), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(st.dictionaries(WORDS, VALUES, max_size=6), st.dictionaries(WORDS, VALUES, max_size=3))
def test_whatever_a_file_holds_it_is_an_agent_or_has_errors_and_nothing_raises(data, defaults):
    read = FileRead(path=Path("/x/agents.d/bob.toml"))
    file = ScannedFile(name="bob", file="a", read=read, document=Document(file="a", data=data))
    laid_under = Defaults(raw=defaults, document=Document(file="s", data={"defaults": defaults}))
    judged = check_file(file, laid_under, Rules(kinds=KINDS))
    assert (judged.agent is None) == any(problem.is_error for problem in judged.problems)
    assert all(str(problem).isprintable() for problem in judged.problems)
    if judged.agent is not None:
        assert from_json(to_json(judged.agent)) == judged.agent


def test_only_files_that_changed_are_judged_again(folder):
    for number in range(3):
        folder.write(f"a{number}", good())
    first = folder.check()
    folder.write("a1", good(more="enabled = false\n"))
    second = folder.check()
    assert [first.files[name] is second.files[name] for name in ("a0", "a1", "a2")] == [True, False, True]


def test_other_rules_judge_everything_again(folder):
    folder.write("bob", good())
    folder.check()
    other = dataclasses.replace(Rules(kinds=KINDS), host_zone="Asia/Tokyo")
    folder.cache.start(other, folder.settings.defaults)
    assert folder.cache.get(folder.scanned.files["bob"]) is None
