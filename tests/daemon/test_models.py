"""Agents that are models, in a real daemon: work goes down the tree, replies come up, and nothing that dies is lost."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from swarmd.core.interaction_log import blocks
from tests.daemon.processes import await_, lives
from tests.model_server import answers as say
from tests.model_server.answers import Gate
from tests.model_server.scripts import turns
from tests.model_server.server import ModelServer

KEY = "sk-ant-canary-5f1e7a"


@pytest.fixture
def server():
    with ModelServer(scripts={}) as made:
        yield made


def model_agent(place, server, name: str, more: str = "", runner: str = "") -> None:
    address = "" if "base_url" in runner else f'base_url = "{server.url}"\n'
    place.agents.joinpath(f"{name}.toml").write_text(
        f'system_prompt = "You are the agent {name}."\n{more}\n[runner]\nkind = "anthropic"\n'
        f'model = "claude-sonnet-5-5"\n{address}{runner}\n'
    )


def run(place, agent: str, *options: str, check: bool = False):
    ran = place.swarmd("--json", "run", agent, *options, check=check, ANTHROPIC_API_KEY=KEY)
    assert "Traceback" not in ran.stderr, ran.stderr
    return json.loads(ran.stdout) if ran.stdout else ran


def workers() -> list[int]:
    """The worker processes of all daemons that are this test's."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path("/proc", name, "cmdline").read_bytes().split(b"\0")
            parent = int(Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[1])
            mine = Path("/proc", str(parent), "stat").read_text().rpartition(")")[2].split()[1] == str(
                os.getpid()
            )
        except (OSError, ValueError, IndexError):
            continue
        if command[-3:-2] == [b"worker"] and mine:
            found.append(int(name))
    return found


def test_a_tree_of_two_levels_hands_work_down_and_hears_what_came_of_it(place, tmp_path):
    number: list[int] = []

    def lead(body):
        text = json.dumps(body["messages"])
        if "handoff_send" in text or "there are 12" in text:
            return say.text("done")
        return say.tools(say.call("handoff_send", to="hand", text="count the files", priority="high"))

    def hand(body):
        said = body["messages"][0]["content"][-1]["text"]
        if len(body["messages"]) > 1:
            return say.text("counted")
        number.append(int(said.split("handoff ")[1].split()[0].strip(":,")))
        return say.tools(
            say.call("handoff_complete", id=number[-1], reply="there are 12"), say.call("ctx_set", key="files", value="12"),
            say.call("memory", command="create", path="/memories/MEMORY.md", file_text="# Files\n- 12 on Monday\n"),
            say.call("report", text="counted"), text="counting",
        )  # fmt: skip

    with ModelServer(scripts={"agent lead": lead, "agent hand": hand}) as server:
        model_agent(place, server, "lead")
        model_agent(place, server, "hand", 'parent = "lead"')
        with place.serving(ANTHROPIC_API_KEY=KEY):
            first = run(place, "lead")
            assert (first["outcome"], [c["act"] for c in first["changes"]]) == ("committed", ["handoff_send"])
            second = run(place, "hand")
            assert second["outcome"] == "committed", second
            assert {c["act"] for c in second["changes"]} == {
                "handoff_complete",
                "ctx_set",
                "memory_write",
                "report",
            }
            third = run(place, "lead")
            assert third["outcome"] == "no_change"
            shown = json.loads(place.swarmd("--json", "handoff", "show", str(number[0])).stdout)
            assert (shown["status"], shown["thread"][-1]["text"]) == ("completed", "there are 12")
            assert place.swarmd("memory", "show", "hand").stdout == "# Files\n- 12 on Monday\n"
        assert server.complaints == []
        told = server.messages[-1].body["messages"][0]["content"][-1]["text"]
        assert "there are 12" in told, "the parent's next prompt has the reply"
        assert "files" in told
    kept = [p for p in tmp_path.rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]
    assert kept == [], "the key is nowhere on the disk"
    assert second["tokens_out"] > 0
    assert second["usd"] > 0


def test_a_models_turns_are_in_its_log_and_the_next_session_is_told_of_them(place):
    def clerk(body):
        if len(body["messages"]) > 1:
            return say.text("Rye is short.\n\n## Plan\n\nOrder four sacks.")
        return say.tools(say.call("ctx_set", key="rye", value="2"), text="counting")

    with ModelServer(scripts={"agent clerk": clerk}) as server:
        model_agent(place, server, "clerk", "[memory]\nlog = true")
        with place.serving(ANTHROPIC_API_KEY=KEY):
            first = run(place, "clerk", "--text", "count the rye")
            assert first["outcome"] == "committed"
            found = blocks(place.swarmd("memory", "show", "clerk").stdout)
            assert [b.role for b in found] == ["user", "assistant", "tool", "assistant"]
            assert "from operator (normal): count the rye" in found[0].text
            assert found[2].text.startswith('ctx_set {"key": "rye", "value": "2"}\n\n')
            assert found[3].text == "Rye is short.\n\n## Plan\n\nOrder four sacks."
            assert {b.session for b in found} == {first["id"]}
            run(place, "clerk")
        prompt = server.messages[-1].body["messages"][0]["content"]
        assert "Order four sacks." in json.dumps(prompt)
        assert "You are the agent clerk" not in place.swarmd("memory", "show", "clerk").stdout


def test_two_sessions_of_an_agent_that_nobody_has_changed_share_the_providers_cache(place):
    with ModelServer() as server:
        model_agent(place, server, "lead")
        with place.serving(ANTHROPIC_API_KEY=KEY):
            run(place, "lead")
            run(place, "lead")
        first, second = (request.body for request in server.messages)
    assert first["system"] == second["system"]
    assert first["tools"] == second["tools"]
    assert first["messages"][0]["content"][0] == second["messages"][0]["content"][0]
    assert "cache_control" in second["messages"][0]["content"][0]
    assert first["messages"][0]["content"][1] != second["messages"][0]["content"][1]


