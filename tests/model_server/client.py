"""The real SDK as the tests of the model server use it: one conversation with one server."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Any, Self

import anthropic
from anthropic.types import Message

from tests.model_server.server import ModelServer

# Reading the system's certificates for each client takes longer than most tests.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
HELLO = [{"role": "user", "content": "hello"}]


class Talk:
    """A loop as a client should have it; each `ask` is one request, streamed unless told otherwise."""

    def __init__(self, server: ModelServer, *, key: str = "k", timeout: float = 5.0, **fixed: Any) -> None:
        """`timeout` is that of a read."""
        patience = anthropic.Timeout(5.0, read=timeout)
        http = anthropic.DefaultAsyncHttpxClient(verify=NO_TLS)
        self.client = anthropic.AsyncAnthropic(
            base_url=server.url, api_key=key, max_retries=0, timeout=patience, http_client=http
        )
        self.fixed = {"model": "model-a", "max_tokens": 10_000, **fixed}
        self.messages: list[Any] = list(HELLO)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()

    async def ask(self, messages: Sequence[Any] | None = None, **fields: Any) -> Message:
        given = {**self.fixed, "messages": list(messages or self.messages), **fields}
        async with self.client.messages.stream(**given) as stream:
            return await stream.get_final_message()

    async def step(self, **fields: Any) -> Message:
        """Asks, and puts the answer and a result for each tool call into the conversation."""
        message = await self.ask(**fields)
        self.messages.append({"role": "assistant", "content": message.content})
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": "done"}
            for block in message.content
            if block.type == "tool_use"
        ]
        if results:
            self.messages.append({"role": "user", "content": results})
        return message
