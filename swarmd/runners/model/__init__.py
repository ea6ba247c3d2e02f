"""The loop of a session with a model's API: its turns, its tools, its limits. It runs in a worker process."""
