"""One session from its start to its commit: `flow` is the file to read first."""
