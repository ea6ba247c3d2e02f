"""A process namespace of its own for a model's shell, by bubblewrap where that is installed and may be used.

In it a command sees no process but its own, and all of them die with its first. Landlock comes on top, from inside:
whoever is held by Landlock already may not arrange mounts, which bubblewrap does.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from swarmd.runners import landlock
from swarmd.runners.sandbox import Policy

_OWN = (
    "--die-with-parent",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--dev-bind",
    "/",
    "/",
    "--proc",
    "/proc",
)
_CONFINE = "import sys; sys.path.append(sys.argv[1]); import swarmd.runners.bubblewrap as it; it.main()"
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROBE_SECONDS = 5.0


@functools.cache
def usable() -> str | None:
    """Where it is; None where it is missing, or where this user may make no namespaces (asked once a process)."""
    program = shutil.which("bwrap")
    if program is None:
        return None
    try:
        ran = subprocess.run(
            [program, *_OWN, "--", "/bin/true"], capture_output=True, timeout=PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return program if ran.returncode == 0 else None


def wrapped(program: str, argv: Sequence[str], policy: Policy, python: str) -> list[str]:
    """`argv` in a namespace of its own, under `policy`. `program` is what `usable` gave."""
    net = () if policy.network else ("--unshare-net",)
    inside = list(argv)
    if policy.level == "landlock":
        inside = [python, "-I", "-S", "-c", _CONFINE, _ROOT, json.dumps(policy.as_spec()), *argv]
    return [program, *_OWN, *net, "--", *inside]


def main() -> None:
    """Confine this process as the second argument says, then become the rest."""
    spec, argv = json.loads(sys.argv[2]), sys.argv[3:]
    try:
        landlock.restrict(spec)
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.exit(f"{argv[0]}: {error.strerror}")
