"""A model server to try clients against by hand: `python -m tests.model_server --script FILE.py`.

FILE.py may set `script`, `scripts` and `options` (all as for ModelServer); `from tests.model_server import answers`
gives it the answers. Without a file, --say names one of the few below.
"""

from __future__ import annotations

import argparse
import runpy
import sys
import time
from typing import Any, NoReturn

from tests.model_server import answers as say
from tests.model_server.scripts import Script, turns
from tests.model_server.server import ModelServer

SCRIPTS: dict[str, Script] = {
    "ok": "ok",
    "echo": lambda body: f"{len(str(body))} characters came, with {len(body.get('tools') or [])} tools",
    "shell": turns(
        say.tools(say.call("Bash", command="id", description="who am I"), text="let me look"), "done"
    ),
    "slow": say.text("one word after another " * 20).split(80).slow(between=0.25),
    "overloaded": say.error(529),
    "spent": say.spend_limit(),
    "too-long": say.too_long(),
    "cut": say.text("half an answer").closing(deltas=2),
    "hang": say.hang(),
    "refuse": say.refusal("no"),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--script", metavar="FILE.py", help="what to answer")
    parser.add_argument("--say", choices=sorted(SCRIPTS), default="ok", help="what to answer without a file")
    parser.add_argument("--key", help="refuse any other key")
    parser.add_argument(
        "--no-checks", action="store_true", help="answer requests that the real API would refuse"
    )
    chosen = parser.parse_args()
    given = runpy.run_path(chosen.script) if chosen.script else {"script": SCRIPTS[chosen.say]}
    options: dict[str, Any] = {"port": chosen.port, "key": chosen.key, "checks": not chosen.no_checks}
    options |= given.get("options", {})
    with ModelServer(given.get("script"), scripts=given.get("scripts"), **options) as server:
        print(server.url, flush=True)
        try:
            _report(server)
        except KeyboardInterrupt:
            return 0


def _report(server: ModelServer) -> NoReturn:
    """One line for each request and each complaint, for ever."""
    told = complained = 0
    while True:
        requests, complaints = server.requests, server.complaints
        for request in requests[told:]:
            body = request.body
            size = (
                f"{len(request.raw)} bytes, {len(body.get('messages') or body.get('input') or ())} messages"
            )
            print(
                f"{request.method} {request.path} {body.get('model', '')} ({size})",
                file=sys.stderr,
                flush=True,
            )
        for complaint in complaints[complained:]:
            print(f"refused: {complaint}", file=sys.stderr, flush=True)
        told, complained = len(requests), len(complaints)
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
