"""A tree of two agents that are real clients, under a real daemon: work goes down, its reply comes up."""

import json
import re

import pytest

from tests import clients
from tests.daemon.processes import Place
from tests.model_server import answers
from tests.model_server.server import ModelServer

KEY = "sk-test-the-key-of-the-tree"


class Dialect:
    """How a client is set up, and how its model calls a tool."""

    def __init__(self, kind, program, models, key, path=""):
        self.kind, self.program, self.key, self.path = kind, program, key, path
        self.studio, self.game = models

    def runner(self, model, url):
        options = {"kind": self.kind, "program": self.program, "model": model, "base_url": url + self.path}
        return ", ".join(f"{name} = {json.dumps(value)}" for name, value in options.items())

    def acts(self, *calls):
        if self.kind == "claude-code":
            return answers.tools(*(answers.call(f"mcp__swarmd__{name}", args) for name, args in calls))
        items = [
            {"type": "function_call", "call_id": f"call_{name}", "namespace": "mcp__swarmd", "name": name,
             "arguments": json.dumps(args)}
            for name, args in calls
        ]  # fmt: skip
        return answers.blocks(*items)

    def turn(self, body):
        """How often the model has called in this conversation."""
        text = json.dumps(body)
        return len(set(re.findall(r'"(?:tool_use_id|call_id)": "([^"]+)"', text)))


CLAUDE = Dialect(
    "claude-code", clients.place_of("claude"), ("claude-opus-4-8", "claude-haiku-4-5"), "ANTHROPIC_API_KEY"
)
CODEX = Dialect("codex", clients.place_of("codex"), ("gpt-5.5", "gpt-5.4"), "OPENAI_API_KEY", "/v1")
BOTH = [
    pytest.param(CLAUDE, marks=clients.needs("claude"), id="claude-code"),
    pytest.param(CODEX, marks=clients.needs("codex"), id="codex"),
]


def studio(dialect):
    def answer(body):
        if dialect.turn(body):
            return answers.text("Done.")
        if "it is blue now" in json.dumps(body):
            return dialect.acts(("ctx_set", {"key": "seen", "value": "blue"}))
        return dialect.acts(
            ("handoff_send", {"to": "game", "text": "make it blue"}),
            ("ctx_set", {"key": "mood", "value": "busy"}),
            ("memory_append", {"file": "MEMORY.md", "text": "game is asked for blue"}),
        )

    return answer


def game(dialect):
    def answer(body):
        match dialect.turn(body):
            case 0:
                return dialect.acts(("handoff_list", {}))
            case 1:
                (id,) = set(re.findall(r'\\"id\\":(\d+)', json.dumps(body)))
                return dialect.acts(
                    ("handoff_complete", {"id": int(id), "reply": "it is blue now"}),
                    ("ctx_set", {"key": "colour", "value": "blue"}),
                    ("ctx_set", {"key": "mood", "value": "mine", "agent": "studio"}),
                )
        return answers.text("It is blue.")

    return answer


@pytest.mark.timeout(240)
@pytest.mark.parametrize("dialect", BOTH)
def test_a_handoff_goes_down_and_its_reply_comes_up(tmp_path, runtime_dir, dialect):
    place = Place(tmp_path, runtime_dir)
    scripts = {dialect.studio: studio(dialect), dialect.game: game(dialect)}
    with ModelServer(scripts=scripts) as server:
        for name, model in (("studio", dialect.studio), ("game", dialect.game)):
            parent = 'parent = "studio"\n' if name == "game" else ""
            runner = f"[runner]\n{dialect.runner(model, server.url)}\n".replace(", ", "\n")
            (place.agents / f"{name}.toml").write_text(f'system_prompt = "You are {name}."\n{parent}{runner}')
        with place.serving(**{dialect.key: KEY}):
            outcomes = [
                json.loads(place.swarmd("run", name, "--json").stdout)
                for name in ("studio", "game", "studio")
            ]
            assert [(one["outcome"], one["reason"]) for one in outcomes] == [("committed", "")] * 3
            (handoff,) = json.loads(place.swarmd("handoff", "list", "--json").stdout)["items"]
            keys = {
                name: place.swarmd("ctx", "list", "--agent", name, "--json").stdout
                for name in ("studio", "game")
            }
            memory = place.swarmd("memory", "show", "studio").stdout
            refusals = json.loads(place.swarmd("session", "show", "2", "--json").stdout)["refusals"]
        assert server.failures == []
    assert handoff["status"] == "completed"
    assert {k["key"]: k["value"] for k in json.loads(keys["studio"])["items"]} == {
        "mood": "busy",
        "seen": "blue",
    }
    assert {k["key"]: k["value"] for k in json.loads(keys["game"])["items"]} == {"colour": "blue"}
    assert "game is asked for blue" in memory
    assert [refusal["act"] for refusal in refusals] == ["ctx_set"]
    rows = place.sessions()
    assert all(row["tokens_out"] > 0 and row["usd"] > 0 for row in rows)
    kept = b"".join(path.read_bytes() for path in place.state.rglob("*") if path.is_file())
    assert KEY.encode() not in kept
