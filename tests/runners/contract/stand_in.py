"""A program that plays a script as a session: as a command, or as a client that speaks its own stream of events.

It is started as the client would be, finds the desk as the client would, and prints what the client has been seen to
print. Standard library only; the script is the JSON file that $PLAY names.
"""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from pathlib import Path

SCRIPT = json.loads(Path(os.environ["PLAY"]).read_text())
USAGE = {
    "input_tokens": 100,
    "output_tokens": 50,
    "cache_read_input_tokens": 20,
    "cache_creation_input_tokens": 10,
}


def out(data):
    sys.stdout.buffer.write(data if isinstance(data, bytes) else json.dumps(data).encode() + b"\n")
    sys.stdout.buffer.flush()


class Mcp:
    """A client of MCP over HTTP, as small as it can be."""

    def __init__(self, url, headers):
        self.url, self.headers, self.number = url, headers, 0
        self.version = "2025-06-18"
        about = {"name": "stand-in", "version": "1"}
        params = {"protocolVersion": self.version, "capabilities": {}, "clientInfo": about}
        self.ask("initialize", params)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.tools = [tool["name"] for tool in self.ask("tools/list", {})["tools"]]

    def send(self, message):
        headers = {
            **self.headers,
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": self.version,
        }
        request = urllib.request.Request(self.url, json.dumps(message).encode(), headers)
        with urllib.request.urlopen(request) as answer:
            if session := answer.headers.get("Mcp-Session-Id"):
                self.headers["Mcp-Session-Id"] = session
            return answer.read().decode()

    def ask(self, method, params):
        self.number += 1
        text = self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        lines = [line.removeprefix("data:") for line in text.splitlines() if not line.startswith("event:")]
        return next(json.loads(line)["result"] for line in lines if line.strip().startswith("{"))

    def act(self, name, args):
        found = self.ask("tools/call", {"name": name, "arguments": args})
        return found["content"][0]["text"], bool(found.get("isError"))


class Command:
    """A plain program: it acts through the socket, and its exit status is all that it tells."""

    def __init__(self):
        self.number = 0

    def begin(self):
        pass

    def act(self, name, args):
        self.number += 1
        line = {"id": str(self.number), "token": os.environ["SWARMD_TOKEN"], "call": name, "args": args}
        with socket.socket(socket.AF_UNIX) as desk:
            desk.connect(os.environ["SWARMD_SOCKET"])
            desk.sendall(json.dumps(line).encode() + b"\n")
            reply = json.loads(desk.makefile().readline())
        out(f"{name}: {reply.get('error') or 'ok'}\n".encode())

    def say(self, text):
        out(text.encode() + b"\n")

    def shell(self, command):
        subprocess.run(["sh", "-c", command], check=False)

    def end(self, how):
        sys.exit({"ok": 0, "overloaded": 75}.get(how, 1))


class Claude:
    """As `claude -p --output-format stream-json --verbose --include-partial-messages`."""

    def __init__(self):
        options = sys.argv[1:]
        given = json.loads(Path(options[options.index("--mcp-config") + 1]).read_text())
        server = given["mcpServers"]["swarmd"]
        self.mcp = Mcp(server["url"], dict(server["headers"]))
        self.number = 0

    def begin(self):
        servers = SCRIPT.get("servers", [{"name": "swarmd", "status": "connected"}])
        tools = ["Bash", *(f"mcp__swarmd__{name}" for name in self.mcp.tools)]
        out({"type": "system", "subtype": "init", "model": "claude-opus-4-8", "tools": tools,
             "mcp_servers": servers, "claude_code_version": "2.1.332"})  # fmt: skip

    def message(self, block):
        self.number += 1
        start = {
            "id": f"msg_{self.number}",
            "model": "claude-opus-4-8",
            "usage": {**USAGE, "output_tokens": 1},
        }
        stream = {"type": "stream_event", "parent_tool_use_id": None}
        out({**stream, "event": {"type": "message_start", "message": start}})
        out({"type": "assistant", "parent_tool_use_id": None,
             "message": {**start, "role": "assistant", "content": [block]}})  # fmt: skip
        out(
            {**stream, "event": {"type": "message_delta", "usage": {"output_tokens": USAGE["output_tokens"]}}}
        )
        out({**stream, "event": {"type": "message_stop"}})

    def tool(self, name, input, run):
        id = f"toolu_{self.number}"
        self.message({"type": "tool_use", "id": id, "name": name, "input": input})
        text, failed = run()
        result = {"type": "tool_result", "tool_use_id": id, "content": text, "is_error": failed}
        out({"type": "user", "message": {"role": "user", "content": [result]}})

    def act(self, name, args):
        self.tool(f"mcp__swarmd__{name}", args, lambda: self.mcp.act(name, args))

    def say(self, text):
        self.message({"type": "text", "text": text})

    def shell(self, command):
        def run():
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
            return done.stdout + done.stderr, done.returncode != 0

        self.tool("Bash", {"command": command}, run)

    def end(self, how):
        result = {"type": "result", "subtype": "success", "is_error": how != "ok", "stop_reason": "end_turn",
                  "result": "All done.", "terminal_reason": "completed", "api_error_status": None,
                  "usage": {name: count * self.number for name, count in USAGE.items()},
                  "total_cost_usd": 0.01 * self.number, "modelUsage": {}, "permission_denials": []}  # fmt: skip
        errors = {"overloaded": ("overloaded", 529), "auth": ("authentication_failed", 401),
                  "truncated": ("max_output_tokens", None), "network": ("server_error", None)}  # fmt: skip
        if how in errors:
            kind, status = errors[how]
            out({"type": "assistant", "error": kind,
                 "message": {"model": "<synthetic>", "content": [{"type": "text", "text": f"API Error: {kind}"}]}})  # fmt: skip
            result |= {
                "result": f"API Error: {kind}",
                "api_error_status": status,
                "stop_reason": "stop_sequence",
            }
        elif how == "refusal":
            result |= {"stop_reason": "refusal", "result": "API Error: it cannot help with this"}
        elif how == "max_turns":
            result |= {"subtype": "error_max_turns", "errors": ["Reached maximum number of turns (2)"]}
        elif how == "paused":
            result |= {"is_error": False, "stop_reason": "pause_turn"}
        out(result)
        return 0 if how in ("ok", "paused") else 1


