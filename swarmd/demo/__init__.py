"""The demo, `python -m swarmd.demo`: a tree of agents in a folder of its own, live for a minute, in plain words."""
