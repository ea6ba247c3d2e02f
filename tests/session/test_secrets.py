"""Secrets that swarmd knows are masked in all that it stores of a session."""

import base64
import json
import os
from urllib.parse import quote

from swarmd.core.wire import MemoryTree
from swarmd.runners.outcomes import RunCancelled
from swarmd.session.known_secrets import Masking, passed_by

SECRET = "hunter2-hunter2"


def stored(swarm):
    """Every byte below the state folder, the database's log included."""
    found = []
    for folder, _, names in os.walk(swarm.places.state):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                found.append((name, file.read()))
    return found


def assert_nowhere(swarm, *secrets):
    for name, data in stored(swarm):
        for secret in secrets:
            assert secret.encode() not in data, name


async def test_a_secret_in_keys_handoffs_reports_and_memory_is_masked(swarm):
    swarm.secrets = (SECRET,)
    id = swarm.call("handoff_send", to="studio", text="do it")["id"]
    tokens = []

    async def script(part):
        tokens.append(part.request.token)
        await part.act("ctx_set", key="k", value=f"it is {SECRET}!")
        await part.refused("ctx_set", key=SECRET, value="v")
        await part.refused("handoff_send", to=SECRET, text="t")
        await part.refused("handoff_send", to="game", text="t", dedupe=SECRET)
        await part.act("handoff_send", to="game", text=f"use {SECRET}", dedupe="tool")
        await part.act("handoff_complete", id=id, reply=f"{SECRET} was used")
        await part.act("report", text=f"{SECRET} {part.request.token}")
        part.write("MEMORY.md", f"remember {SECRET}\n")
        part.write(f"{SECRET}.md", "by name\n")
        reply = await part.checkpoint()
        assert reply.error is None
        part.write("MEMORY.md", f"remember {SECRET}\nand more\n")
        await part.act("fail", reason=f"because of {SECRET}")

    session = await swarm.run("studio", script)
    assert session["reason"] == "because of [secret]"
    assert swarm.value("studio", "k") == "it is [secret]!"
    assert swarm.text("studio") == "remember [secret]\n"
    assert swarm.text("studio", "[secret].md") == "by name\n"
    assert swarm.handoff(id)["thread"][0]["text"] == "[secret] was used"
    assert swarm.call("report_list")["items"][0]["text"] == "[secret] [secret]"
    assert session["draft"] == "open"
    assert_nowhere(swarm, SECRET, *tokens)


async def test_a_working_copy_that_holds_a_secret_is_not_written_again_and_again(swarm):
    swarm.secrets = (SECRET,)

    async def script(part):
        part.write("MEMORY.md", f"remember {SECRET}\n")
        await part.checkpoint()
        assert (await part.checkpoint()).value["changes"] == []

    session = await swarm.run("studio", script)
    assert len(session["changes"]) == 1


async def test_what_an_operator_wrote_is_not_touched_by_a_session_that_does_not_touch_it(swarm):
    swarm.secrets = ("production",)
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="we are in production\n")
    session = await swarm.run("studio")
    assert session["outcome"] == "no_change"
    assert swarm.text("studio") == "we are in production\n"


async def test_the_reason_of_a_runner_and_of_a_cancelled_session_is_masked(swarm):
    swarm.secrets = (SECRET,)

    async def fails(part):
        return part.done("failed", reason=f"exit status 1: bad key {SECRET}")

    async def cancelled(part):
        await part.act("ctx_set", key="k", value=SECRET)
        part.write("MEMORY.md", SECRET)
        raise RunCancelled(part.done("cancelled"))

    async def breaks(part):
        raise ValueError(SECRET)

    async def problems(part):
        return part.done(memory_problems=(f"{SECRET}.md is a symbolic link",))

    for script in (fails, cancelled, breaks, problems):
        for mode in ("commit", "no_commit"):
            await swarm.run("studio", script, mode=mode)
    assert_nowhere(swarm, SECRET)


async def test_an_agents_name_is_not_a_text(swarm):
    swarm.secrets = ("production",)
    swarm.agent("production", "studio")

    async def script(part):
        await part.act("handoff_send", to="production", text="do it")
        await part.act("ctx_set", agent="production", key="k", value="v")

    assert (await swarm.run("studio", script))["outcome"] == "committed"
    assert swarm.value("production", "k") == "v"


def test_known_are_the_values_of_pass_env():
    known = passed_by({"TOKEN": SECRET, "SHORT": "abc", "OTHER": "not passed to it"})
    assert known({"pass_env": ["TOKEN", "SHORT", "MISSING"]}, "/") == (SECRET, "abc")
    assert known({}, "/") == ()


def test_known_are_the_credentials_beside_the_agents_file_and_those_of_mcp_servers(tmp_path):
    for name in ("key.txt", "server.txt"):
        (tmp_path / name).write_text(f"the-text-of-{name}\n")
        (tmp_path / name).chmod(0o600)
    options = {
        "credential": "file:key.txt",
        "mcp_servers": {
            "a": {"command": ["x"], "pass_env": ["TOKEN"], "credential": None},
            "b": {"url": "http://h", "credential": "file:server.txt"},
            "c": {"url": "http://h", "credential": "file:nothing.txt"},
        },
    }
    known = passed_by({"TOKEN": SECRET})(options, str(tmp_path))
    assert known == ("the-text-of-key.txt", SECRET, "the-text-of-server.txt")


def test_short_values_and_values_that_are_no_text_are_left():
    masking = Masking(("abc", SECRET))
    assert masking.text("abc") == "abc"
    assert masking.args({"value": f"x{SECRET}", "id": 7, "to": SECRET, "text": None}) == {
        "value": "x[secret]", "id": 7, "to": SECRET, "text": None,
    }  # fmt: skip
    assert Masking().args({"value": SECRET}) == {"value": SECRET}


def test_in_a_folder_only_what_was_changed_is_masked():
    masking, base = Masking((SECRET,)), MemoryTree.of({"old.md": SECRET.encode()})
    now = MemoryTree.of({"old.md": SECRET.encode(), "new.md": f"\xff{SECRET}".encode("latin-1")})
    assert masking.tree(now, base).as_files() == {"new.md": b"\xff[secret]", "old.md": SECRET.encode()}


def test_a_secret_is_known_again_inside_json_a_url_and_base64():
    secret = 'quo"te\\and schl\u00fcssel\n'
    masking = Masking((secret,))
    for text in (json.dumps(secret), json.dumps(secret, ensure_ascii=False)):
        assert masking.text(text) == '"[secret]"'
    assert masking.text(f"https://x/?k={quote(secret, safe='')}") == "https://x/?k=[secret]"
    assert masking.text(base64.b64encode(secret.encode()).decode()).startswith("[secret]")
