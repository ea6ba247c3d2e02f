"""How clients are started: exactly, with nothing secret in sight; and what `check` says of their options."""

import json
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from swarmd.config.check import Rules, check_file
from swarmd.config.document import read_document
from swarmd.config.files import FileRead
from swarmd.config.lacking import lacking
from swarmd.config.scan import ScannedFile
from swarmd.config.settings import Defaults
from swarmd.runners import claude_code, codex, registry
from swarmd.runners.workspace import places
from swarmd.service.loading import kinds
from tests.runners.machines import TOKEN

KEY = "sk-ant-api03-the-key"
URL = "http://127.0.0.1:4711/mcp"
NOW = datetime(2026, 11, 30, tzinfo=UTC)


@pytest.fixture
def planned(machine):
    """The plan of a session with these options."""

    def plan(module, key=KEY, **options):
        host = machine.with_host(environ={"ANTHROPIC_API_KEY": key, "OPENAI_API_KEY": key}).host
        checked = module.Options.model_validate(options).model_dump(mode="json")
        adapter = claude_code.ClaudeCode() if module is claude_code else codex.Codex()
        return adapter.plan(machine.request(options=checked), host, places(host, "1"), URL)

    return plan


def judged(folder: Path, text: str, name: str = "bob"):
    path = folder / f"{name}.toml"
    data = ('system_prompt = "x"\n' + text).encode()
    file = ScannedFile(name=name, file=path.name, read=FileRead(path=path, data=data), document=read_document(path.name, data),
                       prompt=None)  # fmt: skip
    return check_file(file, Defaults(), Rules(kinds=kinds()))


def errors(folder, text):
    return [str(problem) for problem in judged(folder, text).problems]


