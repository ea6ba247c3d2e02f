"""The example of docs/clients: a client that swarmd knows nothing of, as a plain program."""

import shutil
from pathlib import Path

import pytest

from tests import clients
from tests.model_server import answers
from tests.model_server.scripts import turns
from tests.model_server.server import ModelServer

EXAMPLE = Path(__file__).parents[3] / "docs/clients/opencode.sh"
pytestmark = clients.needs("opencode")


@pytest.mark.parametrize(("stop", "outcome"), [("end_turn", "success"), ("max_tokens", "failed")])
async def test_opencode_acts_through_mcp_and_only_a_good_end_counts(session, stop, outcome):
    shutil.copy(EXAMPLE, session.agents)
    act = answers.tools(answers.call("swarmd_ctx_set", key="a", value="1"))
    with ModelServer(turns(act, answers.text("Done.", stop=stop)), checks=False) as server:
        env = {
            "OPENCODE": clients.place_of("opencode"),
            "MODEL_URL": f"{server.url}/v1",
            "ANTHROPIC_API_KEY": "sk-x",
        }
        result = await session.run("./opencode.sh", env=env, timeout_seconds=60)
    assert (result.outcome, result.exit) == (outcome, 0 if outcome == "success" else 1), result.stderr
    assert [(message.call, dict(message.args)) for message in session.desk.calls] == [
        ("ctx_set", {"key": "a", "value": "1"})
    ]
