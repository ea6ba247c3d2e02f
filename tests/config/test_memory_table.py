"""Tables of memory and its upkeep: what they become, and which of their fields do not go together."""

import pytest

from swarmd.core.agent import Adaptive, Consolidate, Hooks, SharedFolder, from_json, to_json
from swarmd.core.owners import (
    agent_of_owner,
    owner_problem,
    shared_name,
    shared_owner,
    subject_of,
    subject_owner,
)
from tests.config.kit import good

FULL = good(
    more="""
skills = ["skills", "/srv/skills"]
[schedule]
adaptive = { min = "10m", max = "6h", work = ["backlog"] }
[memory]
log = true
compact_at = 0.8
context_tokens = 100_000
summary_tokens = 500
summarizer_model = "small"
approval = ["policies/**"]
[[memory.shared]]
name = "team"
write = true
approval = true
[[memory.shared]]
name = "all-hands"
[authority]
approval = ["deploy.*"]
approval_expires = "2d"
[hooks]
before_commit = ["./look"]
timeout = "5s"
[consolidate]
after = "30m"
command = ["./tidy", "up"]
timeout = "5m"
"""
)

MODEL = """system_prompt = "You watch."
runner = { kind = "model", model = "large" }
[consolidate]
cron = "0 3 * * *"
model = "small"
tokens_per_session = 1000
"""


def test_the_tables_of_memory_become_values_that_survive_the_store(folder):
    folder.write("bob", FULL)
    agent = folder.load().agents["bob"]
    assert agent.memory.shared == (
        SharedFolder(name="team", write=True, approval=True),
        SharedFolder(name="all-hands"),
    )
    assert (agent.memory.log, agent.memory.compact_at, agent.memory.summary_tokens) == (True, 0.8, 500)
    assert (agent.memory.summarizer_model, agent.memory.approval) == ("small", ("policies/**",))
    assert agent.when.adaptive == Adaptive(min_seconds=600, max_seconds=21600, work=("backlog",))
    assert agent.hooks == Hooks(before_commit=("./look",), timeout_seconds=5)
    assert agent.consolidate == Consolidate(after_seconds=1800, command=("./tidy", "up"), timeout_seconds=300)
    assert (agent.approval_keys, agent.approval_expires_seconds) == (("deploy.*",), 2 * 86400)
    assert agent.skills == (str(folder.path / "skills"), "/srv/skills")
    assert from_json(to_json(agent)) == agent


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("[memory]\npersistent = false\nlog = true", "5: memory.log: is for a memory that is kept"),
        (
            "[memory]\nlog = true\nread_only = ['*.md']",
            "4: memory.log: is written into MEMORY.md, and read_only",
        ),
        (
            "[memory]\npersistent = false\nsummarizer_command = ['x']",
            "5: memory.summarizer_command: is for a memory that is kept",
        ),
        (
            "[memory]\nsummarizer_model = 'm'\nsummarizer_command = ['x']",
            "5: memory.summarizer_command: only one of it and `summarizer_model`",
        ),
        (
            "[memory]\nlog = true\napproval = ['*.md']",
            "4: memory.log: adds to MEMORY.md with each session, and approval would hold each",
        ),
        ("[memory]\nsummary_tokens = 3600", "4: memory.summary_tokens: must be below compact_at times"),
        ("[memory]\ncompact_at = 1.5", "4: memory.compact_at: "),
        ("[memory]\ncompact_at = 0.0", "4: memory.compact_at: "),
        (
            "[[memory.shared]]\nname = 'a'\n[[memory.shared]]\nname = 'a'",
            "6: memory.shared[1].name: 'a' is listed twice",
        ),
        (
            "[[memory.shared]]\nname = 'a'\napproval = true",
            "5: memory.shared[0].approval: is for a folder that it may write",
        ),
        ("[[memory.shared]]\nname = '../a'", "4: memory.shared[0].name: a shared folder's name has "),
        ("[[memory.shared]]\nwrite = true", "3: memory.shared[0].name: is missing"),
        (
            "[schedule]\nadaptive = { min = '2h', max = '1h' }",
            "4: schedule.adaptive.max: must not be below min",
        ),
        (
            "[schedule]\nevery = '1h'\nadaptive = { min = '1m', max = '1h' }",
            "5: schedule.adaptive: only one of cron, every, at and adaptive",
        ),
        (
            "[consolidate]\ncron = '0 3 * * *'\nafter = '1h'",
            "5: consolidate.after: only one of cron and after",
        ),
        ("[consolidate]\nafter = '1h'\n[memory]\npersistent = false", "3: consolidate: there is no memory"),
        (
            "[consolidate]\nafter = '1h'\nmodel = 'm'\ncommand = ['x']",
            "6: consolidate.command: only one of it and `model`",
        ),
        ("[consolidate]\nafter = '1h'", "3: consolidate.command: is missing: the runner is a command"),
        ("[consolidate]\nmodel = 'm'", "4: consolidate.model: the runner 'command' has no model"),
        (
            "[consolidate]\ncommand = ['x']\ntokens_per_session = 5",
            "5: consolidate.tokens_per_session: is for a model",
        ),
        ("[consolidate]\ncommand = ['x']\ncron = '0 0 31 2 *'", "5: consolidate.cron: "),
        ("[authority]\napproval = ['a b']", "4: authority.approval[0]: expected a pattern of keys"),
        ("skills = ['~/skills']", "3: skills[0]: expected a path"),
    ],
)
def test_fields_that_do_not_go_together_are_named_with_their_line(folder, more, sentence):
    folder.write("good", good())
    problems = folder.problems(good(more=more))
    assert any(problem.startswith(f"agents.d/bob.toml:{sentence}") for problem in problems), problems


def test_a_model_of_its_own_is_for_a_runner_that_has_one(folder):
    folder.write("bob", MODEL)
    assert folder.problems(MODEL) == []
    agent = folder.load().agents["bob"]
    assert agent.consolidate == Consolidate(cron="0 3 * * *", model="small", tokens_per_session=1000)


def test_owners_of_folders_cannot_be_taken_for_one_another():
    assert shared_name(shared_owner("team")) == "team"
    assert agent_of_owner(shared_owner("team")) is None
    alice = subject_owner("bob", "alice@example.org")
    assert (agent_of_owner(alice), subject_of(alice), shared_name(alice)) == (
        "bob",
        "alice@example.org",
        None,
    )
    assert (agent_of_owner("bob"), subject_of("bob"), shared_name("bob")) == ("bob", None, None)
    assert [owner for owner in ("bob", "@team", alice) if owner_problem(owner)] == []
    for bad in ("", "@", "@Team", "bob@", "bob@../x", "bob@a..b", "bob@A", "@a/b", "bob@" + "a" * 64):
        assert owner_problem(bad), bad
