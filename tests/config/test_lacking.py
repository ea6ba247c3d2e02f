"""What a good file asks for and the machine does not have: warnings that name it, and none where all is there."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from swarmd.config.lacking import lacking, warnings
from swarmd.config.problems import field_name
from swarmd.core.agent import Agent, Consolidate, Hooks, MemoryRules, Sandbox, Success, When
from swarmd.service.loading import kinds

KINDS = kinds()
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture
def folder_of_agent(tmp_path: Path) -> Path:
    program = tmp_path / "act.sh"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "plain.txt").write_text("")
    (tmp_path / "plain.txt").chmod(0o644)
    (tmp_path / "work").mkdir()
    return tmp_path


def told(folder: Path, runner=None, environ=None, **fields) -> list[str]:
    options = {"command": ["./act.sh"], "workdir": None, "env": {}, "pass_env": [], **(runner or {})}
    agent = Agent(name="bob", folder=str(folder), runner_options=options, **fields)
    found = lacking(agent, environ or {"PATH": str(folder)}, NOW)
    assert all(complaint.severity == "warning" for complaint in found)
    return [f"{field_name(complaint.path)}: {complaint.text}" for complaint in found]


def test_nothing_is_said_where_all_is_there(folder_of_agent):
    folder = folder_of_agent
    assert told(folder, {"command": ["act.sh"], "workdir": "work", "pass_env": ["X"]}, {"PATH": str(folder), "X": ""},
                sandbox=Sandbox(write=(str(folder / "work"),), home=str(folder)),
                success=Success(command=("./act.sh",)),
                when=When(at="2026-12-24T18:00", jitter_seconds=60, catch_up="last")) == []  # fmt: skip


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("./no.sh", "there is no program {0}/no.sh"),
        ("bin/no.sh", "there is no program {0}/bin/no.sh"),
        ("/nowhere/no", "there is no program /nowhere/no"),
        ("./plain.txt", "{0}/plain.txt is not executable; see chmod +x"),
        ("./work", "{0}/work is not executable; see chmod +x"),
        ("no", "no program 'no' is on PATH"),
        ("plain.txt", "no program 'plain.txt' is on PATH; one beside the agent file is './plain.txt'"),
    ],
)
def test_a_program_that_cannot_run_is_named(command, sentence, folder_of_agent):
    wanted = sentence.format(folder_of_agent)
    assert told(folder_of_agent, {"command": [command]}) == [f"runner.command[0]: {wanted}"]
    assert told(folder_of_agent, success=Success(command=(command,))) == [f"success.command[0]: {wanted}"]


def test_a_path_that_the_agent_sets_is_the_one_that_is_searched(folder_of_agent):
    runner = {"command": ["act.sh"], "env": {"PATH": str(folder_of_agent)}}
    assert told(folder_of_agent, runner, {"PATH": "/nowhere"}) == []


def test_folders_and_variables_that_are_missing_are_named(folder_of_agent):
    folder = folder_of_agent
    found = told(folder, {"workdir": "nope", "pass_env": ["GAME_TOKEN"]},
                 sandbox=Sandbox(write=(str(folder), "/nowhere/w"), home="/nowhere/h"))  # fmt: skip
    assert found == [
        f"runner.workdir: {folder}/nope does not exist; make it, or sessions fail",
        "runner.pass_env[0]: GAME_TOKEN is not set here; the daemon's own environment must have it, or sessions go without",
        "sandbox.write[1]: /nowhere/w does not exist; make it, or sessions fail",
        "sandbox.home: /nowhere/h does not exist; make it, or sessions fail",
    ]


@pytest.mark.parametrize(
    ("when", "sentences"),
    [
        (When(at="2026-11-30T12:59", timezone="Europe/Berlin"), ["schedule.at: 2026-11-30T12:59 is past: it comes no more"]),
        (When(at="2026-11-30T13:01", timezone="Europe/Berlin"), []),
        (When(every_seconds=900, jitter_seconds=901), ["schedule.jitter: 15m1s is longer than the 15m"]),
        (When(every_seconds=900, jitter_seconds=900), []),
        (When(cron="0,5 9 * * 1", jitter_seconds=600), ["schedule.jitter: 10m is longer than the 5m"]),
        (When(cron="0 0 1 1 *", jitter_seconds=600), []),
        (When(jitter_seconds=5, catch_up="all", overlap="queue"),
         [f"schedule.{name}: means nothing without a schedule" for name in ("jitter", "catch_up", "overlap")]),
    ],
)  # fmt: skip
def test_a_schedule_that_cannot_mean_what_it_says_is_told(when, sentences, folder_of_agent):
    found = told(folder_of_agent, when=when)
    assert len(found) == len(sentences)
    assert all(one.startswith(sentence) for one, sentence in zip(found, sentences, strict=True)), found


def test_runners_of_other_kinds_are_not_looked_into(folder_of_agent):
    agent = Agent(name="bob", folder=str(folder_of_agent), runner_kind="model", runner_options={"model": "x"})
    assert lacking(agent, {}, NOW) == []


def test_warnings_have_lines_and_spare_what_the_defaults_say_of_schedules(folder):
    folder.settings_path.write_text(
        "[defaults]\nschedule = { jitter = '1m' }\nsandbox = { write = ['out'] }\n"
    )
    folder.write("bob", 'system_prompt = "x"\nrunner = { kind = "command", command = ["./no.sh"] }\n')
    folder.write(
        "eve",
        'system_prompt = "x"\nrunner = { kind = "command", command = ["/bin/true"] }\nschedule.overlap = "queue"\n',
    )
    folder.write("bad", "x = ")
    checked = folder.check()
    found = [str(one).split(": warning: ") for one in warnings(checked, folder.settings.defaults, {}, NOW)]
    assert [(place, text.partition(":")[0]) for place, text in found] == [
        ("agents.d/bob.toml:2", "runner.command[0]"),
        ("agents.d/eve.toml:3", "schedule.overlap"),
        ("swarmd.toml:3", "defaults.sandbox.write[0]"),  # once, however many agents have it
    ]


def test_a_file_with_errors_still_gets_its_warnings(folder):
    folder.write(
        "bob",
        'system_prompt = 7\nbogus = 1\nrunner = { kind = "command", command = ["./no.sh"], workdir = "gone" }\n',
    )
    checked = folder.check()
    assert [problem.field for problem in checked.problems] == ["system_prompt", "bogus"]
    found = warnings(checked, folder.settings.defaults, {}, NOW)
    assert [problem.field for problem in found] == ["runner.command[0]", "runner.workdir"]


@pytest.mark.parametrize(
    ("command", "workdir", "warned"),
    [
        (["sh", "act.sh"], None, True),
        (["sh", "act.sh"], "work", True),
        (["sh", "act.sh"], ".", False),
        (["sh", "-c", "act.sh now"], None, False),
        (["sh", "nothing.sh"], None, False),
        (["/bin/sh", "/bin/true"], None, False),
    ],
)
def test_a_script_beside_the_agent_file_that_the_program_would_not_find_is_told(
    command, workdir, warned, folder_of_agent
):
    found = told(folder_of_agent, {"command": command, "workdir": workdir}, {"PATH": "/usr/bin:/bin"})
    sentence = (
        "runner.command[1]: act.sh is beside the agent file, and the program is not started there: write the whole path, "
        "or make it the program itself, './act.sh'"
    )
    assert [line for line in found if "is beside the agent file" in line] == ([sentence] if warned else [])


def test_a_summarizer_and_a_consolidator_that_cannot_be_started_are_named(folder_of_agent):
    def of(**fields):
        return told(folder_of_agent, {"command": ["./act.sh"]}, **fields)

    assert of(memory=MemoryRules(summarizer_command=("./no.sh",))) == [
        f"memory.summarizer_command[0]: there is no program {folder_of_agent}/no.sh"
    ]
    assert of(consolidate=Consolidate(command=("no",))) == [
        "consolidate.command[0]: no program 'no' is on PATH"
    ]
    (line,) = of(memory=MemoryRules(summarizer_command=("./act.sh", "act.sh")))
    assert line.startswith(
        "memory.summarizer_command[1]: act.sh is beside the agent file, and the program is not started"
    )
    assert (
        of(memory=MemoryRules(summarizer_command=("./act.sh",)), consolidate=Consolidate(command=("act.sh",)))
        == []
    )


def test_a_summarizing_model_without_a_key_is_named(folder_of_agent):
    def of(environ, kind="command", **options):
        agent = Agent(
            name="bob", folder=str(folder_of_agent), runner_kind=kind, memory=MemoryRules(summarizer_model="small"),
            runner_options={"command": ["act.sh"]} if kind == "command" else KINDS[kind].options(model="m").model_dump(),
        )  # fmt: skip
        found = lacking(agent, {"PATH": str(folder_of_agent), **environ}, NOW, KINDS)
        return [f"{field_name(complaint.path)}: {complaint.text}" for complaint in found]

    (line,) = of({})
    assert line.startswith(
        "memory.summarizer_model: no compaction can succeed: credential env:ANTHROPIC_API_KEY: the daemon's environment"
    )
    assert of({"ANTHROPIC_API_KEY": "k"}) == []
    assert [line.partition(":")[0] for line in of({}, "anthropic")] == ["runner.credential"], "said once"


def test_that_nobody_is_asked_before_a_compaction_is_told_where_one_may_think_so(folder_of_agent):
    def of(**fields):
        return told(folder_of_agent, {"command": ["./act.sh"]}, **fields)

    hooks = Hooks(before_commit=("./act.sh",), after_commit=("./act.sh",))
    sentence = "for compactions, by which swarmd itself puts a summary in the place of MEMORY.md"
    by_itself = {"summarizer_command": ("./act.sh",)}
    assert of(hooks=hooks, memory=MemoryRules(**by_itself)) == [f"hooks.before_commit: is not run {sentence}"]
    assert of(memory=MemoryRules(approval=("*.md",), **by_itself)) == [
        f"memory.approval: is not asked {sentence}"
    ]
    assert of(memory=MemoryRules(approval=("policies/**",), **by_itself)) == []
    assert of(hooks=hooks, memory=MemoryRules(approval=("*.md",))) == [], "none comes by itself"


def test_a_window_in_which_no_summary_can_be_made_is_named(folder_of_agent):
    def of(window, **more):
        return told(
            folder_of_agent, {"command": ["./act.sh"]}, memory=MemoryRules(context_tokens=window, **more)
        )

    (line,) = of(700, summarizer_command=("./act.sh",))
    assert line.startswith(
        "memory.context_tokens: no compaction can succeed: the summarizer's window of 700 tokens"
    )
    least = int(line.split("context_tokens to at least ")[1].split(", or")[0].replace(",", ""))
    assert of(least, summarizer_command=("./act.sh",), summary_tokens=140) == []
    assert of(700) == [], "nobody is asked"
    assert of(2000, summarizer_command=("./act.sh",)) == []
