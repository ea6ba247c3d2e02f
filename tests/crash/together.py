"""Two people and the sessions of an agent edit one MEMORY.md at once, compactions in between, and the daemon is killed.

All of them are real processes. `python -m tests.crash.together --seeds 40` plays the seeds 1 to 40; `--only SEED` repeats
one, as it was printed: the same kills and edits, though not to the instant. Every line that was saved must stand in
MEMORY.md, in an archive or in an open conflict. Exits with 1 where one does not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from swarmd.errors import SwarmdError
from swarmd.places import Places
from swarmd.service.operator import socket_client
from swarmd.store.connections import open_reading
from tests.crash import checks, editor, part, session_checks, summarize, writing
from tests.crash.shim import build, compiler

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0
AGENT = "scribe"
NAMES = ("ADA", "BOB")
WORDS = {
    "ADA": "flour and butter came from the mill", "BOB": "three guests want rooms by Friday",
    "SESSION": "quarterly ledger balances are correct",
}  # fmt: skip
ALIKE = dict.fromkeys(WORDS, "wrote a line of the list")
"""What they write in some of the seeds: lines that could each be the correction of another."""
MOST_CALLS = 1500
"""A daemon that nobody kills makes at least so many calls in LIFE_SECONDS."""
LIFE_SECONDS = 3.0
FAILURES = (
    "while it was summarized", "which is no less than", "with its heading the summary has", "did not come to its end"
)  # fmt: skip
"""How a compaction may fail: others were faster, there is little to make smaller, or the daemon was killed."""
NOTES = f"# Notes\n{part.NOTES}"


class Together:
    """One seed."""

    def __init__(self, seed: int, root: Path, shim: Path) -> None:
        self.seed, self.root, self.shim = seed, root, shim
        self.chance = random.Random(f"together:{seed}")
        self.words = self.chance.choice((WORDS, WORDS, ALIKE))
        self.desk = root / "desk"
        self.state = root / "state"
        self.notes = self.state / "memory" / AGENT
        self.counts: Counter[str] = Counter()
        self.stopping = threading.Event()
        self.committed: list[int] = []
        agents = root / "agents.d"
        self.places = Places(agents=agents, state=self.state, runtime=root / "run", config=root / "swarmd.toml",
                             runtime_is_named=True)  # fmt: skip

    # -- playing --------------------------------------------------------------------------------------------

    def play(self) -> None:
        """Some lives of the daemon, each but the last ended by a kill."""
        self._prepare()
        with self._daemon(0) as daemon:
            self._ready(daemon)
            self._call("memory_write", agent=AGENT, file="MEMORY.md", text=NOTES)
        people = [self._person(name) for name in NAMES]
        asking = threading.Thread(target=self._ask)
        asking.start()
        try:
            for _ in range(self.chance.randrange(1, 4)):
                self._live(self._kill_at())
                # The people go on while nobody takes note of it.
                time.sleep(self.chance.choice((0.0, 0.1, 0.4)))
            self._live(0)
        finally:
            (self.desk / "stop").touch()
            self.stopping.set()
            for person in people:
                assert person.wait(PATIENCE) == 0, "a person failed"
            asking.join(PATIENCE)
        with self._daemon(0) as daemon:
            self._ready(daemon)
            # An operator's write takes over what people have left.
            self._call("memory_append", agent=AGENT, file="MEMORY.md", text="- OPERATOR was last")

    def _prepare(self) -> None:
        python = [sys.executable, "-I", "-S"]
        self.desk.mkdir()
        self.places.agents.mkdir()
        runner = json.dumps([*python, writing.__file__, str(self.seed), self.words["SESSION"]])
        summarizer = json.dumps([*python, summarize.__file__])
        self.places.config.write_text('[daemon]\ndrain_timeout = "1s"\n')
        (self.places.agents / f"{AGENT}.toml").write_text(
            f'system_prompt = "You keep the list."\nrunner = {{ kind = "command", command = {runner} }}\n'
            f'sandbox = {{ level = "none" }}\nlimits = {{ retries = 0 }}\n'
            f"[memory]\nprompt_tokens = 700\nsummarizer_command = {summarizer}\n"
        )

    def _kill_at(self) -> int:
        """Early, while it starts, as often as later, while all write."""
        return self.chance.randrange(1, self.chance.choice((250, MOST_CALLS)))

    def _live(self, kill_at: int) -> None:
        with self._daemon(kill_at) as daemon:
            if not kill_at:
                self._ready(daemon)
            deadline = time.monotonic() + LIFE_SECONDS
            while daemon.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            self.counts["kills"] += kill_at > 0
            self.counts["kills at a call"] += daemon.poll() == -signal.SIGKILL
            if kill_at and daemon.poll() is None:
                daemon.kill()
                daemon.wait()

    @contextlib.contextmanager
    def _daemon(self, kill_at: int) -> Iterator[subprocess.Popen[bytes]]:
        where = ["--agents", self.places.agents, "--state", self.state, "--runtime", self.places.runtime]
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.root),
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, "-m", "swarmd"]
        if kill_at:
            command = [sys.executable, "-m", "tests.crash.armed", str(kill_at)]
            environment["LD_PRELOAD"] = str(self.shim)
        with (self.root / "log").open("ab") as log:
            process = subprocess.Popen(
                [*command, *where, "serve"], cwd=self.root, env=environment, stdout=log, stderr=log
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                status = process.wait(PATIENCE)
                assert status == 0, f"the daemon has ended with status {status}"
            process.wait()

    def _ready(self, daemon: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            assert daemon.poll() is None, "the daemon has ended"
            assert time.monotonic() < deadline, "the daemon does not answer"
            with contextlib.suppress(OSError, SwarmdError):
                self._call("status")
                return
            time.sleep(0.02)

    def _person(self, name: str) -> subprocess.Popen[bytes]:
        arguments = [self.notes / "MEMORY.md", self.desk, name, f"{self.seed}:{name}", self.words[name]]
        return subprocess.Popen([sys.executable, "-I", "-S", editor.__file__, *arguments])

    def _call(self, name: str, **args: object) -> dict[str, object]:
        return socket_client(self.places).call(name, args)

    def _ask(self) -> None:
        """Sessions, one after the other, and a compaction now and then, whoever is dead."""
        chance = random.Random(f"asking:{self.seed}")
        while not self.stopping.wait(0.05):
            name = chance.choice(("run", "run", "memory_compact"))
            with contextlib.suppress(OSError, SwarmdError):
                document = self._call(name, agent=AGENT)
                if document["outcome"] == "committed":
                    self.committed.append(int(document["id"] if name == "run" else document["session"]))

    # -- checking -------------------------------------------------------------------------------------------

    def broken(self) -> list[str]:
        """Every promise that does not hold."""
        with contextlib.closing(open_reading(self.state / "swarmd.db")) as connection:
            found = list(self._sessions(connection))
            found += self._lines(connection)
            found += self._archives(connection)
            # That a compaction waits for its next try is told to a person.
            heads = checks.files_are_heads(connection, self.state)
            found += [text for text in heads if not any(reason in text for reason in FAILURES)]
            found += session_checks.verified(connection, self.places)
        return found

    def _sessions(self, connection: sqlite3.Connection) -> Iterator[str]:
        rows = connection.execute("SELECT id, state, outcome, reason, trigger FROM sessions").fetchall()
        outcome = {row["id"]: row["outcome"] for row in rows}
        for row in rows:
            self.counts[
                f"{'compactions' if row['trigger'] == 'compact' else 'sessions'} {row['outcome']}"
            ] += 1
            if row["state"] != "ended":
                yield f"session {row['id']} is {row['state']}"
            if row["outcome"] == "failed" and not any(reason in row["reason"] for reason in FAILURES):
                yield f"session {row['id']} failed: {row['reason']}"
        yield from (f"I1: session {id} was acknowledged, and is {outcome.get(id)}" for id in self.committed
                    if outcome.get(id) != "committed")  # fmt: skip

    def _lines(self, connection: sqlite3.Connection) -> Iterator[str]:
        memory = (self.notes / "MEMORY.md").read_text()
        archives = "".join(file.read_text() for file in (self.notes / "archive").glob("*"))
        aside = "".join(
            row[0] for row in connection.execute("SELECT ours FROM conflicts WHERE resolved IS NULL")
        )
        saved, begun = self._of_people("saved"), self._of_people("begun")
        written, unsaved = self._of_sessions(connection)
        self.counts["lines"] += len(saved) + len(written)
        self.counts["lines in conflicts"] += sum(line in aside for line in (*saved, *written))
        for line in (*part.NOTES.splitlines(keepends=True), *saved, *written):
            if line not in memory + archives + aside:
                yield f"I4: {line!r} is gone"
        for line in unsaved:
            if line in memory + archives:
                yield f"I5: {line!r} stands there without a commit"
        known = {*part.NOTES.splitlines(keepends=True), *begun, *written, *unsaved}
        for line in memory.splitlines(keepends=True):
            if line.startswith(("- note", "- ADA", "- BOB", "- SESSION")) and line not in known:
                yield f"I2: {line!r} is none that anybody wrote"
        for line, count in Counter(memory.splitlines()).items():
            if line.startswith("- ") and count > 1 and "SUMMARY" not in line:
                yield f"I2: {line!r} is there {count} times"

    def _of_people(self, what: str) -> list[str]:
        files = [self.desk / f"{name}.{what}" for name in NAMES]
        return [
            line for file in files if file.exists() for line in file.read_text().splitlines(keepends=True)
        ]

    def _of_sessions(self, connection: sqlite3.Connection) -> tuple[list[str], list[str]]:
        """The lines of what was committed, a summary's too, and of what was not."""
        written: list[str] = []
        unsaved: list[str] = []
        if connection.execute("SELECT 1 FROM revisions WHERE how = 'compact'").fetchone():
            written.append(f"{summarize.LINE}\n")
        for row in connection.execute(
            "SELECT id, outcome, checkpoints FROM sessions WHERE trigger = 'manual'"
        ):
            saved = 2 if row["outcome"] == "committed" else row["checkpoints"]
            for number in (1, 2):
                line = f"- SESSION {row['id']} {number}: {self.words['SESSION']}\n"
                (written if number <= saved else unsaved).append(line)
        return written, unsaved

    def _archives(self, connection: sqlite3.Connection) -> Iterator[str]:
        """One for each compaction, none of them written twice."""
        rows = connection.execute(
            "SELECT path, count(*) AS revisions FROM revisions WHERE path LIKE 'archive/%' GROUP BY path"
        ).fetchall()
        sql = "SELECT count(*) FROM sessions WHERE trigger = 'compact' AND outcome = 'committed'"
        wanted = connection.execute(sql).fetchone()[0]
        files = sorted(str(file.relative_to(self.notes)) for file in (self.notes / "archive").glob("*"))
        if sorted(row["path"] for row in rows) != files or len(files) != wanted:
            yield f"I5: {wanted} compactions have made the archives {files}"
        yield from (f"I5: {row['path']} was overwritten" for row in rows if row["revisions"] > 1)


