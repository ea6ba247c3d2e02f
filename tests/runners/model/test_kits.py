"""The tools themselves: the memory tool on the desk, files and shell as confined programs, MCP servers of all sorts."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from swarmd.runners import landlock
from swarmd.runners.bubblewrap import usable
from swarmd.runners.model.memory_tool import MemoryKit
from swarmd.runners.model.programs import BashKit, FileKit, Programs
from swarmd.runners.model.toolbox import RESULT_CHARACTERS, Toolbox
from swarmd.runners.sandbox import policy
from tests.model_server import answers as say
from tests.model_server.server import ModelServer
from tests.runners.model.talking import SmallDesk, converse, job

# -- memory -------------------------------------------------------------------------------------------------


async def memory(desk: SmallDesk, command: str, **args):
    called = await MemoryKit(desk).call("memory", {"command": command, **args})
    return called.text if not called.error else ValueError(called.text)


def said(value) -> str:
    assert isinstance(value, ValueError), value
    return str(value)


async def test_the_memory_tool_works_on_the_sessions_memory(desk):
    desk.files = {"MEMORY.md": "one\ntwo\n", "topics/a.md": "A"}
    assert await memory(desk, "view", path="/memories") == (
        "Here are the files in /memories, with their sizes:\n8B\t/memories/MEMORY.md\n1B\t/memories/topics/a.md"
    )
    assert await memory(desk, "view", path="/memories/topics/") == (
        "Here are the files in /memories/topics, with their sizes:\n1B\t/memories/topics/a.md"
    )
    assert (await memory(desk, "view", path="/memories/MEMORY.md")).endswith("     1\tone\n     2\ttwo")
    assert (await memory(desk, "view", path="/memories/MEMORY.md", view_range=[2, -1])).endswith(
        ":\n     2\ttwo"
    )
    await memory(desk, "create", path="/memories/b.md", file_text="b\n")
    assert "already exists" in said(await memory(desk, "create", path="/memories/b.md", file_text="c"))
    await memory(desk, "insert", path="/memories/b.md", insert_line=0, insert_text="first")
    await memory(desk, "insert", path="/memories/b.md", insert_line=2, insert_text="last\n")
    assert desk.files["b.md"] == "first\nb\nlast\n"
    await memory(desk, "rename", old_path="/memories/topics", new_path="/memories/notes")
    assert sorted(desk.files) == ["MEMORY.md", "b.md", "notes/a.md"]
    assert "already exists" in said(
        await memory(desk, "rename", old_path="/memories/b.md", new_path="/memories/notes")
    )
    await memory(desk, "delete", path="/memories/notes")
    assert sorted(desk.files) == ["MEMORY.md", "b.md"]


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n"),
        ("a.b", ".", r"\1 $& \g<0>", r"a\1 $& \g<0>b"),
        ("a b", " b", "", "a"),
        ("a\r\nb\r\n", "b", "\\1 $& \\g<0>\nc", "a\r\n\\1 $& \\g<0>\r\nc\r\n"),
        ("a\nb\r\nc\nd\n", "c\nd", "x\ny", "a\nb\r\nx\ny\n"),
        ("a\nb\n", "a\r\nb", "x\r\ny", "x\ny\n"),
        ("a\r\nb\r\n", "a\r\nb", "x\ny", "x\r\ny\r\n"),
        ("one\u2028two\x0b\n", "two", "2", "one\u20282\x0b\n"),
    ],
)
async def test_edits_are_literal_and_keep_line_ends(desk, programs, tmp_path, text, old, new, after):
    desk.files = {"MEMORY.md": text}
    await memory(desk, "str_replace", path="/memories/MEMORY.md", old_str=old, new_str=new)
    assert desk.files["MEMORY.md"] == after
    file = tmp_path / "work" / "a.md"
    file.write_bytes(text.encode())
    assert await files(programs, "file_edit", path="a.md", old=old, new=new) == "a.md: 1 replaced"
    assert file.read_bytes() == after.encode()


async def test_what_is_put_between_lines_has_the_line_ends_of_the_file(desk):
    for text, after in (("a\r\nb\r\n", "a\r\nx\r\ny\r\nb\r\n"), ("a\nb\n", "a\nx\ny\nb\n"),
                        ("a\x0bb\nc", "a\x0bb\nx\ny\nc")):  # fmt: skip
        desk.files = {"MEMORY.md": text}
        await memory(desk, "insert", path="/memories/MEMORY.md", insert_line=1, insert_text="x\ny")
        assert desk.files["MEMORY.md"] == after
    desk.files = {"MEMORY.md": "a\r\nb\r\n"}
    assert (await memory(desk, "view", path="/memories/MEMORY.md")).endswith(":\n     1\ta\n     2\tb")


async def test_the_archive_is_one_line_of_the_folder_however_many_texts_it_has(desk):
    desk.files = {"MEMORY.md": "a\n"} | {f"archive/history_{n}.md": "old\n" for n in range(500)}
    assert (await memory(desk, "view", path="/memories")).splitlines()[1:] == [
        "2B\t/memories/MEMORY.md", "2000B\t/memories/archive/ (500 older texts)",
    ]  # fmt: skip
    assert "500" not in await memory(desk, "view", path="/memories/archive/history_7.md")
    assert len((await memory(desk, "view", path="/memories/archive")).splitlines()) == 501


async def test_edits_that_miss_change_nothing_and_say_why(desk):
    desk.files = {"MEMORY.md": "x\ny\nx\n"}
    path = "/memories/MEMORY.md"
    assert "appears 2 times, in lines: 1, 3" in said(
        await memory(desk, "str_replace", path=path, old_str="x", new_str="z")
    )
    desk.files["MEMORY.md"] = "a\na\na\n"
    assert "appears 2 times, in lines: 1, 2" in said(
        await memory(desk, "str_replace", path=path, old_str="a\na", new_str="z")
    )
    desk.files = {"MEMORY.md": "x\ny\nx\n"}
    assert "old_str is empty" in said(await memory(desk, "str_replace", path=path, old_str="", new_str="z"))
    assert "did not appear" in said(await memory(desk, "str_replace", path=path, old_str="q", new_str="z"))
    assert "new_str" not in said(await memory(desk, "str_replace", path=path, old_str="q"))
    assert "within [0, 3]" in said(await memory(desk, "insert", path=path, insert_line=9, insert_text="z"))
    assert desk.files == {"MEMORY.md": "x\ny\nx\n"}


@pytest.mark.parametrize("path", ["/etc/passwd", "MEMORY.md", "/memoriesx/a", None, 7, "/memories"])
async def test_paths_that_are_none_of_the_memory_are_refused(desk, path):
    assert "path" in said(await memory(desk, "delete", path=path))


# -- files and shell ----------------------------------------------------------------------------------------


@pytest.fixture(params=["landlock", "bubblewrap"])
def programs(tmp_path: Path, runtime_dir, request) -> Programs:
    bubblewrap = usable() if request.param == "bubblewrap" else None
    if request.param == "bubblewrap" and bubblewrap is None:
        pytest.skip("bubblewrap is not installed, or may not be used here")
    work, out = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    out.mkdir()
    (out / "secret.txt").write_text("secret")
    level = "landlock" if landlock.abi() else "none"
    held = policy(level=level, network=True, hidden=[str(out)], read=[], write=[str(work)], workdir=str(work))
    with_policy = replace(
        job_programs(work), policy=held, marker=str(tmp_path / "mark"), bubblewrap=bubblewrap
    )
    return Programs(with_policy)


def job_programs(work: Path):
    with ModelServer() as server:
        return job(server, workdir=str(work)).programs


async def files(programs: Programs, tool: str, **args) -> str:
    called = await FileKit(programs).call(tool, args)
    return ("ERROR " if called.error else "") + called.text


async def test_files_of_the_working_folder_are_read_written_edited_and_found(programs, tmp_path):
    assert (
        await files(programs, "file_write", path="a/b.txt", text="one\ntwo\ntwo\n")
        == "a/b.txt: 12 bytes written"
    )
    assert await files(programs, "file_read", path="a/b.txt") == "     1\tone\n     2\ttwo\n     3\ttwo"
    assert (await files(programs, "file_read", path="a/b.txt", offset=2, limit=1)).startswith(
        "     2\ttwo\n(1 more"
    )
    assert await files(programs, "file_edit", path="a/b.txt", old="one", new=r"\1") == "a/b.txt: 1 replaced"
    assert "holds that text 2 times" in await files(programs, "file_edit", path="a/b.txt", old="two", new="x")
    assert (
        await files(programs, "file_edit", path="a/b.txt", old="two", new="x", all=True)
        == "a/b.txt: 2 replaced"
    )
    assert (tmp_path / "work" / "a" / "b.txt").read_text() == "\\1\nx\nx\n"
    await files(programs, "file_write", path="top.md", text="needle in hay\n")
    assert await files(programs, "file_find") == "a/b.txt\ntop.md"
    assert await files(programs, "file_find", pattern="*.md") == "top.md"
    assert await files(programs, "file_search", regex="n[e]+dle") == "top.md:1: needle in hay"
    assert "ERROR" in await files(programs, "file_search", regex="(")
    assert (
        await files(programs, "file_read", path="nothing.txt")
        == "ERROR file_read: nothing.txt: No such file or directory"
    )
    for folder in (".", "a", ""):
        assert "is a folder" in await files(programs, "file_read", path=folder)
    assert await files(programs, "file_write", path="a", text="x") == "ERROR file_write: a is a folder"
    assert await files(programs, "file_read") == "ERROR file_read: the argument 'path' is missing"
    assert "is no regular expression" in await files(programs, "file_search", regex="(")


@pytest.mark.parametrize(
    "path", ["../outside/secret.txt", "/etc/passwd", "link/secret.txt", "linked.txt", "..", "a/../../x"]
)
async def test_nothing_outside_of_the_working_folder_is_read_or_written(programs, tmp_path, path):
    (tmp_path / "work" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "work" / "linked.txt").symlink_to(tmp_path / "outside" / "secret.txt")
    assert "ERROR" in await files(programs, "file_read", path=path)
    assert "ERROR" in await files(programs, "file_write", path=path, text="mine")
    assert (tmp_path / "outside" / "secret.txt").read_text() == "secret"
    assert await files(programs, "file_search", regex="secret") == "(no line matches)"


async def test_odd_files_hold_nobody_up(programs, tmp_path):
    work = tmp_path / "work"
    os.mkfifo(work / "pipe")
    (work / "big.bin").write_bytes(b"\0" * 100)
    (work / "huge.txt").write_bytes(b"x" * (9 * 1024 * 1024))
    (work / "latin.txt").write_bytes(b"caf\xe9\n")
    for name in ("pipe", "big.bin", "huge.txt"):
        assert "ERROR" in await files(programs, "file_read", path=name)
    assert await files(programs, "file_read", path="latin.txt") == "     1\tcaf\ufffd"
    await files(programs, "file_edit", path="latin.txt", old="caf", new="tea")
    assert (work / "latin.txt").read_bytes() == b"tea\xe9\n", "bytes that are no text stay as they are"


async def bash(programs: Programs, command, **args) -> str:
    called = await BashKit(programs).call("bash", {"command": command, **args})
    return ("ERROR " if called.error else "") + called.text


async def test_the_shell_says_what_came_of_a_command(programs):
    assert await bash(programs, "echo hi; pwd | xargs basename") == "hi\nwork"
    assert (
        await bash(programs, "echo out; echo err >&2; exit 3") == "ERROR out\n[stderr]\nerr\n[exit status 3]"
    )
    assert await bash(programs, "true") == "(no output)"
    assert await bash(programs, "cat") == "(no output)", "its input is empty"
    assert await bash(programs, "kill -9 $$") in ("ERROR [killed by signal 9]", "ERROR [exit status 137]")
    assert "command is missing" in await bash(programs, "  ")
    assert "command is missing" in await bash(programs, 7)
    assert "a command may have" in await bash(programs, "x" * 200_000)
    assert "timeout is a number" in await bash(programs, "true", timeout="1")
    assert "hunter2-secret" not in await bash(programs, "echo hunter2-''secret")


async def test_the_shell_is_confined_and_leaves_nobody_behind(programs, tmp_path):
    begun = time.monotonic()
    text = await bash(programs, "sleep 300 & setsid sleep 301 & echo started; sleep 302", timeout=0.5)
    assert text.startswith("ERROR started\n[ended after 0.5 seconds")
    assert time.monotonic() - begun < 30
    if landlock.abi():
        assert "ERROR" in await bash(programs, f"cat {tmp_path}/outside/secret.txt")
        assert "ERROR" in await bash(programs, f"echo x > {tmp_path}/mine.txt")


async def test_in_a_namespace_of_its_own_the_shell_sees_no_other_process(programs):
    if programs._job.bubblewrap is None:
        pytest.skip("this is about bubblewrap")
    assert int(await bash(programs, "echo $$")) < 10
    assert len((await bash(programs, "ls /proc | grep -c '^[0-9]'")).split()) == 1
    assert await bash(programs, "/no/such/program") == (
        "ERROR [stderr]\nbash: line 1: /no/such/program: No such file or directory\n[exit status 127]"
    )


async def test_endless_output_is_bounded(programs):
    text = await Toolbox([BashKit(programs)]).call("bash", {"command": "yes | head -c 20000000"})
    assert len(text.text) <= RESULT_CHARACTERS + 100
    assert "left out" in text.text


# -- MCP servers --------------------------------------------------------------------------------------------

ECHO = """
from mcp.server import MCPServer
server = MCPServer("echo")
@server.tool()
def echo(word: str) -> str:
    "Say it again."
    return word * 2
