"""The Messages API, by the anthropic SDK: the one module that imports it. A request is streamed, one answer comes back.

The SDK's own retries are off: it would obey a `retry-after` of weeks, and repeat nothing once a stream has begun.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import json
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import anthropic
import httpx2

from swarmd.core.text import one_line
from swarmd.core.wire import Usage
from swarmd.runners.model.answers import JSON, Answer, Assembly, Incomplete
from swarmd.runners.model.trouble import Trouble, TroubleKind

CONNECT_SECONDS = 15.0
STALL_SECONDS = 180.0
"""Nothing but pings for so long, and the request counts as lost."""
CLOSE_SECONDS = 2.0
REASON_CHARACTERS = 300
ANSWER_BYTES = 64 * 1024 * 1024
_TOO_LONG = re.compile(r"prompt is too long: (\d+) tokens > (\d+) maximum")

_KINDS: Mapping[int, TroubleKind] = {
    401: "auth",
    402: "quota",
    403: "auth",
    404: "unknown_model",
    408: "stalled",
    409: "server",
    413: "too_long",
    429: "rate_limited",
    529: "overloaded",
}
_TYPES: Mapping[str, TroubleKind] = {
    "authentication_error": "auth",
    "permission_error": "auth",
    "billing_error": "quota",
    "overloaded_error": "overloaded",
    "rate_limit_error": "rate_limited",
    "api_error": "server",
    "timeout_error": "stalled",
    "invalid_request_error": "bad_request",
    "not_found_error": "unknown_model",
}
_SPENT_SAID = re.compile(r"spend limit|credit balance|billing", re.ASCII | re.IGNORECASE)
_SPENT = re.compile(r"spend_limit|on_hold|billing|credit", re.ASCII)


class Api:
    """One credential at one address, shared by all sessions that use it."""

    def __init__(self, *, key: str, base_url: str | None, stall_seconds: float = STALL_SECONDS) -> None:
        self._stall_seconds = stall_seconds
        self._client = anthropic.AsyncAnthropic(
            api_key=key,
            base_url=base_url or "https://api.anthropic.com",
            max_retries=0,
            timeout=httpx2.Timeout(stall_seconds, connect=CONNECT_SECONDS, pool=None),
            # Not packed: a few bytes could unpack to more than there is memory.
            default_headers={"accept-encoding": "identity"},
            http_client=httpx2.AsyncClient(
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100), trust_env=True
            ),
        )

    async def answer(self, params: Mapping[str, Any], lost: Callable[[Usage], object]) -> Answer:
        """The model's answer to `params` (as `messages.create` takes them). Raises Trouble. An answer that breaks off,
        whatever broke it, is paid all the same: `lost` is told what is known of its cost.
        """
        with _told():
            stream = await self._client.messages.create(**params, stream=True)
        assembly = Assembly()
        try:
            with _told():
                _must_be_events(stream.response)
                # The events as they stand: the SDK's objects lose what they do not know, and cost ten times as much.
                events = self._events(anthropic.AsyncStream.raw_events(_Bounded(stream.response)))  # type: ignore[arg-type]
                # Not `async for`: what is behind the end of the answer is nobody's business.
                while not assembly.ended and (event := await anext(events, None)) is not None:
                    assembly.feed(event)
                return assembly.finish()
        except BaseException as error:
            if assembly.begun:
                lost(assembly.usage)
            if not isinstance(error, Incomplete):
                raise
            raise Trouble("cut" if assembly.begun else "no_api", str(error)) from error
        finally:
            # What is left of a stream that was broken off must not hold the session up.
            with contextlib.suppress(Exception):
                await asyncio.wait_for(stream.close(), CLOSE_SECONDS)

    async def _events(self, lines: AsyncIterator[Any]) -> AsyncIterator[JSON]:
        """What the events hold. A ping is no sign of progress."""
        now = asyncio.get_running_loop().time
        moved = now()
        while True:
            try:
                async with asyncio.timeout_at(moved + self._stall_seconds):
                    line = await anext(lines)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise Trouble("stalled", f"no word came for {self._stall_seconds:g} seconds") from None
            if line.event in (None, "ping") or not line.data:
                continue
            moved = now()
            event = _parsed(line.data)
            if line.event == "error" or event.get("type") == "error":
                raise _of_event(event)
            yield event

    async def window(self, model: str) -> tuple[int | None, int | None]:
        """How many tokens go into the model, and how many come out at most; None where the API does not say.

        Raises Trouble.
        """
        with _told():
            found = await self._client.models.retrieve(model, timeout=CONNECT_SECONDS)
        known = (getattr(found, "max_input_tokens", None), getattr(found, "max_tokens", None))
        return tuple(n if isinstance(n, int) and n > 0 else None for n in known)  # type: ignore[return-value]

    async def close(self) -> None:
        """Give the connections back."""
        await self._client.close()


class _Bounded:
    """A response whose bytes are counted before anybody puts lines together of them."""

    def __init__(self, response: Any) -> None:
        self._response = response

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._response.aiter_bytes():
            size += len(chunk)
            if size > ANSWER_BYTES:
                raise Trouble("no_api", f"the answer has more than {ANSWER_BYTES} bytes", again=False)
            yield chunk


def _must_be_events(response: Any) -> None:
    """A proxy's page, with status 200, would else be an empty stream; and a packed answer was not asked for."""
    packed = str(response.headers.get("content-encoding", "identity"))
    if packed.lower() not in ("identity", ""):
        raise Trouble("no_api", f"the answer is packed ({one_line(packed)[:40]}), which was not asked for")
    kind = str(response.headers.get("content-type", ""))
    if "event-stream" not in kind:
        raise Trouble(
            "no_api", f"the answer is no event stream but {kind or 'of no stated type'}: is a proxy between?"
        )


