"""From agent files to definitions in force: scan, check, reconcile with the store, one transaction."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from swarmd.config.check import Cache, Checked, Rules, check, check_file
from swarmd.config.document import read_document
from swarmd.config.files import FileRead, Guard, read_file
from swarmd.config.host_zone import host_zone
from swarmd.config.kinds import Kinds, RunnerKind
from swarmd.config.load import InForce, Reload, reconcile
from swarmd.config.problems import Problem
from swarmd.config.scan import Scan, ScannedFile, scan_folder
from swarmd.config.settings import Settings, read_settings
from swarmd.core.agent import Agent
from swarmd.errors import BadInput
from swarmd.places import Places
from swarmd.runners import registry
from swarmd.runners.sandbox import write_problems
from swarmd.service import freshness
from swarmd.store import audit, trees
from swarmd.store.connections import Connection
from swarmd.store.raising import cure, raise_attention
from swarmd.store.store import Store

ATTENTION = "agents-folder"


def kinds() -> Kinds:
    """What the loader must know of every runner there is."""
    modules = {kind: registry.load(kind) for kind in registry.kinds()}
    return {
        kind: RunnerKind(options=m.Options, measures=m.measures, capabilities=m.capabilities,
                         lacks=getattr(m, "lacking", None))
        for kind, m in modules.items()
    }  # fmt: skip


def rules_of(places: Places, runner_kinds: Kinds) -> Rules:
    """What agent files are judged by on this machine."""
    forbidden = tuple(str(path) for path in (places.agents, places.state, places.runtime))
    return Rules(
        kinds=runner_kinds, host_zone=host_zone(os.environ)[0],
        write_problems=_WriteProblems(forbidden), sessions_write=forbidden[1:],
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _WriteProblems:
    """Equal for equal places, so that judged files stay judged."""

    forbidden: tuple[str, ...]

    def __call__(self, paths: Sequence[str]) -> Sequence[str]:
        return write_problems(paths, self.forbidden)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a look at the files has brought into force."""

    reload: Reload
    settings: Settings
    written: bool

    def as_json(self) -> dict[str, Any]:
        """As `swarmd reload --json` prints it."""
        return {
            "added": list(self.reload.added), "changed": list(self.reload.changed),
            "removed": list(self.reload.removed),
            "kept": list(self.reload.kept), "absent": sorted(self.reload.absent),
            "problems": [problem.as_json() for problem in self.reload.problems],
            "attention": list(self.reload.attention),
        }  # fmt: skip


