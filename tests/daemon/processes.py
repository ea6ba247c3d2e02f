"""A daemon in a process of its own (`swarmd serve`), its log, its word to systemd, and what is left of it."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE = 40.0
SLEEPER = "import time\ntime.sleep(600)\n"
STUBBORN = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)\n"
KEEPS = "import subprocess, time\nsubprocess.run(['swarmd', 'ctx', 'set', 'part', 'done'], check=True)\nopen('{ready}', 'w').close()\ntime.sleep(600)\n"


class Served:
    """A running `swarmd serve`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        if process.stderr is not None:
            self._reading.start()

    def _read(self) -> None:
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    @property
    def log(self) -> str:
        return "\n".join(self.lines)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def await_line(self, text: str, *, times: int = 1) -> None:
        await_(
            lambda: sum(text in line for line in list(self.lines)) >= times,
            lambda: f"no {text!r} in:\n{self.log}",
        )

    def ended(self, seconds: float = PATIENCE) -> int:
        """Its exit status, when it has ended by itself."""
        status = self.process.wait(seconds)
        if self._reading.ident is not None:
            self._reading.join(5)
        return status


class Place:
    """Agent files and state for daemons in processes."""

    def __init__(self, root: Path, runtime: Path) -> None:
        self.root = root
        self.agents = root / "agents.d"
        self.state = root / "state"
        self.runtime = runtime
        self.agents.mkdir()
        self.settings(drain_timeout="1s")

    def settings(self, **daemon: object) -> None:
        table = {"max_sessions": 20, "max_processes": 100, **daemon}
        lines = [f"{k} = {json.dumps(v)}\n" for k, v in table.items()]
        (self.root / "swarmd.toml").write_text("[daemon]\n" + "".join(lines))

    def agent(self, name: str, script: str = "", schedule: str = "", *, more: str = "") -> None:
        program = self.root / f"{name}.py"
        program.write_text(script)
        command = json.dumps([sys.executable, "-S", "-E", str(program)])
        text = f'system_prompt = "You are {name}."\nrunner = {{ kind = "command", command = {command} }}\n'
        when = f"[schedule]\n{schedule}\n" if schedule else ""
        (self.agents / f"{name}.toml").write_text(text + when + '[sandbox]\nlevel = "none"\n' + more)

    @property
    def places(self) -> list[str]:
        return ["--agents", str(self.agents), "--state", str(self.state), "--runtime", str(self.runtime)]

    def environment(self, **more: str) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
        return {"PATH": path, "HOME": str(self.root), "LANG": "C.UTF-8", **more}

    @contextmanager
    def serving(
        self, *options: str, ready: bool = True, places: list[str] | None = None, **env: str
    ) -> Iterator[Served]:
        command = [sys.executable, "-m", "swarmd", *(places or self.places), "serve", *options]
        process = subprocess.Popen(
            command, env=self.environment(**env), cwd=self.root, stderr=subprocess.PIPE, text=True
        )
        served = Served(process)
        try:
            if ready:
                served.await_line("ready:")
            yield served
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            served._reading.join(5)
            process.stderr.close()

    def swarmd(self, *arguments: str, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "swarmd", *self.places, *arguments]
        return subprocess.run(command, env=self.environment(**env), cwd=self.root, capture_output=True, text=True,
                              timeout=PATIENCE, check=check)  # fmt: skip

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "swarmd", *self.places, *arguments]
        return subprocess.Popen(command, env=self.environment(), cwd=self.root, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)  # fmt: skip

    def rows(self, sql: str, *values: object) -> list[dict[str, Any]]:
        connection = sqlite3.connect(f"file:{self.state / 'swarmd.db'}?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute(sql, values)]
        finally:
            connection.close()

    def sessions(self) -> list[dict[str, Any]]:
        return self.rows("SELECT * FROM sessions ORDER BY id")

    def running(self, count: int) -> None:
        """Wait until so many programs of sessions run."""
        await_(lambda: len(self.programs()) >= count, lambda: f"{self.programs()} run")

    def programs(self) -> list[int]:
        """The programs of sessions that live, wherever they are."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    command = Path("/proc", name, "cmdline").read_bytes()
                except OSError:
                    continue
                if (
                    f"{self.root}/".encode() in command
                    and b".py\0" in command
                    and b"swarmd" not in command.split(b"\0")[0]
                ):
                    found.append(int(name))
        return found


class Systemd:
    """What a service manager hears at its notify socket."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self.address = str(path)
        self.heard: list[str] = []

    def hear(self, seconds: float = 0.0) -> list[str]:
        """Everything said so far, and within the next seconds."""
        deadline = time.monotonic() + seconds
        while select.select([self._socket], [], [], max(0.0, deadline - time.monotonic()))[0]:
            self.heard += self._socket.recv(4096).decode().split("\n")
        return self.heard

    def await_(self, word: str) -> None:
        await_(lambda: word in self.hear(0.05), lambda: f"no {word} in {self.heard}")

    def close(self) -> None:
        self._socket.close()


def await_(holds, what) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
