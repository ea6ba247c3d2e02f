"""The desk of one session: every act is judged at once and staged, every read sees what was staged."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from swarmd.core import acts, asking
from swarmd.core.agent import Agent
from swarmd.core.approvals import HELD, held_because
from swarmd.core.changes import Change, SetKey, UnsetKey, WriteMemory, act_of, owners_of
from swarmd.core.documents import verdict_doc, written_doc
from swarmd.core.judge import judge
from swarmd.core.names import REASON_BYTES, text_problem
from swarmd.core.staging import Effect, KeyWritten, Staged, Verdict
from swarmd.core.wire import MemoryTree, Message, Reply
from swarmd.core.world import Actor, World
from swarmd.errors import KINDS, NO_UTF8, BadInput, Failed, NotFound, Refused, SwarmdError
from swarmd.session import checkpoints, draft_acts
from swarmd.session.drafts import TakenUp
from swarmd.session.elsewhere import Elsewhere
from swarmd.session.hooks import Facts, Hooks
from swarmd.session.interaction import SessionLog
from swarmd.session.journal import Bases, Journal, base_after, differences
from swarmd.session.known_secrets import Masking
from swarmd.session.lookups import looked_up, sorry
from swarmd.session.ports import Ports
from swarmd.session.tally import Note, Tally, line, note, overtaken_draft, refusal
from swarmd.session.transcript import Transcript
from swarmd.store import sessions
from swarmd.store.connections import Connection, StoreError, reading
from swarmd.store.past import Past, world_at

ANSWERS_KEPT = 1000
REFUSALS_KEPT = 500
"""Of acts that no judge has seen; each has its texts cut too."""
ACTS_PER_SESSION = 5000
"""More is no work but a loop; each act costs a judgement and a line of the journal."""


class SessionDesk:
    """core.wire.Desk for one session at one epoch. It is not thread-safe: it lives on the daemon's loop, where calls
    are answered one after another, so that none comes between a checkpoint's change set and its commit.
    """

    def __init__(
        self, ports: Ports, *, agent: Agent, actor: Actor, session: int, epoch: int, base: MemoryTree, bases: Bases,
        seen: Mapping[tuple[str, str], int], made_from: Mapping[tuple[str, str], int], journal: Journal,
        transcript: Transcript, saves: bool, masking: Masking, hooks: Hooks, past: Past | None = None,
        log: SessionLog | None = None,
    ) -> None:  # fmt: skip
        self._ports = ports
        self._agent = agent
        self._actor = actor
        self._session = session
        self._epoch = epoch
        self._base = base
        self._bases = dict(bases)
        self._seen = dict(seen)
        """The version of each key that the session has read in the store; its own staged writes have none there."""
        self._owner = actor.owner or agent.name
        self._elsewhere = Elsewhere(self._owner, made_from)
        self._written: set[tuple[str, str]] = set()
        self._journal = journal
        self._saves = saves
        self._hooks = hooks
        self._past = past
        """Of a session that is to see and be judged by what was then."""
        self._effects: list[Effect] = []
        self._held: list[Effect] = []
        self._answers: OrderedDict[str, Reply] = OrderedDict()
        self._turn = asyncio.Lock()
        self._under_way: asyncio.Future[Reply] | None = None
        self._acts = 0
        self.masking = masking
        self.transcript = transcript
        self.log = log
        self.tally = Tally()
        self.closed = False

    # -- the Desk protocol ----------------------------------------------------------------------------------

    async def call(self, message: Message) -> Reply:
        """An act or a read; a repeated message id gets the first answer again."""
        async with self._turn:
            known = self._answers.get(message.id)
            if known is None and message.call in acts.SEARCHES and not self.closed:
                return self._answered(message, await looked_up(self._ports, self._actor, message, self._past))
            return known if known is not None else self._answered(message, self._once(message))

    async def checkpoint(self, message: Message, memory: MemoryTree, problems: tuple[str, ...]) -> Reply:
        """Commit what is staged, with the memory copy as it is now. Who asks may be cancelled: the commit goes on, and
        the session ends after it.
        """
        self._under_way = asyncio.ensure_future(self._checkpoint_in_turn(message, memory, problems))
        return await asyncio.shield(self._under_way)

    def event(self, kind: str, detail: Mapping[str, Any]) -> None:
        """Keep something for the transcript."""
        given: object = detail
        if not isinstance(given, Mapping):
            self.transcript.add(kind, detail)  # a plug-in's fault: it becomes a warning
            return
        if kind == "started" and "tools" in detail:
            self._count_tools(detail["tools"])
            detail = {name: value for name, value in detail.items() if name != "tools"}
        self.transcript.add(kind, detail)
        if self.log is not None:
            self.log.event(kind, detail)
        if kind == "usage":
            self.tally.note_usage(detail)
        if kind == "refused" and str(detail.get("act")) in acts.ACTS:
            own = {"agent": self._agent.name, **detail}
            self._refused(str(detail["act"]), own, str(detail.get("reason", "")))

    def _count_tools(self, tools: Any) -> None:
        """What the runner sends beside the prompt is counted as the prompt is; the same each time, it is not kept."""
        with suppress(TypeError, ValueError, RecursionError):
            text = tools if isinstance(tools, str) else json.dumps(tools, ensure_ascii=False)
            self.tally.tools = self._ports.count(text)

    # -- what the flow asks for -----------------------------------------------------------------------------

    async def shut(self) -> None:
        """From now on nothing more is staged; a checkpoint under way comes to its end first."""
        async with self._turn:
            self.closed = True

    def changes_with(self, memory: MemoryTree | None, problems: Sequence[str] = ()) -> list[Change]:
        """Everything staged, the difference that the memory copy makes, and at last the log. With `problems` not all
        of the copy was read: what is missing in it may still be there, and does not count as deleted.
        """
        if memory is None or not self._agent.memory.persistent:
            found: list[Change] = []
        else:
            found = self._memory_changes(self.masking.tree(memory, self._base))
        kept = [c for c in found if not (problems and isinstance(c, WriteMemory) and c.data is None)]
        return self._with_log([*self.tally.changes, *kept])

    def _with_log(self, changes: list[Change]) -> list[Change]:
        did_something = bool(changes or self.tally.refusals or self.tally.drafts or self.tally.failed)
        logged = self.log.change(did_something=did_something) if self.log is not None else None
        return [*changes, logged] if logged is not None else changes

    def rows(self, connection: Connection) -> World:
        """What its acts are judged on, beside what it has staged itself."""
        return world_at(connection, self._ports.clock.now(), self._past)

    def keep_left(self, changes: Sequence[Change]) -> None:
        """Keep what the memory copy has come to, of all `changes` at the end: the copy is removed next."""
        # The session's end does not hang on it: a full disk is no reason.
        with suppress(Failed, OSError):
            self._journal.left(
                changes[len(self.tally.changes) :], lambda change: self._base.read(change.path)
            )

    def close(self) -> None:
        """The session has ended: whoever still asks is told so."""
        self.closed = True
        self.transcript.finish()
        self._journal.close()

    # -- acts and reads -------------------------------------------------------------------------------------

    def _once(self, message: Message) -> Reply:
        if self.closed:
            return sorry(Refused(f"session {self._session} has ended; nothing more is saved of it"))
        told = self._told()
        try:
            with reading(self._ports.reader):
                return Reply(value=self._do(message.call, message.args))
        except (SwarmdError, StoreError, OSError) as error:
            fault: Exception = error
        except UnicodeEncodeError:
            fault = BadInput(NO_UTF8)
        is_act = message.call in acts.ACTS or isinstance(fault, acts.OperatorsAct | acts.UnknownCall)
        # What the judge has kept out is noted there; this is what never came before it.
        if is_act and isinstance(fault, SwarmdError) and told == self._told():
            self._refused(message.call, message.args, str(fault))
        return sorry(fault)

    def _told(self) -> int:
        return len(self.tally.refusals) + len(self.tally.superseded)

    def _refused(self, call: str, args: Mapping[str, Any], reason: str) -> None:
        """Keep an act that was refused before it came to the judge."""
        if len(self.tally.refusals) < REFUSALS_KEPT:
            self.tally.refusals.append(refusal(call, args, reason, self.masking.text))

    def _answered(self, message: Message, reply: Reply) -> Reply:
        if message.id:
            self._answers[message.id] = reply
            while len(self._answers) > ANSWERS_KEPT:
                self._answers.popitem(last=False)
        return reply

    def _do(self, call: str, args: Mapping[str, Any]) -> Any:
        world = self._world()
        if call in acts.ACTS:
            return self._act(call, self.masking.args(args), world)
        if call == "fail":
            return self._fail(self.masking.args(args))
        if call.startswith("draft_"):
            return self._draft(call, world)
        value = self._ports.read(self._actor, world, call, args)
        self._note_read(value)
        self._elsewhere.note_read(call, args, value)
        return value

    def _world(self) -> Staged:
        world = Staged(self.rows(self._ports.reader))
        for change in self.tally.changes:
            world.wished(change)
        world.apply(self._effects)
        return world

    def _act(self, call: str, args: Mapping[str, Any], world: Staged) -> Any:
        self._acts += 1
        if self._acts > ACTS_PER_SESSION:
            raise Refused(f"a session may ask for {ACTS_PER_SESSION} acts, and this one has")
        changes = asking.build(call, args, self._actor, world, reserve=self._ports.reserve, seen=self._seen,
                               made_from=self._elsewhere.made_from)  # fmt: skip
        judged = []
        for change in changes:
            verdict = judge(self._actor, change, world, asked=True)
            self._must_be_right(change, verdict)
            judged.append((change, verdict, written_doc(change, verdict, world, self._actor)))
            world.wished(change)
            world.apply(verdict.effects)
        # Only now is anything staged: an act that means several changes is refused as one.
        for change, verdict, _ in judged:
            # A wish for what is there already may take back an earlier one that still waits.
            waits = verdict.decision == "nothing" and held_because(self._actor, change, world.tree)
            if verdict.decision == "done" or waits:
                self._keep(change, verdict)
        documents = [
            {**document, **self._word(change, verdict, world)} for change, verdict, document in judged
        ]
        return {"items": documents, "next": None} if args.get("to") == "children" else documents[0]

    def _must_be_right(self, change: Change, verdict: Verdict) -> None:
        if verdict.decision == "refused":
            self.tally.refusals.append(note(change, verdict, self.masking.text))
            raise KINDS[verdict.kind](verdict.reason)

    def _word(self, change: Change, verdict: Verdict, world: World) -> dict[str, Any]:
        """What is said beside an act's document. What others have overtaken is no refusal: it is left out and named,
        and the session goes on; the document is what stands there now.
        """
        if verdict.decision != "superseded":
            why = held_because(self._actor, change, world.tree) if verdict.decision == "done" else None
            return {"staged": True} if why is None else {"staged": True, "held": HELD}
        self.tally.superseded.append(note(change, verdict, self.masking.text))
        return {"staged": False, "superseded": f"{verdict.reason}; read it again before you set it"}

    def _keep(self, change: Change, verdict: Verdict) -> None:
        self._journal.staged(change)
        self.tally.changes.append(change)
        self._effects.extend(verdict.effects)
        if isinstance(change, SetKey | UnsetKey):
            self._wrote(change.agent, change.key)
        self._elsewhere.wrote(change, self.rows(self._ports.reader))
        if act_of(change) == "ctx_set" and getattr(change, "agent", None) == self._agent.name:
            self.tally.keys_changed.add(getattr(change, "key", ""))

    def _wrote(self, agent: str, key: str) -> None:
        """The key's next write is made from the same version as this one: what the session reads until its commit is
        its own value, and says nothing of what others have written meanwhile.
        """
        if (agent, key) not in self._seen:
            row = self.rows(self._ports.reader).key(agent, key)
            self._seen[agent, key] = 0 if row is None else row.version
        self._written.add((agent, key))

    def _fail(self, args: Mapping[str, Any]) -> dict[str, Any]:
        reason = args.get("reason")
        if not isinstance(reason, str):
            raise BadInput("fail: reason is missing: say in a sentence why")
        if problem := text_problem("a reason", reason, REASON_BYTES):
            raise BadInput(problem)
        self.tally.failed = reason
        return {"session": self._session, "reason": reason, "staged": True}

    def _draft(self, call: str, world: Staged) -> dict[str, Any]:
        if call not in ("draft_show", "draft_apply", "draft_discard"):
            raise acts.UnknownCall(f"there is no call {call!r}")
        if self._actor.only_memory:
            raise Refused("a draft is for the agent's next session; a consolidation leaves it alone")
        id = draft_acts.newest(self._ports.reader, self._agent.name, self._actor.subject, self._past)
        if id is None or id in self.tally.drafts:
            raise NotFound(f"{self._agent.name} has no open draft")
        changes = sessions.draft(self._ports.reader, id)
        if call == "draft_show":
            return {"session": id, "changes": [line(change) for change in changes]}
        if call == "draft_discard":
            self.tally.drafts[id] = TakenUp(how="discarded")
            return {"session": id, "changes": [line(change) for change in changes], "staged": True}
        self.tally.drafts[id], lines = draft_acts.taken_up(
            self._actor, changes, world, self.tally, self._keep, self.masking.text
        )
        return {"session": id, "changes": lines, "staged": True}

    def _note_read(self, value: Any) -> None:
        """Remember the version of each key that a reply shows: what the session has seen, it may overwrite."""
        rows = value.get("items", [value]) if isinstance(value, dict) else []
        for row in rows:
            if isinstance(row, dict) and {"agent", "key", "version"} <= row.keys():
                slot = row["agent"], row["key"]
                if slot not in self._written:
                    self._seen[slot] = max(row["version"], self._seen.get(slot, 0))

    # -- memory and checkpoints -----------------------------------------------------------------------------

    def _memory_changes(self, memory: MemoryTree) -> list[Change]:
        found = differences(self._owner, self._base, memory, self._bases)
        return found if self.log is None else self.log.beside(found)

    async def _checkpoint_in_turn(
        self, message: Message, memory: MemoryTree, problems: Sequence[str]
    ) -> Reply:
        async with self._turn:
            known = self._answers.get(message.id)
            if known is not None:
                return known
            try:
                return self._answered(message, Reply(value=await self._checkpoint(memory, problems)))
            except (SwarmdError, StoreError, OSError) as error:
                return self._answered(message, sorry(error))

    async def _checkpoint(self, memory: MemoryTree, problems: Sequence[str]) -> dict[str, Any]:
        if self.closed:
            raise Refused(f"session {self._session} has ended; nothing more is saved of it")
        if self._actor.only_memory:
            raise Refused("a consolidation is saved as a whole, at its end: it has no checkpoints")
        if not self._agent.memory.persistent:
            memory, problems = MemoryTree(), ()
        if problems:
            raise Refused(f"the memory copy may not be saved: {'; '.join(problems)}")
        memory = self.masking.tree(memory, self._base)
        if not self._saves:
            changes = self._with_log([*self.tally.changes, *self._memory_changes(memory)])
            return {"checkpoint": None, "changes": [line(change) for change in changes], "superseded": []}
        number = self.tally.checkpoints + 1
        await self._ports.settle(self._owner, *owners_of(self.tally.changes))
        # Only now: acts wait for their turn, but what is said does not.
        changes = self._with_log([*self.tally.changes, *self._memory_changes(memory)])
        changes = self._hooks.asked_about(changes)
        log = self.log.at_checkpoint(changes, memory) if self.log is not None else None
        facts = Facts(checkpoint=number, refusals=self.tally.refused)
        if problem := await self._hooks.before(self._actor, changes, facts):
            raise Refused(f"nothing was saved: {problem}")
        # The bases of a draft after this checkpoint: the session's own texts, by digest, whatever a merge makes.
        self._journal.checkpoint(number, {path: (-1, hash) for path, hash in memory.files.items()})
        texts = {hash: memory.blobs[hash] for hash in memory.files.values()} | (log.texts if log else {})
        texts |= self._elsewhere.texts(changes)
        saved = await checkpoints.save(self._ports, checkpoints.Checkpoint(
            session=self._session, epoch=self._epoch, actor=self._actor, target=self._agent.name, number=number,
            changes=changes, texts=texts, taken=dict(self.tally.drafts),
        ))  # fmt: skip
        verdicts = saved.committed.folded.verdicts
        overtaken = [overtaken_draft(change, draft) for draft, change in saved.closed]
        self._saved(number, saved.changes, verdicts, overtaken)
        self._base = memory
        if log is not None:
            log.settle(saved.changes, verdicts, self._bases)
        await self._ports.settle(*saved.committed.memory_of)
        await self._hooks.after(saved.committed, facts)
        lines = zip(saved.changes, verdicts, strict=True)
        return {
            "checkpoint": number,
            "changes": [verdict_doc(change, verdict) for change, verdict in lines],
            "superseded": [note.reason for note in self.tally.superseded],
        }

    def _saved(
        self, number: int, changes: Sequence[Change], verdicts: Sequence[Verdict], overtaken: Sequence[Note]
    ) -> None:
        """Go on from what the checkpoint has left."""
        tally = self.tally
        tally.checkpoints = number
        tally.changes.clear()
        tally.drafts.clear()
        tally.superseded += overtaken
        # What is held is not in the store: the session goes on reading it as its own.
        self._held += [effect for verdict in verdicts for effect in verdict.withheld]
        self._effects = list(self._held)
        self._written = {(e.key.agent, e.key.key) for e in self._held if isinstance(e, KeyWritten)}
        self._elsewhere.saved(changes, verdicts)
        for change, verdict in zip(changes, verdicts, strict=True):
            if verdict.decision == "superseded":
                tally.superseded.append(note(change, verdict, self.masking.text))
            if isinstance(change, WriteMemory) and change.agent == self._owner:
                self._bases[change.path] = base_after(change, verdict)
            for effect in verdict.effects:
                if isinstance(effect, KeyWritten):
                    self._seen[effect.key.agent, effect.key.key] = effect.key.version