class Loader:
    """Looks at the agent files again and again; nothing is read, judged or written twice without need."""

    def __init__(
        self, places: Places, store: Store, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._places = places
        self._now = now
        self._store = store
        self._kinds = kinds()
        self._rules = rules_of(places, self._kinds)
        self._guard = Guard(uid=os.geteuid())
        self._cache = Cache()
        self._scan: Scan | None = None
        self._settings: Settings | None = None
        self._recheck_at: float | None = None
        self._loaded: Loaded | None = None

    @property
    def settings(self) -> Settings:
        """swarmd.toml as it was read last."""
        if self._settings is None:
            self._settings = self._read_settings()
        return self._settings

    @property
    def rules(self) -> Rules:
        """What files are judged by."""
        return self._rules

    def _read_settings(self) -> Settings:
        return read_settings(
            self._places.config, kinds=self._kinds, guard=self._guard, now_ns=time.time_ns(), previous=self._settings,
            required=self._places.config_is_named,
        )  # fmt: skip

    def look(self, *, allow_empty: bool = False, by: str = "system", force: bool = False) -> Loaded | None:
        """Load what has changed; None when nothing has. Blocking: call it off the loop."""
        now_ns = time.time_ns()
        seen = freshness.fingerprint(self._places)
        settings = self._read_settings()
        scan = scan_folder(self._places.agents, guard=self._guard, now_ns=now_ns, previous=self._scan)
        moment = self._now()
        now = moment.timestamp()
        same = self._scan is not None and scan.says_same_as(self._scan) and settings is self._settings
        waiting = self._recheck_at is not None and now >= self._recheck_at
        if same and not waiting and not force and self._loaded is not None:
            self._scan = scan
            return None
        checked = check(scan, settings, self._rules, self._cache)
        loaded = self._store.writer.do(
            lambda connection: self._into_force(connection, checked, settings, moment, allow_empty, by, seen)
        )
        self._scan, self._settings, self._loaded = scan, settings, loaded
        self._recheck_at = loaded.reload.recheck_at
        return loaded

    def _into_force(
        self,
        connection: Connection,
        checked: Checked,
        settings: Settings,
        now: datetime,
        allow_empty: bool,
        by: str,
        seen: str,
    ) -> Loaded:
        before = trees.in_force(connection)
        known = {
            name: InForce(
                agent=row.agent, absent_since=row.absent_since.timestamp() if row.absent_since else None
            )
            for name, row in before.items()
        }
        reload = reconcile(known, checked, now=now.timestamp(), allow_empty=allow_empty)
        for name in (*reload.added, *reload.changed):
            trees.put_in_force(
                connection, reload.agents[name], reload.sources.get(name, ""), f"{name}.toml", now, by
            )
        for name in reload.removed:
            trees.remove(connection, name, now, by)
        problems = [_problem(p) for p in reload.problems]
        faults = _by_agent(problems)
        for name in reload.agents:
            since = reload.absent.get(name)
            absent_since = None if since is None else datetime.fromtimestamp(since, UTC)
            trees.mark(connection, name, faults.get(name), absent_since)
        trees.set_problems(connection, problems, now)
        _tell(connection, reload, now)
        # Absent files must be looked at again, though nothing about them changes any more.
        freshness.keep(connection, "" if reload.recheck_at is not None else seen)
        if reload.is_change:
            detail = {"added": reload.added, "changed": reload.changed, "removed": reload.removed}
            audit.write(connection, at=now, by=by, act="reload", detail=detail)
        return Loaded(reload=reload, settings=settings, written=reload.is_change)


def _tell(connection: Connection, reload: Reload, now: datetime) -> None:
    """Raise or cure what is odd about the whole folder."""
    if reload.attention:
        raise_attention(connection, id=ATTENTION, kind="agents_folder", agent=None, text="; ".join(reload.attention),
                        next_step="put the files back, or swarmd reload --allow-empty", now=now)  # fmt: skip
    else:
        cure(connection, ATTENTION)


def _problem(problem: Problem) -> Mapping[str, object]:
    return {"file": problem.file, "line": problem.line, "field": problem.field, "severity": problem.severity,
            "text": str(problem)}  # fmt: skip


def _by_agent(problems: Sequence[Mapping[str, object]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for problem in problems:
        if problem["severity"] == "error":
            found.setdefault(Path(str(problem["file"])).stem, str(problem["text"]))
    return found


def edited(places: Places, name: str, text: str, path: str | None, rules: Rules, settings: Settings) -> Agent:
    """An agent as an edited file would define it, without bringing it into force (`--file NEW.toml`).

    `path` is where the file stands, for what it names relatively. Raises BadInput with every problem of the file.
    """
    given = Path(path) if path else places.agents / f"{name}.toml"
    shown = path or f"{name}.toml"
    data = text.encode("utf-8", "surrogateescape")
    document = read_document(shown, data)
    named = document.data.get("system_prompt_file")
    prompt = None
    if isinstance(named, str) and named and "\x00" not in named:
        prompt = read_file(given.parent / named, Guard(uid=os.geteuid()), time.time_ns())
    file = ScannedFile(
        name=name, file=shown, read=FileRead(path=given.with_name(f"{name}.toml"), data=data), document=document,
        prompt=prompt,
    )  # fmt: skip
    judged = check_file(file, settings.defaults, rules)
    if judged.agent is None:
        raise BadInput("; ".join(str(problem) for problem in judged.problems))
    return judged.agent
