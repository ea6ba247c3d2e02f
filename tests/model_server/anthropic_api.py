"""Anthropic's endpoints: messages, count_tokens, models; and who may use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.model_server.answers import Answer, error, plain
from tests.model_server.checks import Model, refused
from tests.model_server.http_wire import json_bytes
from tests.model_server.request import Request
from tests.model_server.sent import Sent
from tests.model_server.usage import PromptCache, input_tokens

Count = int | Callable[[dict[str, Any]], int]
DEFAULT_MODELS = ("claude-opus-5", "claude-sonnet-5", "claude-haiku-5")
LARGEST_REQUEST = 32 * 1024 * 1024


class AnthropicApi:
    """What the server knows beyond its scripts."""

    def __init__(
        self,
        *,
        key: str | None,
        models: Mapping[str, Model] | None,
        count: Count | None,
        checks: bool,
        cache_minimum: int,
    ) -> None:
        self._key = key
        self._models = models
        self._count = count
        self._checks = checks
        self.sent = Sent()
        self.cache = PromptCache(cache_minimum)
        self.complaints: list[str] = []

    def unauthorized(self, headers: Mapping[str, str]) -> Answer | None:
        """A key is looked for in both places, and one right one suffices."""
        given = {headers.get("x-api-key"), headers.get("authorization", "").removeprefix("Bearer ")} - {
            None,
            "",
        }
        if self._key is None or self._key in given:
            return None
        return error(401, "invalid x-api-key" if given else "x-api-key header is required")

    def refused(self, request: Request) -> Answer | None:
        """The error for a request to messages that the real API would not take."""
        if not self._checks:
            return None
        if len(request.raw) > LARGEST_REQUEST:
            return error(413, "Request exceeds the maximum size")
        answer = refused(request.body, request.headers, self._models, self.sent)
        if answer is not None and answer.error is not None:
            self.complaints.append(answer.error["message"])
        return answer

    def counted(self, request: Request) -> Answer:
        count = self._count if self._count is not None else input_tokens
        tokens = count(request.body) if callable(count) else count
        return plain(json_bytes({"input_tokens": tokens}))

    def listed(self) -> Answer:
        models = self._models if self._models is not None else dict.fromkeys(DEFAULT_MODELS, Model())
        data = [_model(name, model) for name, model in models.items()]
        ends = {"first_id": data[0]["id"] if data else None, "last_id": data[-1]["id"] if data else None}
        return plain(json_bytes({"data": data, "has_more": False, **ends}))

    def model(self, name: str) -> Answer:
        if self._models is not None and name not in self._models:
            return error(404, f"model: {name}")
        return plain(json_bytes(_model(name, (self._models or {}).get(name, Model()))))


def _model(name: str, model: Model) -> dict[str, Any]:
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": model.lifecycle,
        "deprecated_at": model.deprecated_at,
        "retires_at": model.retires_at,
        "max_input_tokens": model.window,
        "max_tokens": model.output,
        "line": None,
        "capabilities": None,
    }