def test_a_dead_worker_costs_its_sessions_and_no_other(place):
    gate = Gate()
    slow = turns(say.tools(say.call("ctx_set", key="half", value="way"),
                           say.call("bash", command="sleep 4711 & sleep 4711")))  # fmt: skip
    with ModelServer(scripts={"agent slow": slow, "agent quick": "ok"}) as server:
        model_agent(place, server, "slow", runner='tools = ["acts", "bash"]')
        model_agent(place, server, "quick")
        place.agent(
            "plain",
            f"import os, time\nwhile not os.path.exists({str(place.root / 'go')!r}): time.sleep(0.02)\n",
        )
        with place.serving(ANTHROPIC_API_KEY=KEY) as served:
            waiting, plain = place.start("--json", "run", "slow"), place.start("--json", "run", "plain")
            await_(lambda: len(sleepers()) >= 2, lambda: f"no shell in:\n{served.log}")
            (worker,) = workers()
            os.kill(worker, signal.SIGKILL)
            lost = json.loads(waiting.communicate(timeout=60)[0])
            assert (lost["outcome"], lost["draft"]) == ("lost", "open"), lost
            assert "the worker that ran the model's loop is gone (killed by signal 9)" in lost["reason"]
            assert sleepers() == [], "nothing of the session is alive when it has ended"
            assert run(place, "quick")["outcome"] == "no_change"
            (place.root / "go").touch()
            assert json.loads(plain.communicate(timeout=60)[0])["outcome"] == "no_change"
        gate.open()
    assert workers() == []


def sleepers() -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path("/proc", name, "cmdline").read_bytes() == b"sleep\x004711\x00" and lives(int(name)):
                found.append(int(name))
        except OSError:
            continue
    return found


def test_a_session_can_be_cancelled_and_a_stop_ends_all(place):
    gate = Gate()
    with ModelServer(say.text("late").behind(gate)) as server:
        model_agent(place, server, "slow")
        with place.serving(ANTHROPIC_API_KEY=KEY) as served:
            waiting = place.start("--json", "run", "slow")
            server.wait(1)
            place.swarmd("session", "cancel", "slow")
            assert json.loads(waiting.communicate(timeout=60)[0])["outcome"] == "cancelled"
            waiting = place.start("--json", "run", "slow")
            server.wait(2)
            served.signal(signal.SIGTERM)
            assert served.ended() == 0
            waiting.communicate(timeout=60)
        assert [row["outcome"] for row in place.sessions()] == ["cancelled", "cancelled"]
        assert workers() == []
        gate.open()


def test_the_death_of_the_daemon_is_the_workers_too_and_its_sessions_are_found_lost(place):
    gate = Gate()
    with ModelServer(say.text("late").behind(gate)) as server:
        model_agent(place, server, "slow")
        with place.serving(ANTHROPIC_API_KEY=KEY) as served:
            waiting = place.start("--json", "run", "slow")
            server.wait(1)
            (worker,) = workers()
            served.signal(signal.SIGKILL)
            served.process.wait()
            await_(lambda: not lives(worker), lambda: "the worker lives on")
            waiting.communicate(timeout=60)
        with place.serving():
            pass
        assert [row["outcome"] for row in place.sessions()] == ["lost"]
        gate.open()


@pytest.mark.parametrize(
    ("env", "runner", "reason"),
    [
        ({}, "", "credential env:ANTHROPIC_API_KEY: the daemon's environment has no ANTHROPIC_API_KEY"),
        ({}, 'credential = "file:key.txt"', "key.txt: No such file or directory"),
        ({"OTHER": "sk-wrong"}, 'credential = "env:OTHER"', "the credential was not accepted (401)"),
    ],
)
def test_a_key_that_is_not_there_or_wrong_is_said_in_a_sentence(place, env, runner, reason):
    with ModelServer(key="sk-right") as server:
        model_agent(place, server, "lead", runner=runner)
        ran = place.swarmd("--json", "run", "lead", check=False, **env)
    told = json.loads(ran.stdout)
    assert (ran.returncode, told["outcome"]) == (1, "failed")
    assert reason in told["reason"]


def test_a_key_itself_in_an_agents_file_is_refused_and_not_repeated(place, server):
    model_agent(place, server, "lead", runner=f'credential = "{KEY}"')
    ran = place.swarmd("check", check=False)
    assert ran.returncode == 1
    assert "expected env:NAME, file:PATH or systemd:NAME" in ran.stdout
    assert KEY not in ran.stdout


@pytest.mark.parametrize(
    ("runner", "said"),
    [
        ("temperature = 0.7", "runner.temperature: unknown field"),
        ("compact_at = 0.05", "runner.compact_at"),
        (
            'tools = ["files", "rm"]',
            "runner.tools[1]: expected one of acts, memory, files, bash, or a single act",
        ),
        ('thinking = "sometimes"', "runner.thinking"),
        ('mcp_servers = { a = { command = ["x"], url = "http://h" } }', "expected either a command or a url"),
        ('base_url = "api.example.org"', "expected an address that begins with https://"),
    ],
)
def test_bad_options_are_told_with_what_is_expected(place, server, runner, said):
    model_agent(place, server, "lead", runner=runner)
    ran = place.swarmd("check", check=False)
    assert ran.returncode == 1
    assert said in ran.stdout, ran.stdout
