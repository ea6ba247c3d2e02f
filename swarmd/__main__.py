"""`python -m swarmd` is `swarmd`."""

import gc
import sys


def entry() -> None:
    """The program. A command lives for a tenth of a second, in which collecting garbage costs a tenth of its time and
    frees nothing; the daemon turns it on again.
    """
    gc.disable()
    from swarmd.cli.main import main

    sys.exit(main())


if __name__ == "__main__":
    entry()