def run(seed: int, shim: Path, folder: Path) -> tuple[list[str], Counter[str]]:
    """What broke of one seed, and what was done. `folder` is new; it stays where something broke."""
    folder.mkdir(mode=0o700)
    scene = Together(seed, folder, shim)
    try:
        scene.play()
        return scene.broken(), scene.counts
    except AssertionError as error:
        log = (folder / "log").read_text()[-3000:]
        return [f"{error}\n{log}"], scene.counts


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds, from --first on")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="SEED", help="one seed, as it was printed")
    arguments = parser.parse_args()
    if compiler() is None:
        print("skipped: there is no C compiler")
        return 0
    seeds = [arguments.only] if arguments.only else range(arguments.first, arguments.first + arguments.seeds)
    counts: Counter[str] = Counter()
    wrong, began = 0, time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="sw-"))
    try:
        shim = build(folder)
        for seed in seeds:
            found, done = run(seed, shim, folder / str(seed))
            counts.update(done)
            if found:
                wrong += 1
                again = f"python -m tests.crash.together --only {seed}; what is left is in {folder}/{seed}"
                print(f"BROKEN ({again}): {'; '.join(found)}", flush=True)
            else:
                shutil.rmtree(folder / str(seed))
    finally:
        if not wrong:
            shutil.rmtree(folder)
    facts = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    print(f"{len(seeds)} seeds ran, {wrong} broke, in {time.monotonic() - began:.0f} s: {facts}")
    return int(bool(wrong or not counts["kills at a call"]))


if __name__ == "__main__":
    sys.exit(main())
