"""Thousands of random acts while the tree changes, judged by the code and by a model of plain dicts.

The model is written from the manual alone and shares no line with the code. A failure prints the seed of its run:
`SEED=123 pytest tests/core/test_generated_acts.py` repeats it.
"""

from __future__ import annotations

import os
import random

import pytest

from swarmd.core.agent import Agent, Limits, MemoryRules
from swarmd.core.changes import ChangeHandoff, MoveHandoff, Report, SendHandoff, SetKey, UnsetKey, WriteMemory
from swarmd.core.handoffs import Move
from swarmd.core.judge import fold
from swarmd.core.tree import Tree
from swarmd.core.world import Actor
from tests.core.worlds import DictWorld

NAMES = [f"n{i}" for i in range(9)]
KEYS = ("a", "b")
PATHS = ("MEMORY.md", "policies/x.md", "archive/old.md")
FINAL = ("completed", "declined", "cancelled", "expired")
RESULT = {
    "ack": "acknowledged", "complete": "completed", "decline": "declined", "ask": "waiting", "answer": "open",
    "cancel": "cancelled", "expire": "expired", "requeue": "open",
}  # fmt: skip
ALLOWED = {
    "open": ("ack", "complete", "decline", "ask", "cancel", "expire"),
    "acknowledged": ("complete", "decline", "ask", "cancel", "expire"),
    "waiting": ("answer", "cancel", "expire"),
}
OPERATIONS_A_RUN = 2500
PER_SESSION = 4
DEPTH = 3


class Model:
    """The manual's sections 4 and 5 over dicts."""

    def __init__(self) -> None:
        self.parent: dict[str, str | None] = {}
        self.own_only: set[str] = set()
        self.protected: set[str] = set()
        self.keys: dict[tuple[str, str], dict] = {}
        self.handoffs: dict[int, dict] = {}
        self.files: dict[tuple[str, str], tuple[bytes | None, int]] = {}

    def below(self, name: str, other: str) -> bool:
        if name not in self.parent:
            return False
        while (name := self.parent.get(name)) is not None:
            if name == other:
                return True
        return False

    def commit(self, actor: dict, wishes: list[dict], *, asked: bool) -> list[str]:
        """Judges one after another; where one is refused nothing stays."""
        before = self.keys, self.handoffs, self.files
        self.keys, self.files = dict(self.keys), dict(self.files)
        self.handoffs = dict(self.handoffs)
        words = []
        for wish in wishes:
            gone = actor["agent"] is not None and actor["agent"] not in self.parent
            words.append("refused" if gone else getattr(self, wish["what"])(actor, wish, asked))
        if "refused" in words:
            self.keys, self.handoffs, self.files = before
        return words

    def set(self, actor, wish, asked):
        me, target, slot = actor["agent"], wish["agent"], (wish["agent"], wish["key"])
        if not self.may_write_key(me, target) or (
            me is None and wish["value"] is not None and target not in self.parent
        ):
            return "refused"
        row = self.keys.get(slot)
        there = row is not None and row["value"] is not None
        if wish["value"] is None and not there:
            return "refused" if asked else "nothing"
        if me is not None and row and wish["seen"] is not None and row["version"] > wish["seen"]:
            writer = row["by"].split("#")[0] if "#" in row["by"] else None
            if row["by"] != actor["by"] and not (writer and self.below(writer, me)):
                return "superseded"
        if wish["value"] is not None and there and row["value"] == wish["value"]:
            return "nothing"
        version = row["version"] + 1 if row else 1
        self.keys[slot] = {"value": wish["value"], "version": version, "by": actor["by"]}
        return "done"

    def may_write_key(self, me, target):
        return me is None or me == target or (self.below(target, me) and me not in self.own_only)

    def send(self, actor, wish, asked):
        me = actor["agent"]
        if not (self.below(wish["to"], me) if me is not None else wish["to"] in self.parent):
            return "refused"
        if wish["id"] in self.handoffs:
            return "superseded"
        sender = me or "operator"
        if wish["dedupe"] is not None:
            for row in self.handoffs.values():
                same = (row["sender"], row["receiver"], row["dedupe"]) == (sender, wish["to"], wish["dedupe"])
                if same and row["status"] not in FINAL:
                    return "nothing"
        if me is not None:
            sent = [row for row in self.handoffs.values() if row["session"] == actor["session"]]
            if len(sent) >= PER_SESSION or actor["depth"] + 1 > DEPTH:
                return "refused" if asked else "superseded"
        self.handoffs[wish["id"]] = {
            "sender": sender, "receiver": wish["to"], "dedupe": wish["dedupe"], "status": "open", "last": None,
            "session": actor["session"], "depth": actor["depth"] + 1, "priority": "normal",
        }  # fmt: skip
        return "done"

    def move(self, actor, wish, asked):
        row, me, move = self.handoffs.get(wish["id"]), actor["agent"], wish["move"]
        if row is None:
            return "refused"
        if me is not None:
            if move in ("requeue", "expire"):
                return "refused"
            if move in ("ack", "complete", "decline", "ask"):
                if row["receiver"] != me:
                    return "refused"
            elif not self.is_senders(me, row):
                return "refused"
        last, by = row["last"] or ("", "")
        own = by == actor["by"] or (me is not None and by.split("#")[0] == me)
        if row["status"] in FINAL and last == move and own:
            return "nothing"
        may = move in ALLOWED.get(row["status"], ()) or (move == "requeue" and row["status"] != "completed")
        if not may:
            return "refused" if asked else "superseded"
        self.handoffs[wish["id"]] = {**row, "status": RESULT[move], "last": (move, actor["by"])}
        return "done"

    def is_senders(self, me, row):
        return row["sender"] == me or self.below(row["sender"], me)

    def change(self, actor, wish, asked):
        row, me = self.handoffs.get(wish["id"]), actor["agent"]
        if row is None or (me is not None and not self.is_senders(me, row)):
            return "refused"
        if row["status"] in FINAL:
            return "refused" if asked else "superseded"
        if row["priority"] == wish["priority"]:
            return "nothing"
        self.handoffs[wish["id"]] = {**row, "priority": wish["priority"], "last": ("change", actor["by"])}
        return "done"

    def write(self, actor, wish, asked):
        me, slot = actor["agent"], (wish["agent"], wish["path"])
        if me is not None:
            closed = wish["path"].startswith("archive/") or (
                me in self.protected and "policies/" in wish["path"]
            )
            if wish["agent"] != me or closed:
                return "refused"
        elif wish["agent"] not in self.parent:
            return "refused"
        data, rev = self.files.get(slot, (None, 0))
        if data == wish["data"]:
            return "nothing"
        self.files[slot] = (wish["data"], rev + 1)
        return "done"

    def report(self, actor, wish, asked):
        return "refused" if actor["agent"] is None else "done"


