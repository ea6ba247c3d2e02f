"""`swarmd` with a client that answers from a file: `scripted_program.py ANSWERS.json ARGS...`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swarmd.cli import output
from swarmd.cli.invocation import Invocation
from swarmd.cli.main import run


class Answers:
    def __init__(self, path: str) -> None:
        self.answers = json.loads(Path(path).read_text())

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        return self.answers[name]


if __name__ == "__main__":
    output.make_standard_files_safe()
    answers = Answers(sys.argv[1])
    sys.exit(run(sys.argv[2:], Invocation(connect=lambda *_: answers)))
