"""The desk of one session: every act is judged at once and staged, every read sees what was staged."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from swarmd.core import acts, asking
from swarmd.core.agent import Agent
from swarmd.core.changes import Change, WriteMemory, act_of, target_of
from swarmd.core.documents import written_doc
from swarmd.core.judge import judge
from swarmd.core.names import REASON_BYTES, text_problem
from swarmd.core.staging import Effect, MemoryWritten, Staged, Verdict
from swarmd.core.wire import MemoryTree, Message, Reply, digest
from swarmd.core.world import Actor
from swarmd.errors import KINDS, BadInput, Failed, NotFound, Refused, SwarmdError
from swarmd.session.journal import Bases, Journal, differences
from swarmd.session.ports import Ports
from swarmd.store import commit as committing
from swarmd.store import sessions
from swarmd.store.connections import Connection, StoreError
from swarmd.store.world import SqlWorld

ANSWERS_KEPT = 1000
ACTS_PER_SESSION = 5000
"""More is no work but a loop; each act costs a judgement and a line of the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """An act that is not in the change set, and why."""

    act: str
    target: str
    reason: str


@dataclass(slots=True, kw_only=True)
class Tally:
    """What the desk has gathered, for the flow to commit."""

    changes: list[Change] = field(default_factory=list)
    refusals: list[Note] = field(default_factory=list)
    superseded: list[Note] = field(default_factory=list)
    failed: str | None = None
    checkpoints: int = 0
    keys_changed: set[str] = field(default_factory=set)
    drafts: dict[int, str] = field(default_factory=dict)
    events: list[Mapping[str, Any]] = field(default_factory=list)