@contextlib.contextmanager
def _told() -> Any:
    """Whatever the SDK and what it stands on raise becomes Trouble."""
    try:
        yield
    except Trouble:
        raise
    except anthropic.APIStatusError as error:
        raise _of_status(error) from error
    except (anthropic.APITimeoutError, httpx2.TimeoutException) as error:
        raise Trouble("stalled", f"the model's API did not answer in time: {_short(error)}") from error
    except (anthropic.APIConnectionError, httpx2.HTTPError) as error:
        cause = error.__cause__ or error
        raise Trouble("network", f"the model's API cannot be reached: {_short(cause)}") from error
    except UnicodeEncodeError as error:
        raise Trouble("bad_request", "the conversation holds bytes that are no UTF-8") from error
    except (anthropic.AnthropicError, AssertionError, TypeError, ValueError, AttributeError) as error:
        raise Trouble("no_api", f"the answer is none of the Messages API: {_short(error)}") from error


def _parsed(data: str) -> JSON:
    try:
        event = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Trouble("cut", f"the answer holds a line that is no JSON: {error}") from error
    if not isinstance(event, dict):
        raise Trouble("cut", "the answer holds a line that is no JSON object")
    found: JSON = _encodable(event) if "\\ud" in data.lower() else event
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _encodable(value: Any) -> Any:
    """Without halves of characters, which can neither be sent back nor stored."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_encodable(name): _encodable(inner) for name, inner in value.items()}
    return [_encodable(inner) for inner in value] if isinstance(value, list) else value


def _of_event(event: JSON) -> Trouble:
    """The trouble that an error event tells of: the status was 200 already when it came."""
    error = event.get("error")
    told = error if isinstance(error, dict) else {}
    kind = _TYPES.get(str(told.get("type")), "server")
    said = one_line(str(told.get("message") or event))[:REASON_CHARACTERS]
    return Trouble(kind, f"{_WORDS.get(kind, 'the API failed')}: {said}")


def _of_status(error: anthropic.APIStatusError) -> Trouble:
    status, said = error.status_code, error.api_message or _short(error)
    kind = _kind(status, error)
    long = _TOO_LONG.search(said)
    if long is not None:
        return Trouble(
            "too_long", f"the conversation is too long: {long[1]} tokens, and the model takes {long[2]}"
        )
    again = False if error.response.headers.get("x-should-retry") == "false" else None
    return Trouble(
        kind,
        f"{_WORDS.get(kind, 'the API refused')} ({status}): {one_line(said)[:REASON_CHARACTERS]}",
        retry_after=_retry_after(error.response.headers),
        again=again,
    )


_WORDS: Mapping[str, str] = {
    "overloaded": "overloaded",
    "rate_limited": "rate limited",
    "server": "the API failed",
    "auth": "the credential was not accepted",
    "quota": "the allowance is used up",
    "unknown_model": "there is no such model or address",
    "too_long": "the request is too large",
    "stalled": "the API did not answer in time",
    "bad_request": "the API did not take the request",
}


def _kind(status: int, error: anthropic.APIStatusError) -> TroubleKind:
    spent = _SPENT.search(error.error_code or "") or _SPENT_SAID.search(error.api_message or "")
    if spent or error.type == "billing_error":
        return "quota"
    if status in _KINDS:
        return _KINDS[status]
    return "server" if status >= 500 else "bad_request"


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds from now; the header holds seconds or a date (RFC 9110, 10.2.3)."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            seconds = float(value) / unit
        except ValueError:
            seconds = _seconds_until(value)
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    return None


def _seconds_until(date: str) -> float:
    try:
        return max(email.utils.parsedate_to_datetime(date).timestamp() - time.time(), 0.0)
    except (TypeError, ValueError):
        return math.nan


def _short(error: BaseException) -> str:
    text = one_line(str(error))[:REASON_CHARACTERS]
    return text or type(error).__name__
