"""`python -m swarmd` is `swarmd`."""

import sys

from swarmd.cli.main import main

sys.exit(main())