class SessionDesk:
    """core.wire.Desk for one session at one epoch. It is not thread-safe: it lives on the daemon's loop."""

    def __init__(
        self, ports: Ports, *, agent: Agent, actor: Actor, session: int, epoch: int, base: MemoryTree,
        bases: Bases, seen: Mapping[tuple[str, str], int], journal: Journal, saves: bool,
    ) -> None:  # fmt: skip
        self._ports = ports
        self._agent = agent
        self._actor = actor
        self._session = session
        self._epoch = epoch
        self._base = base
        self._bases = dict(bases)
        self._seen = dict(seen)
        self._journal = journal
        self._saves = saves
        self._effects: list[Effect] = []
        self._answers: OrderedDict[str, Reply] = OrderedDict()
        self._acts = 0
        self.tally = Tally()
        self.closed = False

    # -- the Desk protocol ----------------------------------------------------------------------------------

    async def call(self, message: Message) -> Reply:
        """An act or a read; a repeated message id gets the first answer again."""
        return self._answered(message, self._once(message))

    async def checkpoint(self, message: Message, memory: MemoryTree, problems: tuple[str, ...]) -> Reply:
        """Commit what is staged, with the memory copy as it is now."""
        known = self._answers.get(message.id)
        if known is not None:
            return known
        try:
            value = await self._checkpoint(memory, problems)
        except (SwarmdError, StoreError) as error:
            return self._answered(message, _sorry(error))
        return self._answered(message, Reply(value=value))

    def event(self, kind: str, detail: Mapping[str, Any]) -> None:
        """Keep something for the transcript."""
        if len(self.tally.events) < ACTS_PER_SESSION:
            self.tally.events.append({"kind": kind, **detail})

    # -- what the flow asks for -----------------------------------------------------------------------------

    def changes_with(self, memory: MemoryTree | None) -> list[Change]:
        """Everything staged, and the difference that the memory copy makes."""
        if memory is None:
            return list(self.tally.changes)
        return [*self.tally.changes, *self._memory_changes(memory)]

    def close(self) -> None:
        """The session has ended: whoever still asks is told so."""
        self.closed = True
        self._journal.close()

    # -- acts and reads -------------------------------------------------------------------------------------

    def _once(self, message: Message) -> Reply:
        known = self._answers.get(message.id)
        if known is not None:
            return known
        if self.closed:
            return _sorry(Refused(f"session {self._session} has ended; nothing more is saved of it"))
        try:
            return Reply(value=self._do(message.call, message.args))
        except (SwarmdError, StoreError) as error:
            return _sorry(error)

    def _answered(self, message: Message, reply: Reply) -> Reply:
        if message.id:
            self._answers[message.id] = reply
            while len(self._answers) > ANSWERS_KEPT:
                self._answers.popitem(last=False)
        return reply

    def _do(self, call: str, args: Mapping[str, Any]) -> Any:
        world = self._world()
        if call in acts.ACTS:
            return self._act(call, args, world)
        if call == "fail":
            return self._fail(args)
        if call.startswith("draft_"):
            return self._draft(call, world)
        value = self._ports.read(self._actor, world, call, args)
        self._note_read(value)
        return value

    def _world(self) -> Staged:
        world = Staged(SqlWorld(self._ports.reader, self._ports.clock.now()))
        world.apply(self._effects)
        return world

    def _act(self, call: str, args: Mapping[str, Any], world: Staged) -> Any:
        self._acts += 1
        if self._acts > ACTS_PER_SESSION:
            raise Refused(f"a session may ask for {ACTS_PER_SESSION} acts, and this one has")
        changes = asking.build(call, args, self._actor, world, reserve=self._ports.reserve, seen=self._seen)
        documents = [self._stage(change, world) for change in changes]
        return {"items": documents, "next": None} if args.get("to") == "children" else documents[0]

    def _stage(self, change: Change, world: Staged) -> dict[str, Any]:
        verdict = judge(self._actor, change, world, asked=True)
        if verdict.decision == "refused":
            self._refuse(change, verdict)
        if verdict.decision == "superseded":
            self.tally.superseded.append(_note(change, verdict))
            raise Refused(f"{verdict.reason}; read it again before you set it")
        document = written_doc(change, verdict, world, self._actor)
        if verdict.decision == "done":
            self._keep(change, verdict)
            world.apply(verdict.effects)
        return {**document, "staged": True}

    def _keep(self, change: Change, verdict: Verdict) -> None:
        self._journal.staged(change)
        self.tally.changes.append(change)
        self._effects.extend(verdict.effects)
        if act_of(change) == "ctx_set" and getattr(change, "agent", None) == self._agent.name:
            self.tally.keys_changed.add(getattr(change, "key", ""))

    def _refuse(self, change: Change, verdict: Verdict) -> None:
        self.tally.refusals.append(_note(change, verdict))
        raise KINDS[verdict.kind](verdict.reason)

    def _fail(self, args: Mapping[str, Any]) -> dict[str, Any]:
        reason = args.get("reason")
        if not isinstance(reason, str):
            raise BadInput("fail: reason is missing: say in a sentence why")
        if problem := text_problem("a reason", reason, REASON_BYTES):
            raise BadInput(problem)
        self.tally.failed = reason
        return {"session": self._session, "reason": reason, "staged": True}

    def _draft(self, call: str, world: Staged) -> dict[str, Any]:
        id = sessions.newest_draft(self._ports.reader, self._agent.name)
        if id is None or id in self.tally.drafts:
            raise NotFound(f"{self._agent.name} has no open draft")
        changes = sessions.draft(self._ports.reader, id)
        document = {"session": id, "changes": [{"act": act_of(c), "target": target_of(c)} for c in changes]}
        if call == "draft_show":
            return document
        if call not in ("draft_apply", "draft_discard"):
            raise NotFound(f"there is no call {call!r}")
        verdicts = []
        if call == "draft_apply":
            for change in changes:
                verdict = judge(self._actor, change, world, asked=False)
                if verdict.decision == "done":
                    self._keep(change, verdict)
                    world.apply(verdict.effects)
                elif verdict.decision != "nothing":
                    (self.tally.refusals if verdict.decision == "refused" else self.tally.superseded).append(
                        _note(change, verdict)
                    )
                verdicts.append({"act": act_of(change), "target": target_of(change), "verdict": verdict.decision,
                                 "reason": verdict.reason})  # fmt: skip
        self.tally.drafts[id] = "applied" if call == "draft_apply" else "discarded"
        return {"session": id, "changes": verdicts or document["changes"], "staged": True}

    def _note_read(self, value: Any) -> None:
        """Remember the version of each key that a reply shows: what the session has seen, it may overwrite."""
        rows = value.get("items", [value]) if isinstance(value, dict) else []
        for row in rows:
            if isinstance(row, dict) and {"agent", "key", "version"} <= row.keys():
                self._seen[row["agent"], row["key"]] = row["version"]

    # -- memory and checkpoints -----------------------------------------------------------------------------

    def _memory_changes(self, memory: MemoryTree) -> list[Change]:
        return differences(self._agent.name, self._base, memory, self._bases)

    async def _checkpoint(self, memory: MemoryTree, problems: Sequence[str]) -> dict[str, Any]:
        if self.closed:
            raise Refused(f"session {self._session} has ended; nothing more is saved of it")
        if problems:
            raise Refused(f"the memory copy may not be saved: {'; '.join(problems)}")
        changes = self.changes_with(memory)
        if not self._saves:
            return {"checkpoint": None, "changes": [_line(change) for change in changes], "superseded": []}
        number = self.tally.checkpoints + 1
        committed = await self._commit(changes, number, memory)
        self.tally.checkpoints = number
        self.tally.changes.clear()
        self._effects.clear()
        self.tally.drafts.clear()
        for change, verdict in zip(changes, committed.folded.verdicts, strict=True):
            if verdict.decision == "superseded":
                self.tally.superseded.append(_note(change, verdict))
            if isinstance(change, WriteMemory):
                self._bases[change.path] = _base_after(change, verdict)
        self._base = memory
        return {
            "checkpoint": number,
            "changes": [
                {**_line(change), "verdict": verdict.decision}
                for change, verdict in zip(changes, committed.folded.verdicts, strict=True)
            ],
            "superseded": [note.reason for note in self.tally.superseded],
        }

    async def _commit(
        self, changes: Sequence[Change], number: int, memory: MemoryTree
    ) -> committing.Committed:
        ports, actor = self._ports, self._actor
        await ports.settle(self._agent.name)
        # The bases of a draft after this checkpoint: the session's own texts, by digest, whatever a merge makes.
        self._journal.checkpoint(number, {path: (-1, hash) for path, hash in memory.files.items()})
        drafts = dict(self.tally.drafts)

        def work(connection: Connection) -> committing.Committed:
            sessions.still_running(connection, self._session, self._epoch)
            done = committing.commit(connection, actor, changes, ports.clock.now(), act="checkpoint",
                                     target=self._agent.name, part=number)  # fmt: skip
            if done.refusals:
                raise Refused("nothing was saved: " + "; ".join(done.refusals))
            for id, how in drafts.items():
                sessions.close_draft(connection, id, how, strict=False)
            texts = {hash: memory.blobs[hash] for hash in memory.files.values()}
            committing.keep_texts(connection, texts)
            sessions.checkpointed(connection, self._session, number)
            return done

        done = await ports.writer.run(work)
        for agent in done.memory_of:
            await ports.settle(agent)
        return done


def _base_after(change: WriteMemory, verdict: Verdict) -> tuple[int, str | None]:
    """What the working copy goes on from: the new revision, or its own text where the commit has merged it."""
    text = None if change.data is None else digest(change.data)
    for effect in verdict.effects:
        if isinstance(effect, MemoryWritten) and not effect.merged:
            return effect.document.rev, None
    return -1, text


def _line(change: Change) -> dict[str, Any]:
    return {"act": act_of(change), "target": target_of(change)}


def _note(change: Change, verdict: Verdict) -> Note:
    return Note(act=act_of(change), target=target_of(change), reason=verdict.reason)


def _sorry(error: Exception) -> Reply:
    if isinstance(error, SwarmdError):
        return Reply(error=str(error), kind=error.kind)
    return Reply(error=f"the store did not answer: {error}", kind=Failed.kind)
