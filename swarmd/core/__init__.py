"""The rules of swarmd as pure functions over frozen values: no I/O, no clock, no third-party library."""
