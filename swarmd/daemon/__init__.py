"""The running daemon: the clock, slots, starts, signals, the operator's socket."""