class Run:
    """One seed: the model and the code side by side."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.model = Model()
        self.world = DictWorld(Tree({}))
        self.number = 0
        self.ids = 0
        for name in NAMES:
            self.model.parent[name] = self.random.choice([None, *list(self.model.parent)])
        self.plant()

    def plant(self) -> None:
        """Give the code the tree of the model."""
        self.world.tree = Tree({
            name: Agent(
                name=name, parent=parent, keys_scope="own" if name in self.model.own_only else "below",
                memory=MemoryRules(read_only=("policies/**",) if name in self.model.protected else ()),
                limits=Limits(handoffs_per_session=PER_SESSION, handoff_depth=DEPTH),
            )
            for name, parent in self.model.parent.items()
        })  # fmt: skip

    def many(self, name: str = "") -> None:
        for step in range(OPERATIONS_A_RUN):
            try:
                self.step()
            except AssertionError as error:
                raise AssertionError(f"{name}, step {step}: {error}") from None

    def step(self) -> None:
        if self.random.random() < 0.05:
            self.change_tree()
        actor = self.actor()
        wishes = self.wishes(actor, self.random.choice([1, 1, 1, 2, 4]))
        asked = self.random.random() < 0.4
        folded = fold(
            Actor(**actor), [self.change(w) for w in wishes], self.world,
            asked=asked,
        )  # fmt: skip
        expected = self.model.commit(actor, wishes, asked=asked)
        assert [v.decision for v in folded.verdicts] == expected, (actor, wishes, asked, folded.verdicts)
        if not folded.refusals:
            self.world.take(folded)
        self.compare()

    def actor(self) -> dict:
        self.number += 1
        if self.random.random() < 0.2:
            return {"agent": None, "by": "operator:ada", "session": None, "depth": 0}
        agent = self.random.choice(NAMES)
        session = self.random.randint(max(1, self.number - 3), self.number)
        return {
            "agent": agent,
            "by": f"{agent}#{session}",
            "session": session,
            "depth": self.random.choice([0, 0, 1, 3]),
        }

    def wishes(self, actor: dict, count: int) -> list[dict]:
        """One write a file: the second would be merged with the first."""
        found, files = [], set()
        for wish in (self.wish(actor) for _ in range(count)):
            slot = (wish["agent"], wish["path"]) if wish["what"] == "write" else None
            if slot is None or slot not in files:
                found.append(wish)
                files.add(slot)
        return found

    def somebody(self, actor: dict, *, below: bool = False) -> str:
        """Mostly one with whom the actor may have to do: else nearly all would be refused."""
        me = actor["agent"]
        near = [name for name in NAMES if self.model.below(name, me)] if me else list(self.model.parent)
        near += [me] if me and not below else []
        return (
            self.random.choice(near)
            if near and self.random.random() < 0.85
            else self.random.choice([*NAMES, "nobody"])
        )

    def some_handoff(self, actor: dict) -> tuple[int, str]:
        """Mostly a newer one of the actor's own, and a move that is its to make."""
        me, pick = actor["agent"], self.random.choice
        rows = [(id, row) for id, row in list(self.model.handoffs.items())[-30:]]
        own = [(id, row) for id, row in rows if me is None or me in (row["sender"], row["receiver"])]
        if not own or self.random.random() < 0.15:
            return self.random.randint(max(1, self.ids - 8), self.ids + 1), pick(list(RESULT))
        id, row = pick(own)
        receivers = ("ack", "complete", "decline", "ask", "complete")
        return id, pick(
            receivers if row["receiver"] == me else ("answer", "cancel", "cancel") if me else list(RESULT)
        )

    def wish(self, actor: dict) -> dict:
        pick = self.random.choice
        kind = pick(
            ["set", "set", "unset", "send", "send", "move", "move", "move", "change", "write", "report"]
        )
        if kind in ("set", "unset"):
            row = self.model.keys.get(slot := (self.somebody(actor), pick(KEYS)))
            version = row["version"] if row else 0
            value = pick("xyz") if kind == "set" else None
            return {"what": "set", "agent": slot[0], "key": slot[1], "value": value,
                    "seen": pick([None, version, version, max(version - 1, 0)])}  # fmt: skip
        if kind == "send":
            self.ids += 1
            id = self.ids if self.random.random() < 0.95 else max(1, self.ids - 1)
            return {
                "what": "send",
                "id": id,
                "to": self.somebody(actor, below=True),
                "dedupe": pick([None, None, "d"]),
            }
        if kind in ("move", "change"):
            id, move = self.some_handoff(actor)
            return {"what": kind, "id": id, "move": move, "priority": pick(["normal", "high"])}
        if kind == "write":
            owner = actor["agent"] if actor["agent"] and self.random.random() < 0.8 else pick(NAMES)
            slot = (owner, pick(PATHS))
            return {"what": "write", "agent": slot[0], "path": slot[1], "data": pick([b"1\n", b"2\n", None])}
        return {"what": "report"}

    def change(self, wish: dict):
        match wish["what"]:
            case "set" if wish["value"] is None:
                return UnsetKey(agent=wish["agent"], key=wish["key"], seen=wish["seen"])
            case "set":
                return SetKey(agent=wish["agent"], key=wish["key"], value=wish["value"], seen=wish["seen"])
            case "send":
                return SendHandoff(id=wish["id"], to=wish["to"], text="t", dedupe=wish["dedupe"])
            case "move":
                return MoveHandoff(id=wish["id"], move=Move(wish["move"]), text="t")
            case "change":
                return ChangeHandoff(id=wish["id"], priority=wish["priority"])
            case "write":
                # From the newest text, so that nothing is merged: merges have tests of their own.
                head = self.world.document(wish["agent"], wish["path"])
                base = head.rev if head is not None else 0
                return WriteMemory(agent=wish["agent"], path=wish["path"], data=wish["data"], base=base)
            case _:
                return Report(text="t")

    def change_tree(self) -> None:
        parent, pick = self.model.parent, self.random.choice
        name = pick(NAMES)
        match pick(["move", "move", "remove", "add", "add", "rename", "scope", "protect"]):
            case "move" if name in parent:
                parent[name] = pick(
                    [None, *(n for n in parent if n != name and not self.model.below(n, name))]
                )
            case "remove" if name in parent:
                del parent[name]
                parent.update({child: None for child, above in parent.items() if above == name})
            case "add" if name not in parent:
                parent[name] = pick([None, *parent])
            case "rename" if name in parent:
                self.rename(name)
            case "scope":
                self.model.own_only ^= {name}
            case "protect":
                self.model.protected ^= {name}
        self.plant()

    def rename(self, old: str) -> None:
        """Two agents that are both in force change names: the files and the tree say otherwise than the rows."""
        new = self.random.choice([name for name in NAMES if name in self.model.parent])
        swap = {old: new, new: old}
        self.model.parent = {
            swap.get(name, name): swap.get(above, above) if above else above
            for name, above in self.model.parent.items()
        }

    def compare(self) -> None:
        model, world = self.model, self.world
        assert {s: (r["value"], r["version"], r["by"]) for s, r in model.keys.items()} == {
            s: (r.value, r.version, r.by) for s, r in world.key_rows.items()
        }
        assert {
            id: (r["sender"], r["receiver"], r["status"], r["depth"], r["priority"])
            for id, r in model.handoffs.items()
        } == {
            id: (r.sender, r.receiver, r.status, r.depth, r.priority) for id, r in world.handoff_rows.items()
        }
        assert model.files == {s: (d.data, d.rev) for s, d in world.heads.items()}


@pytest.mark.parametrize("number", range(4))
def test_the_code_and_the_model_never_differ(number):
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(2**32)))
    run = Run(seed)
    run.many(f"SEED={seed}")
    assert len(run.model.handoffs) > 100  # most of it was not only refused


def test_the_comparison_finds_a_difference():
    run = Run(1)
    run.model.own_only = set(NAMES)  # the code's tree says otherwise
    with pytest.raises(AssertionError):
        run.many()