class Codex:
    """As `codex exec --json`."""

    def __init__(self):
        config = Path(os.environ["CODEX_HOME"], "config.toml").read_text()
        server = tomllib.loads(config)["mcp_servers"]["swarmd"]
        self.mcp = Mcp(server["url"], dict(server["http_headers"]))
        self.number = 0

    def begin(self):
        out({"type": "thread.started", "thread_id": "01a2"})
        out({"type": "turn.started"})

    def item(self, item, run=None):
        item = {"id": f"item_{self.number}", **item}
        self.number += 1
        if run is not None:
            out({"type": "item.started", "item": {**item, "status": "in_progress"}})
            item |= run()
        out({"type": "item.completed", "item": item})

    def act(self, name, args):
        def run():
            text, failed = self.mcp.act(name, args)
            return {"result": {"content": [{"type": "text", "text": text}]}, "error": None,
                    "status": "failed" if failed else "completed"}  # fmt: skip

        self.item({"type": "mcp_tool_call", "server": "swarmd", "tool": name, "arguments": args}, run)

    def say(self, text):
        self.item({"type": "agent_message", "text": text})

    def shell(self, command):
        def run():
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
            return {"aggregated_output": done.stdout + done.stderr, "exit_code": done.returncode,
                    "status": "completed"}  # fmt: skip

        self.item({"type": "command_execution", "command": command}, run)

    def end(self, how):
        messages = {
            "overloaded": "unexpected status 503 Service Unavailable: busy, url: http://127.0.0.1/v1/responses",
            "auth": "unexpected status 401 Unauthorized: Incorrect API key provided, url: http://127.0.0.1/v1/responses",
            "truncated": "Incomplete response returned, reason: max_output_tokens",
            "network": "stream disconnected before completion: error sending request",
        }
        if how in messages:
            out({"type": "error", "message": messages[how]})
            out({"type": "turn.failed", "error": {"message": messages[how]}})
            return 1
        usage = {
            "input_tokens": 130,
            "cached_input_tokens": 20,
            "cache_write_input_tokens": 10,
            "output_tokens": 50,
        }
        out({"type": "turn.completed", "usage": usage})
        return 0


def play(who, step):
    """One step; the status to end with, where it is the end."""
    match step:
        case {"say": text}:
            who.say(text)
        case {"act": name, **args}:
            who.act(name, args)
        case {"shell": command}:
            who.shell(command)
        case {"raw": data, "times": times}:
            for _ in range(times):
                out(base64.b64decode(data))
        case {"sleep": seconds}:
            time.sleep(seconds)
        case {"ignore_term": True}:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case {"end": how}:
            return who.end(how)
        case {"exit": number}:
            sys.exit(number)
    return None


def main():
    who = {"command": Command, "claude-code": Claude, "codex": Codex}[SCRIPT["as"]]()
    sys.stdin.buffer.read()
    who.begin()
    status = 0
    for step in SCRIPT["steps"]:
        status = play(who, step) or status
    sys.exit(status)


if __name__ == "__main__":
    main()
