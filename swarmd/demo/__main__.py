"""`python -m swarmd.demo [--seconds N] [--keep]`: play, tell, sum up; exit 0 only where all that it shows was seen."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from swarmd.cli import output
from swarmd.demo.stage import Stage
from swarmd.demo.summary import look_further, summarize
from swarmd.demo.teller import Teller
from swarmd.errors import Failed, SwarmdError

SECONDS = 60
EXTRA_SECONDS = 40
"""How much longer it goes on where something was not seen yet: a busy machine is slow, and no failure."""
POLL_SECONDS = 1.0
INTERRUPTED = 130
PIPE_CLOSED = 141


def main(args: list[str] | None = None) -> int:
    """Run the demo; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m swarmd.demo", description="Five agents, live, without any key."
    )
    parser.add_argument(
        "--seconds", type=int, default=SECONDS, metavar="N", help="how long (default: %(default)s)"
    )
    parser.add_argument("--keep", action="store_true", help="leave the folder there, to look further")
    options = parser.parse_args(args)
    output.make_standard_files_safe()
    # A terminal that closes, or whoever ends the demo, ends it as Ctrl-C does: in good order.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: _interrupt())
    stage = Stage()
    try:
        return _play(stage, options.seconds, keep=options.keep)
    except KeyboardInterrupt:
        output.note("interrupted: the daemon is stopped")
        return INTERRUPTED
    except BrokenPipeError:
        output.close_quietly()
        return PIPE_CLOSED
    except (SwarmdError, subprocess.TimeoutExpired) as error:
        output.block(str(error))
        return 1
    finally:
        stage.stop()
        if not stage.remove(keep=options.keep):
            output.note(f"the folder {stage.folder} could not be removed entirely")
        if options.keep:
            output.line(f"\nThe demo's folder: {stage.folder}")
        output.flush()


def _interrupt() -> None:
    raise KeyboardInterrupt


def _play(stage: Stage, seconds: int, *, keep: bool) -> int:
    stage.prepare()
    _opening(stage, seconds)
    stage.start()
    teller = Teller(stage)
    teller.say("the daemon runs: swarmd serve")
    acts = _acts(stage, teller, seconds)
    while teller.seconds < seconds or (not teller.has_all and teller.seconds < seconds + EXTRA_SECONDS):
        if not stage.is_alive():
            raise Failed(f"the daemon has ended by itself; it said:\n{stage.last_words()}")
        while acts and teller.seconds >= acts[0][0]:
            acts.pop(0)[1]()
        teller.look()
        time.sleep(POLL_SECONDS)
    teller.say("SIGTERM to the daemon: it lets running sessions end, then stops")
    in_order = stage.stop()
    teller.look()
    summarize(stage, teller)
    missing = teller.missing() + ([] if in_order else ["an orderly stop of the daemon"])
    if missing:
        output.line(f"\nThe demo has failed; it did not show: {', '.join(missing)}. The daemon said:")
        output.block(stage.last_words(), "  ")
        return 1
    look_further(stage, kept=keep)
    return 0


def _opening(stage: Stage, seconds: int) -> None:
    output.line(
        f"Five agents on this host, live for {seconds} seconds. They are scripts: no key, no model, no cost.\n"
    )
    for name, about in (
        ("host", "above the others: reads their keys, hands off work, keeps notes"),
        ("|-- disk", "how full the file systems are"),
        ("|-- files", "what changes in the folder of the agent files"),
        ("|-- load", "processors and memory"),
        ("`-- logs", f"errors in {stage.log_file.parent}"),
    ):
        output.line(f"    {name:11s} {about}")
    output.line(
        "\nEach session of an agent reads what it may know, and ends with what it wants written: keys, handoffs,\n"
        "reports, memory. All of that is saved at once when the session ends well, or none of it.\n"
        f"To look for yourself, in another terminal:  cd {stage.folder}  and  swarmd status\n"
    )
    output.flush()


def _acts(stage: Stage, teller: Teller, seconds: int) -> list[tuple[float, Callable[[], None]]]:
    """What a person does meanwhile, and when."""

    def log_line() -> None:
        teller.say("write a line with an error into the log that the agent logs reads", who="you")
        with stage.log_file.open("a") as file:
            file.write("error: the till is stuck\n")

    def upward() -> None:
        teller.say("swarmd --as disk handoff send --to host --text Hello", who="you")
        teller.say(stage.act("--as", "disk", "handoff", "send", "--to", "host", "--text", "Hello"))

    def hand_off() -> None:
        teller.say('swarmd handoff send --to load --text "What is busiest?"', who="you")
        stage.act("handoff", "send", "--to", "load", "--text", "What is busiest?")

    def edit() -> None:
        teller.say(
            "edit agents.d/disk.toml: in force from its next session on, and the agent files sees it",
            who="you",
        )
        file = stage.agents / "disk.toml"
        file.write_text(file.read_text().replace("How full the file systems are", "How full the disks are"))

    def fail() -> None:
        stage.add_clumsy()
        teller.say("add an agent, clumsy, and run it: it sets a key, then fails", who="you")
        stage.act("run", "clumsy")
        keys = len(stage.ask("ctx", "list", "clumsy")["items"])
        teller.say(
            f"clumsy has {keys} keys: nothing of a failed session is saved, what it wrote is kept as a draft"
        )

    acts = (log_line, upward, hand_off, edit, fail)
    return [(seconds * (0.2 + 0.13 * place), act) for place, act in enumerate(acts)]


if __name__ == "__main__":
    sys.exit(main())
