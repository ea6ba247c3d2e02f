"""Where the demo plays: a temporary folder with agents, a daemon of its own, and the commands that look at both."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swarmd.errors import Failed
from swarmd.places import PlaceOptions, places

START_SECONDS = 30.0
STOP_SECONDS = 20.0
COMMAND_SECONDS = 30.0
SCHEDULES = {"host": "8s"}
OTHER_SCHEDULES = "5s"
_OUTSIDE = (
    "SWARMD_",
    "STATE_DIRECTORY",
    "CONFIGURATION_DIRECTORY",
    "RUNTIME_DIRECTORY",
    "NOTIFY_SOCKET",
    "WATCHDOG_",
)
"""What would lead the demo's commands to another swarmd than the demo's own, or its daemon to another's systemd."""


class Stage:
    """A folder in which `swarmd` is used as a person would: standing in it, without options."""

    def __init__(self) -> None:
        """Make the folder; nothing runs yet."""
        self.folder = Path(tempfile.mkdtemp(prefix="swarmd-demo-", dir=_place())).resolve()
        self.agents = self.folder / "agents.d"
        self.log_file = self.folder / "logs" / "shop.log"
        self._said = self.folder / "serve.log"
        self._daemon: subprocess.Popen[bytes] | None = None
        self._environ = {name: value for name, value in os.environ.items() if not name.startswith(_OUTSIDE)}

    def prepare(self) -> None:
        """`swarmd init`, and then quicker schedules than anybody wants to have for long."""
        self._run("init", ".")
        self.log_file.parent.mkdir()
        self.log_file.write_text("the shop opens\n")
        for file in self.agents.glob("*.toml"):
            every = f'every = "{SCHEDULES.get(file.stem, OTHER_SCHEDULES)}"'
            text = re.sub(r'every = "\w+"', every, file.read_text())
            file.write_text(text.replace('"/var/log"', json.dumps(str(self.log_file.parent))))
        (self.folder / "swarmd.toml").write_text('[daemon]\ndrain_timeout = "5s"\n')

    def start(self) -> None:
        """`swarmd serve`, until it answers. Raises Failed where it does not."""
        with self._said.open("wb") as said:
            # A process group of its own: Ctrl-C reaches the demo, which then stops the daemon in good order.
            self._daemon = subprocess.Popen(
                self._command("serve"), cwd=self.folder, env=self._environ, stdin=subprocess.DEVNULL, stdout=said,
                stderr=said, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.is_alive():
            if b" ready: " in self._said.read_bytes():
                return
            time.sleep(0.1)
        raise Failed(f"the daemon did not start; it said:\n{self.last_words()}")

    def is_alive(self) -> bool:
        """Whether the daemon runs."""
        return self._daemon is not None and self._daemon.poll() is None

    def last_words(self) -> str:
        """The end of what the daemon wrote."""
        return "\n".join(self._said.read_text(errors="replace").splitlines()[-15:])

    def ask(self, *args: str) -> Mapping[str, Any]:
        """The document of a reading command."""
        found: Mapping[str, Any] = json.loads(self._run(*args, "--json"))
        return found

    def act(self, *args: str) -> str:
        """An operator's command, or what it said where it failed."""
        try:
            self._run(*args)
        except Failed as error:
            return str(error)
        return ""

    def add_clumsy(self) -> None:
        """One more agent, without a schedule, whose script writes a key and then fails."""
        script = self.agents / "clumsy.sh"
        script.write_text("#!/bin/sh\nswarmd ctx set answer 42\nexit 1\n")
        script.chmod(0o755)
        (self.agents / "clumsy.toml").write_text(
            'system_prompt = "You fail."\nrunner = { kind = "command", command = ["./clumsy.sh"] }\n'
        )
        self.act("reload")

    def stop(self) -> bool:
        """SIGTERM, and wait for the end; whether it came by itself and in good order."""
        if self._daemon is None:
            return True
        if self._daemon.poll() is None:
            self._daemon.terminate()
        try:
            return self._daemon.wait(STOP_SECONDS) == 0
        except subprocess.TimeoutExpired:
            os.killpg(self._daemon.pid, signal.SIGKILL)
            self._daemon.wait()
            return False

    def remove(self, *, keep: bool) -> bool:
        """Remove the folder, unless it is to be kept, and the sockets' folder; whether all is as it should be."""
        sockets = places(PlaceOptions(), self._environ, self.folder, os.getuid()).runtime
        shutil.rmtree(sockets, ignore_errors=True)
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
        return keep or not self.folder.exists()

    def _run(self, *args: str) -> str:
        ran = subprocess.run(
            self._command(*args), cwd=self.folder, env=self._environ, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=COMMAND_SECONDS, check=False,
        )  # fmt: skip
        if ran.returncode != 0:
            said = ran.stderr.decode("utf-8", "replace").strip()
            raise Failed(said or f"`swarmd {' '.join(args)}` ended with status {ran.returncode}")
        return ran.stdout.decode("utf-8", "replace")

    @staticmethod
    def _command(*args: str) -> list[str]:
        return [sys.executable, "-m", "swarmd", *args]


def _place() -> str | None:
    """Where scripts may be executed: a temporary folder may be mounted so that they may not."""
    for folder in (tempfile.gettempdir(), os.path.expanduser("~"), str(Path.cwd())):
        if os.access(folder, os.W_OK) and not os.statvfs(folder).f_flag & os.ST_NOEXEC:
            return folder
    return None
