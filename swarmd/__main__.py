"""`python -m swarmd` is `swarmd`."""

import gc
import os
import sys


def entry() -> None:
    """The program. A command lives for a tenth of a second: collecting garbage, and taking down at the end what the
    kernel takes down anyway, would cost a fifth of it. The daemon turns the collection on again.
    """
    gc.disable()
    from swarmd.cli.main import main

    status = main()
    threads = sys.modules.get("threading")
    if threads is not None and threads.active_count() > 1:
        sys.exit(status)  # somebody still works: the usual end waits for them
    # What was printed is out: main flushes, and says so where that fails.
    os._exit(status)


if __name__ == "__main__":
    entry()
