"""What only the real clients can show: that they are ended in time, and that their troubles are told."""

import pytest

from tests import clients
from tests.model_server import answers
from tests.model_server.server import ModelServer
from tests.runners.contract.kinds import run

CLAUDE = pytest.param(
    "claude-code", "claude", "claude-opus-4-8", "", marks=clients.needs("claude"), id="claude-code"
)
CODEX = pytest.param("codex", "codex", "gpt-5.5", "/v1", marks=clients.needs("codex"), id="codex")
BOTH = pytest.mark.parametrize(("kind", "program", "model", "path"), [CLAUDE, CODEX])


def options(program, model, url):
    return {"program": clients.place_of(program), "model": model, "credential": "env:KEY", "base_url": url}


@BOTH
async def test_a_model_that_cannot_be_reached_is_nobodys_fault(session, kind, program, model, path):
    result = await run(
        session, kind, options(program, model, f"http://127.0.0.1:9{path}"), {"timeout_seconds": 90.0}
    )
    assert (result.outcome, bool(result.reason)) == ("unavailable", True), result.reason


@BOTH
async def test_without_the_acts_nothing_is_done(session, kind, program, model, path):
    async def admit(token, desk):
        return "http://127.0.0.1:9/mcp"

    session.host.mcp.admit = admit
    with ModelServer(answers.text("Done.")) as server:
        result = await run(session, kind, options(program, model, server.url + path), {})
    assert result.outcome == "failed"
    assert result.reason.startswith("the session's acts were not reachable: its MCP server")


@pytest.mark.parametrize(("kind", "program", "model", "path"), [CLAUDE])
async def test_a_limit_of_tokens_ends_it_while_it_runs(session, kind, program, model, path):
    work = answers.tools(answers.call("Bash", command="sleep 60")).costs(input=5000, output=700)
    with ModelServer(work) as server:
        request = {"token_limit": 5000, "timeout_seconds": 50.0}
        result = await run(session, kind, options(program, model, server.url + path), request)
        assert len(server.messages) == 1
    assert result.outcome == "failed"
    assert result.reason.startswith("limits.tokens_per_session: ")
    assert result.usage.tokens_out == 700


@pytest.mark.parametrize(("kind", "program", "model", "path"), [CLAUDE])
async def test_its_own_limits_are_told_by_their_names(session, kind, program, model, path):
    again = answers.tools(answers.call("Bash", command="true"))
    for limit in ("max_turns", "max_usd"):
        given = {"max_turns": 2} if limit == "max_turns" else {"max_usd": 0.001}
        with ModelServer(again) as server:
            all_of_them = {**options(program, model, server.url + path), **given}
            result = await run(session, kind, all_of_them, {"session": len(limit)})
        assert result.outcome == "failed"
        assert result.reason.startswith(f"{limit}: Reached maximum")


@pytest.mark.parametrize(("kind", "program", "model", "path"), [CLAUDE])
async def test_what_is_not_allowed_is_denied_and_told(session, kind, program, model, path):
    act = answers.tools(answers.call("Bash", command="touch not-allowed"))
    with ModelServer([act, answers.text("Done.")]) as server:
        all_of_them = {**options(program, model, server.url + path), "allow": ["Read"]}
        result = await run(session, kind, all_of_them, {})
    assert result.outcome == "success"
    assert any("Bash was denied" in detail["text"] for detail in session.desk.of("warning"))
    assert not (session.state / "homes/polybreak/not-allowed").exists()
