"""From how a program ended to a runner's outcome and a sentence for people; nothing here touches the world but stat."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import unicodedata

from swarmd.core.wire import Outcome, Result
from swarmd.runners.process import Ended, Problem, Start

UNAVAILABLE = os.EX_TEMPFAIL
LINE_CHARACTERS = 300
LAST_LINES = 5
CANCELLED = "cancelled, and ended with all its processes"


class RunCancelled(asyncio.CancelledError):
    """What a runner raises when it was cancelled: its processes are dead, and `result` holds what there was."""

    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result


def one_line(data: bytes) -> str:
    """The last line that is not blank, bounded, with everything a terminal could act on escaped."""
    lines = [line for line in data[-64 * 1024 :].replace(b"\r", b"\n").split(b"\n") if line.strip()]
    text = lines[-1].decode("utf-8", "backslashreplace").strip() if lines else ""
    shown = "".join(_shown(char) for char in text[: LINE_CHARACTERS + 1])
    return shown if len(shown) <= LINE_CHARACTERS else shown[: LINE_CHARACTERS - 3] + "..."


def last_lines(data: bytes) -> str:
    """The last lines that are not blank, in one, bounded and escaped as `one_line` does."""
    lines = [line for line in data[-64 * 1024 :].replace(b"\r", b"\n").split(b"\n") if line.strip()]
    return "; ".join(one_line(line) for line in lines[-LAST_LINES:])


def _shown(char: str) -> str:
    return ascii(char)[1:-1] if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") else char


def outcome(ended: Ended, start: Start, timeout_seconds: float) -> tuple[Outcome, str, int | None]:
    """Outcome, reason and exit status (128 + N for signal N) of a `command` session."""
    said = one_line(ended.stderr.head + ended.stderr.tail)
    more = f": {said}" if said else ""
    status = ended.exit if ended.signal is None else 128 + ended.signal
    if ended.timed_out:
        reason = f"timed out after {timeout_seconds:g} seconds, and was ended with all its processes"
        return "timed_out", reason + _waiting(ended), status
    if ended.problem is not None:
        return "failed", problem_sentence(ended.problem, start), None
    if ended.signal is not None:
        return "failed", f"killed by signal {ended.signal} ({_signal_name(ended.signal)}){more}", status
    if ended.exit == 0:
        return "success", "", 0
    if ended.exit == UNAVAILABLE:
        return "unavailable", f"exit status {UNAVAILABLE} (try again later){more}", status
    return "failed", f"exit status {ended.exit}{more}", status


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "a real-time signal"


def _waiting(ended: Ended) -> str:
    """A hint where the last that it printed looks like a question."""
    for captured in (ended.stderr, ended.stdout):
        last = (captured.tail or captured.head)[-200:]
        if last.rstrip().endswith((b":", b"?", b"]", b">")) and not last.endswith(b"\n"):
            return f"; perhaps it waited for an answer (there is no terminal): {one_line(last)!r}"
    return ""


def problem_sentence(problem: Problem, start: Start) -> str:
    """Why the program did not start, and what to do."""
    why = problem.detail or (os.strerror(problem.errno) if problem.errno else "the cause is unknown")
    if problem.stage == "workdir":
        return f"workdir {start.workdir}: {why}; make it, or name another in [runner]"
    if problem.stage == "program":
        return _program_sentence(problem.errno, start.program, why, start.env.get("PATH", ""))
    if problem.stage == "sandbox":
        return f"the sandbox could not be set up: {why}"
    if problem.stage == "supervisor":
        return "the supervisor of the session was killed, and the session with it"
    return f"the session's process could not be set up ({problem.stage}): {why}"


def _program_sentence(number: int, program: str, why: str, path: str) -> str:
    if number == errno.ENOENT and "/" not in program:
        return f"the program {program!r} was not found on PATH ({path})"
    if number == errno.ENOENT and os.path.exists(program):
        return f"the program {program} cannot start: the interpreter that its first line names does not exist"
    if number == errno.ENOENT:
        return f"the program {program} does not exist (a relative one starts at the agent's file)"
    if number == errno.EACCES:
        return f"the program {program} may not be executed: it needs the mode (chmod +x) and a readable place"
    if number == errno.ENOEXEC:
        return f"the program {program} cannot be executed: is it a script without '#!' in its first line?"
    return f"the program {program} cannot be started: {why}"
