"""Commands and sessions that write at the same time: nobody is told of a lock, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.daemon.processes import await_

SENDER = """
import sys
from pathlib import Path
from swarmd.service.operator import SocketClient
client = SocketClient(path=Path(sys.argv[1]), secret=Path(sys.argv[2]).read_text().strip())
for number in range(int(sys.argv[4])):
    client.call("handoff_send", {"to": "a0", "text": f"{sys.argv[3]} {number}"})
"""
WRITES = "import os\nwith open(os.environ['SWARMD_MEMORY'] + '/MEMORY.md', 'a') as f:\n    f.write('- ' + os.environ['SWARMD_SESSION'] + '\\n')\n"


@pytest.mark.parametrize("each", [25, pytest.param(200, marks=pytest.mark.slow)])
def test_eight_processes_send_handoffs_while_twenty_agents_commit(place, each):
    for number in range(20):
        place.agent(f"a{number}", WRITES, 'every = "1s"')
    with place.serving() as served:
        arguments = [str(place.runtime / "operator.sock"), str(place.state / "operator.key")]
        senders = [
            subprocess.Popen([sys.executable, "-c", SENDER, *arguments, f"p{n}", str(each)], cwd=place.root,
                             env=place.environment(), stderr=subprocess.PIPE, text=True)
            for n in range(8)
        ]  # fmt: skip
        said = [sender.communicate(timeout=110)[1] for sender in senders]
        assert [sender.returncode for sender in senders] == [0] * 8, said
        await_(lambda: place.rows("SELECT count(*) AS n FROM sessions WHERE outcome = 'committed'")[0]["n"] >= 20,
               lambda: served.log)  # fmt: skip
        place.swarmd("handoff", "send", "--to", "a0", "--text", "the last one")
    texts = [row["text"] for row in place.rows("SELECT text FROM handoffs")]
    assert sorted(texts) == sorted([f"p{n} {i}" for n in range(8) for i in range(each)] + ["the last one"])
    assert "locked" not in served.log + "".join(said)
    committed = place.rows("SELECT id, agent FROM sessions WHERE outcome = 'committed'")
    for row in committed:
        assert f"- {row['id']}\n" in (place.state / "memory" / row["agent"] / "MEMORY.md").read_text()
    assert {row["outcome"] for row in place.rows("SELECT outcome FROM sessions WHERE state = 'ended'")} <= {
        "committed",
        "cancelled",
    }
