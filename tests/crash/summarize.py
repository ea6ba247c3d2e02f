"""A summarizer, as a program: it reads all that it is given and answers with the same summary each time."""

from __future__ import annotations

import sys

LINE = "- SUMMARY: something was worth knowing"
SUMMARY = f"# Notes\n{LINE}\n"
"""Its first line is where the person writes theirs."""


def main() -> None:
    assert "worth knowing" in sys.stdin.read()
    sys.stdout.write(SUMMARY)


if __name__ == "__main__":
    main()
