"""`python -m swarmd` is `swarmd`."""

import sys

from swarmd.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
