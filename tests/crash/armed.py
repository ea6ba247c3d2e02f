"""`python -m tests.crash.armed N ...`: swarmd with these arguments, killed at its Nth call that changes something."""

from __future__ import annotations

import sys

from swarmd.__main__ import entry
from tests.crash.shim import Shim


def main() -> int:
    at = int(sys.argv[1])
    sys.argv = ["swarmd", *sys.argv[2:]]
    Shim().arm(at, torn=at % 3 == 0)
    return entry()


if __name__ == "__main__":
    sys.exit(main())
