"""`python -m swarmd` is `swarmd`."""

import gc
import os
import sys


def entry() -> None:
    """The program. A command lives for a tenth of a second: collecting garbage, and taking down at the end what the
    kernel takes down anyway, would cost a fifth of it. The daemon turns the collection on again.
    """
    if sys.argv[1:2] == ["worker"]:
        _work()
        return
    gc.disable()
    from swarmd.cli.main import main

    status = main()
    threads = sys.modules.get("threading")
    if threads is not None and threads.active_count() > 1:
        sys.exit(status)  # somebody still works: the usual end waits for them
    # What was printed is out: main flushes, and says so where that fails.
    os._exit(status)


def _work() -> None:
    """A worker of the daemon's, which it starts itself (runners.workers): no command of anybody's."""
    from swarmd.runners.model.worker import main

    try:
        channel = int(sys.argv[2])
    except (IndexError, ValueError):
        sys.exit("swarmd: worker: the daemon starts its workers itself; see swarmd --help")
    main(channel)


if __name__ == "__main__":
    entry()
