"""swarmd: a daemon that runs a tree of AI agents on schedules and commits what they write, all or nothing."""

__version__ = "0.1.0"
