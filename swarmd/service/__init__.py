"""Every read and every act, once: behind the CLI, the operator's socket and the sessions' desks."""
