"""Word to systemd: READY, STATUS, RELOADING, STOPPING and the watchdog, as sd_notify(3) has them; silent elsewhere."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import MutableMapping


class Notifier:
    """Takes NOTIFY_SOCKET and WATCHDOG_* out of the environment, so that no child can speak for the daemon."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._address = environ.pop("NOTIFY_SOCKET", "")
        seconds = environ.pop("WATCHDOG_USEC", "")
        pid = environ.pop("WATCHDOG_PID", "")
        own = not pid or pid == str(os.getpid())
        self.watchdog_seconds = int(seconds) / 1e6 if seconds.isdigit() and own else None

    def ready(self) -> None:
        """The first load is done and sessions may start."""
        self._send("READY=1")

    def reloading(self) -> None:
        """Agent files are looked at; READY follows. systemd wants the monotonic time with it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, seconds: float) -> None:
        """No more sessions start; the stop may take that long, also where the unit's TimeoutStopSec is shorter."""
        self._send(f"STOPPING=1\nEXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

    def status(self, text: str) -> None:
        """One line for `systemctl status`."""
        self._send("STATUS=" + text.replace("\n", " "))

    def alive(self) -> None:
        """The scheduler runs."""
        self._send("WATCHDOG=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as peer:
                peer.settimeout(1.0)
                peer.sendto(message.encode(), address)
        except OSError:
            # systemd being gone must not stop the daemon; it will notice the missing watchdog by itself.
            return
