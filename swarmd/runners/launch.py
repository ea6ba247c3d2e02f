"""The supervisor of one session: a small program of its own that starts the session's program confined, and
reports its end only when every descendant is dead; it knows nothing of agents, and only the standard library.

The daemon hands it three descriptors (argv): what to start (a marshalled dict; nothing secret is in argv), a
control pipe (`T`: end it gently; closed: the daemon is gone, end it now) and a status pipe for the answer.
"""

from __future__ import annotations

import marshal
import os
import resource
import select
import sys
import time

from swarmd.runners import landlock

TYPE_CHECKING = False  # so that `typing` is not imported: with `signal` (its enums) it would double the start
if TYPE_CHECKING:
    import signal
    from typing import Any, NoReturn

    Spec = dict[str, Any]
else:
    import _signal as signal

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
OPEN_FILES = 1024
OOM_SCORE = "500"


def main() -> None:
    """Start, wait, end everything, report."""
    spec_fd, control, status = (int(arg) for arg in sys.argv[1:4])
    for fd in (spec_fd, control, status):
        os.set_inheritable(fd, False)
    with os.fdopen(spec_fd, "rb") as file:
        spec: Spec = marshal.load(file)  # noqa: S302 - the daemon's own, and json costs 4 ms
    landlock.prctl(PR_SET_CHILD_SUBREAPER, 1)
    # Not dumpable: without Landlock, another process of the same user could else read or trace this one.
    landlock.prctl(PR_SET_DUMPABLE, 0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(
            number, signal.SIG_IGN
        )  # the daemon decides when a session ends, and says so by the pipe
    wake = _wake_on_child()
    child, failure = _start(spec)
    _let_go_of_standard_files()
    if failure:
        os.waitpid(child, 0)
        _report(status, f"failed {failure}")
    else:
        _report(status, f"started {child}")
        _wait(child, control, wake, spec["grace"])
        code, value = _ended(child)
        leftovers = _end_all(wake, spec["cgroup"])
        _report(status, f"ended {code} {value} {leftovers}")
    os._exit(0)  # at once: there is nothing to tidy up, and the daemon waits


def _report(status: int, line: str) -> None:
    try:
        os.write(status, line.encode() + b"\n")
    except OSError:
        pass  # the daemon is gone; what matters now is that the session ends


def _let_go_of_standard_files() -> None:
    """Or the daemon would never see the end of the session's output."""
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd, inheritable=False)
    os.close(null)


def _wake_on_child() -> int:
    reading, writing = os.pipe()
    for fd in (reading, writing):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _nothing)  # a handler there must be, or nobody is woken
    return reading


def _nothing(*_: object) -> None:
    pass


def _start(spec: Spec) -> tuple[int, str]:
    """The child's id, and `STAGE ERRNO` where it could not become the program."""
    reading, writing = os.pipe()  # closed by a successful exec
    supervisor = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            _become(spec, writing, supervisor)
        finally:
            os._exit(127)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        return child, file.read().decode()


def _become(spec: Spec, failure: int, supervisor: int) -> NoReturn:
    stage = "setup"
    try:
        os.setsid()
        landlock.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(127)
        landlock.prctl(PR_SET_DUMPABLE, 1)  # or its own files in /proc would be closed to it
        _usual_signals()
        os.umask(0o077)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(OPEN_FILES, hard), hard))
        _write("/proc/self/oom_score_adj", OOM_SCORE)  # rather this session than the daemon
        if spec["cgroup"]:
            stage = "cgroup"
            _write(spec["cgroup"] + "/cgroup.procs", "0", must=True)
        stage = "workdir"
        os.chdir(spec["workdir"])
        stage = "sandbox"
        landlock.prctl(landlock.PR_SET_NO_NEW_PRIVS, 1)  # without it, a setuid program could outlive the kill
        if spec["landlock"] is not None:
            landlock.restrict(spec["landlock"])
        stage = "program"
        _exec(spec["program"], spec["argv"], spec["env"])
    except OSError as error:
        os.write(failure, f"{stage} {error.errno or 0}".encode())
    except BaseException as error:  # noqa: BLE001 - nothing may return into a second supervisor
        os.write(failure, f"{stage} 0 {error!r}"[:500].encode())
    os._exit(127)