def test_the_command_line_of_claude_code_is_this_one(planned, machine):
    plan = planned(
        claude_code,
        model="claude-opus-4-8",
        max_turns=30,
        max_usd=2.5,
        effort="low",
        base_url="http://127.0.0.1:1/",
    )
    client = f"{machine.root}/state/sessions/1/client"
    assert plan.argv == [
        "claude", "-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages",
        "--setting-sources", "", "--settings", f"{client}/settings.json", "--no-session-persistence",
        "--disable-slash-commands", "--system-prompt-file", f"{client}/system.txt",
        "--strict-mcp-config", "--mcp-config", f"{client}/mcp.json", "--model", "claude-opus-4-8",
        "--effort", "low", "--max-turns", "30", "--max-budget-usd", "2.5", "--permission-mode", "dontAsk",
        "--tools", "Bash,Read,Edit,Write", "--allowedTools", "mcp__swarmd", "Bash", "Read", "Edit", "Write",
    ]  # fmt: skip
    assert plan.stdin == b"Go on."
    assert plan.files[f"{client}/system.txt"] == b"You keep Polybreak moving."
    assert plan.own["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1"
    assert plan.own["CLAUDE_CONFIG_DIR"] == f"{machine.root}/state/sessions/1/tmp/claude"
    assert {name for name, value in plan.own.items() if value == "1"} == set(claude_code.FIXED)


def test_without_built_in_tools_only_the_acts_are_allowed(planned):
    plan = planned(claude_code, tools=[])
    assert plan.argv[-4:] == ["--tools", "", "--allowedTools", "mcp__swarmd"]
    rules = planned(claude_code, allow=["Bash(git *)", "Read"]).argv
    assert rules[-4:] == ["--allowedTools", "mcp__swarmd", "Bash(git *)", "Read"]


@pytest.mark.parametrize("module", [claude_code, codex])
def test_key_and_token_stand_in_private_files_alone(planned, module):
    model = {"model": "gpt-5.5"} if module is codex else {}
    plan = planned(module, **model)
    seen = json.dumps([list(plan.argv), dict(plan.env), dict(plan.own)]) + plan.stdin.decode()
    assert KEY not in seen
    assert TOKEN not in seen
    files = b"".join(plan.files.values()).decode()
    assert KEY in files
    assert TOKEN in files
    assert list(plan.secrets) == [KEY]
    assert set(plan.for_start) <= set(plan.files)
    assert TOKEN not in "".join(
        data.decode() for path, data in plan.files.items() if path not in plan.for_start
    )


@pytest.mark.parametrize(
    ("key", "kind", "told"),
    [(KEY, "auto", "api-key"), ("sk-ant-oat01-x", "auto", "subscription"), (KEY, "subscription", "subscription"),
     ("sk-ant-oat01-x", "api-key", "api-key")],
)  # fmt: skip
def test_a_subscriptions_token_is_told_from_a_key(planned, machine, key, kind, told):
    plan = planned(claude_code, key=key, credential_kind=kind)
    assert plan.facts == {"credential": told}
    login = f"{machine.root}/state/sessions/1/tmp/claude/.credentials.json"
    helper = json.loads(plan.files[f"{machine.root}/state/sessions/1/client/settings.json"]).get(
        "apiKeyHelper"
    )
    if told == "subscription":
        assert json.loads(plan.files[login])["claudeAiOauth"]["accessToken"] == key
        assert helper is None
    else:
        assert login not in plan.files
        assert helper == f"cat {machine.root}/state/sessions/1/client/key"


def test_codex_gets_one_file_with_all_in_it(planned, machine):
    plan = planned(codex, model="gpt-5.5", effort="low", base_url="http://127.0.0.1:1/v1")
    assert plan.argv == ["codex", "exec", "--json", "--ephemeral", "--skip-git-repo-check", "-"]
    (path,) = plan.files
    config = tomllib.loads(plan.files[path].decode())
    assert plan.own == {"CODEX_HOME": f"{machine.root}/state/sessions/1/client/codex"}
    assert config["developer_instructions"] == "You keep Polybreak moving."
    assert config["mcp_servers"]["swarmd"]["url"] == URL
    assert config["mcp_servers"]["swarmd"]["required"] is True
    assert config["model_providers"]["swarmd"]["base_url"] == "http://127.0.0.1:1/v1"
    assert (config["model_reasoning_effort"], config["project_doc_max_bytes"]) == ("low", 0)


def test_any_system_prompt_survives_toml(machine):
    odd = "quotes \" ''' \\ \x7f \x01 \ud83d é 😀\r\n\ttabs"
    request = machine.request(system=odd, options=codex.Options(model="m").model_dump(mode="json"))
    host = machine.with_host(environ={"OPENAI_API_KEY": KEY}).host
    (data,) = codex.Codex().plan(request, host, places(host, "1"), URL).files.values()
    assert tomllib.loads(data.decode())["developer_instructions"] == odd.replace("\ud83d", "?")


@pytest.mark.parametrize("kind", ["claude-code", "codex"])
def test_a_key_in_the_place_of_its_reference_is_refused_and_not_repeated(tmp_path, kind):
    for value in (f'"{KEY}"', f'["{KEY}"]', f'{{ key = "{KEY}" }}'):
        text = f'runner = {{ kind = "{kind}", model = "m", credential = {value} }}\n'
        problems = judged(tmp_path, text).problems
        assert problems
        assert KEY not in repr(problems)
    assert (
        "env:NAME, file:PATH or systemd:NAME"
        in errors(tmp_path, f'runner = {{ kind = "{kind}", model = "m", credential = "{KEY}" }}\n')[0]
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ('env = { ANTHROPIC_API_KEY = "x" }', "ANTHROPIC_API_KEY cannot be set: the option is `credential`"),
        ('pass_env = ["ANTHROPIC_BASE_URL"]', "ANTHROPIC_BASE_URL cannot be set: the option is `base_url`"),
        ('env = { CLAUDE_CONFIG_DIR = "/x" }', "CLAUDE_CONFIG_DIR cannot be set: swarmd sets it"),
        ('model = "--dangerously-skip-permissions"', "does not begin with a dash"),
        ('allow = ["--add-dir"]', "does not begin with a dash"),
        ('tools = ["Bash(git *)"]', "the name of a built-in tool such as Bash"),
        ('instructions = ["../CLAUDE.md"]', "the path of a file inside the working folder"),
        ('base_url = "file:///etc"', "an address that begins with https://"),
        ('api_key = "x"', "unknown field"),
    ],
)
def test_options_that_would_open_a_hole_are_errors(tmp_path, options, sentence):
    (error,) = errors(tmp_path, f'[runner]\nkind = "claude-code"\n{options}\n')
    assert sentence in error


