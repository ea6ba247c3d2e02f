"""The command line: every command parses, makes one call, and prints what came back; nothing is decided here."""

from swarmd.cli.main import main

__all__ = ["main"]