@server.tool()
def fail() -> str:
    "Fail."
    raise ValueError("boom")
server.run()
"""


async def test_the_tools_of_an_mcp_server_are_the_models_too(desk, tmp_path):
    (tmp_path / "echo.py").write_text(ECHO)
    servers = {"odd-name": {"command": [sys.executable, str(tmp_path / "echo.py")]}}
    with ModelServer([
        say.tools(say.call("odd-name__echo", word="ab"), say.call("odd-name__fail")), "done",
    ]) as server:  # fmt: skip
        done = await converse(server, desk, mcp_servers=servers, tools=["ctx_set"], workdir=tmp_path)
        assert server.complaints == []
    assert done.outcome == "success", done.reason
    assert [tool["name"] for tool in server.messages[0].body["tools"]] == [
        "ctx_set",
        "odd-name__echo",
        "odd-name__fail",
    ]
    results = desk.of("tool_result")
    assert (results[0]["text"], results[0]["error"]) == ("abab", False)
    assert results[1]["error"]


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ({"command": ["/no/such/program"]}, "MCP server odd"),
        ({"command": ["true"]}, "MCP server odd"),
        ({"command": ["sh", "-c", "echo not json; exec sleep 60"]}, "MCP server odd"),
        ({"url": "http://127.0.0.1:9/mcp"}, "MCP server odd"),
    ],
)
async def test_a_session_whose_mcp_server_is_not_there_fails_before_it_asks(
    desk, server, why, monkeypatch, tmp_path
):
    monkeypatch.setattr("swarmd.runners.model.mcp_kit.START_SECONDS", 1.0)
    with ModelServer() as models:
        done = await converse(models, desk, mcp_servers={"odd": server}, workdir=tmp_path)
    assert done.outcome == "failed"
    assert done.reason.startswith(why)
    assert models.messages == []
