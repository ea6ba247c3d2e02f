"""The machine of a session that a contract is tested with: its desk says no to some, and its MCP is closed at the end."""

import pytest

from swarmd.core.wire import Reply
from tests.runners.contract.kinds import KEY
from tests.runners.machines import RecordingDesk


class Desk(RecordingDesk):
    """A desk that refuses whatever concerns a stranger."""

    async def call(self, message):
        reply = await super().call(message)
        if message.args.get("to") == "stranger":
            return Reply(error="stranger is not below polybreak", kind="refused")
        return reply

    def of(self, kind):
        """The events of a kind."""
        return [detail for name, detail in self.events if name == kind]


@pytest.fixture
async def session(machine):
    machine = machine.with_host(environ={"KEY": KEY})
    machine.desk = Desk()
    yield machine
    await machine.host.mcp.close()
