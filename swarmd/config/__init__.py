"""Reads agents.d and swarmd.toml into checked, frozen values; it starts nothing and stores nothing."""
