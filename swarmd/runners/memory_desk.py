"""The desk with the session's memory copy before it: what a session does to its own memory by calls is done at once
on its working copy, never in the store.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from swarmd.core.approvals import HELD
from swarmd.core.authority import keeps_none
from swarmd.core.digests import digest
from swarmd.core.documents import copied_doc, first_line, text_doc
from swarmd.core.interaction_log import added_to
from swarmd.core.memory import (
    ARCHIVE,
    FIRST_FILE,
    is_archive,
    matches,
    path_problem,
    room_problem,
    tree_problems,
)
from swarmd.core.wire import JSON, Desk, MemoryTree, Message, Reply, Request
from swarmd.errors import BadInput, Failed, NotFound, Refused, SwarmdError
from swarmd.runners.memory_copy import put, read_memory, take_away

MEMORY_CALLS: Mapping[str, tuple[str, ...]] = {
    "memory_list": (),
    "memory_show": ("file",),
    "memory_write": ("file", "text"),
    "memory_append": ("file", "text"),
    "memory_delete": ("file",),
}
"""The calls that are answered here, with the arguments they take (beside `agent`)."""
READS = ("memory_list", "memory_show")
REMEMBERED = 256
"""Of calls that change something, how many answers are kept: a repeated call gets the first answer again."""


class MemoryDesk:
    """The memory of one running session: one call after the other, so that a checkpoint never sees half of one."""

    def __init__(
        self, *, owner: str, folder: str, base: MemoryTree, read_only: tuple[str, ...], desk: Desk,
        keeps: bool = True, archived: int = 0, held: tuple[str, ...] = (),
        revisions: Mapping[str, Mapping[str, JSON]] = {},
    ) -> None:  # fmt: skip
        self._owner = owner
        self._folder = folder
        self._base = base
        self._read_only = read_only
        self._held = held
        self._desk = desk
        self._keeps = keeps
        self._archived = archived
        self._revisions = revisions
        self._one_at_a_time = asyncio.Lock()
        self._answers: OrderedDict[str, Reply] = OrderedDict()

    @classmethod
    def of(cls, request: Request, folder: str, desk: Desk) -> MemoryDesk:
        """That of a session whose memory copy is in `folder`."""
        return cls(owner=request.owner, folder=folder, base=request.memory, read_only=request.read_only, desk=desk,
                   keeps=request.keeps_memory, archived=request.archived, held=request.held,
                   revisions=request.revisions)  # fmt: skip

    async def answer(self, message: Message) -> Reply:
        """Any call of the session: this is where each transport (socket, MCP, a worker's channel) hands it in. What is
        about the memory copy is answered here; the desk decides all else.
        """
        if message.call == "checkpoint":
            return await self.checkpoint(message)
        if message.call in MEMORY_CALLS and self.is_own(message.args):
            return await self.call(message)
        return await self._desk.call(message)

    def is_own(self, args: Mapping[str, JSON]) -> bool:
        """Whether a call means the session's own memory (the desk answers for that of others)."""
        return args.get("agent") in (None, self._owner)

    async def checkpoint(self, message: Message) -> Reply:
        """Have the desk commit now, with the copy as it is."""
        async with self._one_at_a_time:
            tree, problems = await asyncio.to_thread(read_memory, self._folder, self._base, self._read_only)
            if tree is None:
                return Reply(error=problems[0], kind=Refused.kind)
            return await self._desk.checkpoint(message, tree, problems)

    async def call(self, message: Message) -> Reply:
        """Answer one of MEMORY_CALLS."""
        async with self._one_at_a_time:
            answer = self._answers.get(message.id) or await self._answer(message)
            if message.call not in READS:
                self._answers[message.id] = answer
                if len(self._answers) > REMEMBERED:
                    self._answers.popitem(last=False)
            return answer

    async def _answer(self, message: Message) -> Reply:
        if message.call == "memory_show" and self._is_stored(message.args):
            return _with_file(await self._desk.call(message))
        try:
            value = await asyncio.to_thread(self._do, message.call, dict(message.args))
            if message.call == "memory_list" and self._archived:
                value["items"] += await self._archive()
            return Reply(value=value)
        except SwarmdError as error:
            detail = {"act": message.call, "reason": str(error), "file": message.args.get("file")}
            self._desk.event("refused", detail)
            return Reply(error=str(error), kind=error.kind)

    def _is_stored(self, args: Mapping[str, JSON]) -> bool:
        """Whether it is in the store alone: an older text, or what a file was in an earlier revision."""
        return args.get("rev") is not None or self._is_archived(args.get("file"))

    def _is_archived(self, file: JSON) -> bool:
        """Whether it is one of the older texts, which are in the store and not in the copy."""
        return self._archived > 0 and isinstance(file, str) and is_archive(file)

    async def _archive(self) -> list[JSON]:
        reply = await self._desk.call(Message(id="", call="memory_list", args={"folder": ARCHIVE}))
        if reply.error is not None:
            raise Failed(reply.error)
        return [{**row, "file": row["path"], "first_line": None} for row in reply.value["items"]]

    def _do(self, call: str, args: dict[str, Any]) -> JSON:
        if not self._keeps and call != "memory_list":
            raise Refused(keeps_none(self._owner))
        args.pop("agent", None)
        if call == "memory_show" and args.get("file") is None:
            args["file"] = FIRST_FILE
        names = MEMORY_CALLS[call]
        if set(args) != set(names) or not all(isinstance(args[name], str) for name in names):
            odd = sorted(set(args) - set(names))
            more = f"; {odd[0][:40]!r} is none of them" if odd else ""
            raise BadInput(f"{call} takes {', '.join(names) or 'no arguments'}, as text{more}")
        acts: dict[str, Callable[..., JSON]] = {
            "memory_list": self._list,
            "memory_show": self._show,
            "memory_write": self._write,
            "memory_append": self._append,
            "memory_delete": self._delete,
        }
        return acts[call](**args)

    def _files(self) -> dict[str, bytes]:
        tree, problems = read_memory(self._folder, self._base, self._read_only)
        if tree is None:
            raise Failed(problems[0])
        return tree.as_files()

    def _list(self) -> JSON:
        if not self._keeps:
            return {"items": [], "next": None}
        items = [
            {**self._doc(path, data), "first_line": first_line(data)}
            for path, data in sorted(self._files().items())
        ]
        return {"items": items, "next": None}

    def _doc(self, path: str, data: bytes) -> dict[str, JSON]:
        return copied_doc(self._owner, path, len(data), self._made_from(path, data))

    def _made_from(self, path: str, data: bytes) -> Mapping[str, JSON]:
        """Which revision a file of the copy is; nothing where the session has changed or made it."""
        return self._revisions.get(path, {}) if self._base.files.get(path) == digest(data) else {}

    def _show(self, file: str) -> JSON:
        data = self._files().get(file)
        if data is None:
            raise NotFound(f"there is no memory file {file[:200]!r}")
        return {**self._doc(file, data), **text_doc(data)}

    def _write(self, file: str, text: str) -> JSON:
        return self._put(file, self._files(), _utf8(text))

    def _append(self, file: str, text: str) -> JSON:
        if not text:
            raise BadInput("the text to append may not be empty")
        files = self._files()
        return self._put(file, files, added_to(file, files.get(file, b""), _utf8(text)))

    def _delete(self, file: str) -> JSON:
        if not self._is_archived(file) and file not in self._files():
            raise NotFound(f"there is no memory file {file[:200]!r}")
        self._may_change(file)
        try:
            take_away(self._folder, file)
        except OSError as error:
            raise Refused(f"{file}: {error.strerror}") from None
        return {**copied_doc(self._owner, file, 0, {}), **self._word(file)}

    def _put(self, file: str, files: dict[str, bytes], data: bytes) -> JSON:
        self._may_change(file)
        # Only what this act would bring about is its fault: problems that are there already are for the end.
        had = set(tree_problems(files))
        new = [problem for problem in tree_problems([*files, file]) if problem not in had]
        room = room_problem({path: len(old) for path, old in files.items()}, file, len(data))
        for problem in (*new, room):
            if problem is not None:
                raise Refused(problem)
        try:
            put(self._folder, file, data)
        except OSError as error:
            raise Refused(f"{file}: {error.strerror}") from None
        return {**self._doc(file, data), **self._word(file)}

    def _word(self, file: str) -> dict[str, JSON]:
        """What is said beside the answer: a change of such a file is kept back at the commit."""
        return {"staged": True, "held": HELD} if matches(file, self._held) else {"staged": True}

    def _may_change(self, file: str) -> None:
        if problem := path_problem(file):
            raise Refused(problem)
        if matches(file, self._read_only):
            raise Refused(f"{file} is read-only for {self._owner}")


def _with_file(reply: Reply) -> Reply:
    """The store's answer about a file, with its name as the copy's files have it too."""
    if not isinstance(reply.value, dict) or "path" not in reply.value:
        return reply
    return Reply(value={**reply.value, "file": reply.value["path"]})


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise BadInput("the text must be UTF-8; it holds bytes that are not") from None