def test_what_a_runner_cannot_do_is_named(tmp_path):
    offline = "[sandbox]\nnetwork = false\n"
    (error,) = errors(tmp_path, f'runner = {{ kind = "claude-code" }}\n{offline}')
    assert (
        error
        == "bob.toml:4: sandbox.network: 'claude-code' calls its model over the network, and could do nothing"
    )
    assert errors(tmp_path, f'runner = {{ kind = "command", command = ["x"] }}\n{offline}') == []
    limited = "[limits]\ntokens_per_session = 5\n"
    (error,) = errors(tmp_path, f'runner = {{ kind = "codex", model = "m" }}\n{limited}')
    assert "'codex' tells too late, or not, how many tokens it uses" in error
    assert errors(tmp_path, f'runner = {{ kind = "claude-code" }}\n{limited}') == []
    (error,) = errors(tmp_path, '[runner]\nkind = "codex"\nmodel = "m"\nmax_turns = 3\n')
    assert "unknown field" in error


def test_check_names_what_the_machine_lacks_and_what_a_workdir_has_that_is_not_read(tmp_path):
    work = tmp_path / "work"
    (work / ".claude").mkdir(parents=True)
    (work / "CLAUDE.md").write_text("hi")
    (work / ".mcp.json").write_text("{}")
    text = '[runner]\nkind = "claude-code"\nprogram = "no-such-client"\nworkdir = "work"\ninstructions = ["STYLE.md"]\n'
    found = {(one.path[-1], one.text) for one in lacking(judged(tmp_path, text).agent, {}, NOW, kinds())}
    assert {name for name, _ in found} == {"program", "credential", 0, "workdir"}
    texts = "\n".join(sorted(text for _, text in found))
    assert "no program 'no-such-client' is on PATH" in texts
    assert "credential env:ANTHROPIC_API_KEY: the daemon's environment has no ANTHROPIC_API_KEY" in texts
    assert f"there is no file {work}/STYLE.md; sessions fail without it" in texts
    assert f'{work}/CLAUDE.md is not read: instructions = ["CLAUDE.md"] gives it to the agent' in texts
    assert f"{work}/.claude is not read" in texts
    assert f"{work}/.mcp.json is not read" in texts
    (work / "AGENTS.md").write_text("hi")
    text = '[runner]\nkind = "codex"\nmodel = "m"\nprogram = "sh"\nworkdir = "work"\n'
    environ = {"PATH": "/usr/bin:/bin", "OPENAI_API_KEY": KEY}
    (one,) = lacking(judged(tmp_path, text).agent, environ, NOW, kinds())
    assert one.text.startswith(f"{work}/AGENTS.md is not read")


def test_a_credentials_file_is_found_beside_the_agents_file(tmp_path):
    agent = judged(tmp_path, 'runner = { kind = "claude-code", credential = "file:key" }\n').agent
    assert agent.runner_options["credential"] == f"file:{tmp_path}/key"


@pytest.mark.parametrize("kind", registry.kinds())
def test_every_runner_says_what_it_can_do(kind):
    module = registry.load(kind)
    assert registry.told(kind, module).startswith(f"{kind} can: ")
    assert "tokens_per_session" not in module.measures or "usage" in module.capabilities


def test_the_command_line_for_people_names_no_secret(machine):
    for module, options in ((claude_code, {}), (codex, {"model": "m"})):
        request = machine.request(options=module.Options(**options).model_dump(mode="json"))
        line = module.command_line(request, machine.host)
        assert line[0].rpartition("/")[2] in ("claude", "codex")
        assert TOKEN not in " ".join(line)