def _usual_signals() -> None:
    """Python ignores some signals, and what is ignored stays so across exec."""
    for number in range(1, signal.NSIG):
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            try:
                signal.signal(number, signal.SIG_DFL)
            except (OSError, ValueError):
                continue  # kept by the C library for itself
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _write(path: str, text: str, *, must: bool = False) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)
    except OSError:
        if must:
            raise


def _exec(program: bytes, argv: list[bytes], env: dict[bytes, bytes]) -> None:
    """Become the program; a bare name is looked for on the session's PATH, not on the daemon's."""
    if b"/" in program:
        os.execve(program, argv, env)
    denied: OSError | None = None
    for folder in env.get(b"PATH", b"").split(b":"):
        try:
            os.execve(folder + b"/" + program if folder else program, argv, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            denied = error
    raise denied or FileNotFoundError(2, "not on PATH")


def _wait(child: int, control: int, wake: int, grace: float) -> None:
    """Until the child has ended, or has to."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wake, select.POLLIN)
    deadline: float | None = None
    while not _reap_all_but(child):
        left = None if deadline is None else (deadline - time.monotonic()) * 1000
        if left is not None and left <= 0:
            return
        for fd, _event in poll.poll(left):
            if fd == wake:
                _drain(wake)
                continue
            if not os.read(control, 64):
                return
            if deadline is None:
                deadline = time.monotonic() + grace
                _kill_group(child, signal.SIGTERM)
                _kill_group(child, signal.SIGCONT)


def _drain(wake: int) -> None:
    try:
        while os.read(wake, 4096):
            pass
    except BlockingIOError:
        pass


def _reap_all_but(child: int) -> bool:
    """Bury the orphans that came to us; True once the child has ended. It stays a zombie, so its ids stay its own."""
    while True:
        ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            return True
        orphan = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if orphan is None:
            return False
        if orphan.si_pid != child:
            os.waitpid(orphan.si_pid, 0)


def _ended(child: int) -> tuple[str, int]:
    """How the child ended (`exit` or `signal`, and the number); one that has not ended is killed here."""
    _kill_group(child, signal.SIGKILL)
    ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    return ("exit" if ended.si_code == os.CLD_EXITED else "signal"), ended.si_status


def _end_all(wake: int, cgroup: str | None) -> int:
    """Kill until there is nobody left, and say how many there were beside the child.

    Whoever loses its parent becomes a child of ours, so to have no child is to have no descendant; and a child
    that we have not buried keeps its number, so that no stranger is hit.
    """
    buried = -1
    if cgroup is not None:
        _write(cgroup + "/cgroup.kill", "1")
    while True:
        for pid in _children():
            _kill_group(pid, signal.SIGKILL)
            os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                buried += 1
        except ChildProcessError:
            return max(buried, 0)
        poll = select.poll()
        poll.register(wake, select.POLLIN)
        poll.poll(20)
        _drain(wake)


def _kill_group(pid: int, number: int) -> None:
    """Signal the process group of one of our children, never our own."""
    try:
        group = os.getpgid(pid)
        if group != os.getpgrp():
            os.killpg(group, number)
    except OSError:
        pass


def _children() -> list[int]:
    try:
        with open("/proc/thread-self/children", "rb", buffering=0) as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return _children_by_search()


def _children_by_search() -> list[int]:
    """The same where the kernel lacks that file."""
    mine = os.getpid()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                    # The program's name, in brackets, may hold anything: what follows the last one is ours.
                    if int(file.read().rpartition(b")")[2].split()[1]) == mine:
                        found.append(int(name))
            except (OSError, IndexError):
                continue
    return found
