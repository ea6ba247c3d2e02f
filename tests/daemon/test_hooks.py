"""Hooks as real programs: what they are given, how they refuse, and that none of them outlives its turn."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from swarmd.core.wire import MemoryTree, Message, Result
from swarmd.errors import Refused
from tests.daemon.kit import until

MIB = 2**20
KEEPS = """
    import json, os, sys
    data = sys.stdin.buffer.read()
    name = json.loads(data)["hook"]
    number = len(os.listdir({out!r}))
    with open({out!r} + "/%02d-%s.json" % (number, name), "wb") as file:
        file.write(data)
"""
NASTY = '"}]\n\x1b[31m\u202e; rm -rf ~ $(id) `id` \\u0000 {"hook": "x"}'


class Hooked:
    """An agent `disk` with hooks, and what they were given."""

    def __init__(self, swarm, root: Path) -> None:
        self.swarm = swarm
        self.out = root / "out"
        self.out.mkdir()
        self.root = root

    def hook(self, name: str, body: str) -> str:
        file = self.swarm.places.agents / f"{name}.py"
        text = textwrap.dedent(body).replace("{out!r}", repr(str(self.out)))
        file.write_text(f"#!{os.path.realpath('/proc/self/exe')}\n{text}")
        file.chmod(0o755)
        return f"./{name}.py"

    def agent(self, part, *, more: str = "", timeout: str = "20s", **hooks: str) -> None:
        lines = [f'{name} = ["{self.hook(name, body)}"]' for name, body in hooks.items()]
        self.swarm.stage.parts["hooked"] = part
        self.swarm.agent(
            "disk", part="hooked",
            more=f'[sandbox]\nwrite = ["{self.out}"]\n[hooks]\ntimeout = "{timeout}"\n' + "\n".join(lines) + f"\n{more}",
        )  # fmt: skip

    @property
    def given(self) -> list[dict]:
        return [json.loads(file.read_bytes()) for file in sorted(self.out.glob("*.json"))]

    def value(self, key: str):
        rows = self.swarm._rows("SELECT value FROM keys WHERE agent = 'disk' AND key = ?", key)
        return rows[0]["value"] if rows else None


@pytest.fixture
def hooked(swarm, tmp_path):
    return Hooked(swarm, tmp_path)


def acts(*keys: tuple[str, str], files: dict[str, bytes] | None = None):
    async def part(request, desk) -> Result:
        for n, (key, value) in enumerate(keys):
            reply = await desk.call(Message(id=f"a{n}", call="ctx_set", args={"key": key, "value": value}))
            assert reply.error is None, reply.error
        tree = request.memory if files is None else MemoryTree.of({**request.memory.as_files(), **files})
        return Result(outcome="success", exit=0, memory=tree)

    return part


SET = acts(("last", "1"))


def processes(marker: str) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in line:
                found.append(int(name))
    return found


async def test_a_hook_is_given_the_change_set_and_its_yes_lets_it_through(hooked, swarm):
    async def part(request, desk) -> Result:
        asked = [
            ("ctx_set", {"key": "last", "value": "2"}),
            ("ctx_set", {"key": "deploy", "value": "now"}),
            ("ctx_set", {"agent": "nobody", "key": "k", "value": "v"}),
            ("handoff_send", {"to": "nobody", "text": "do it"}),
            ("report", {"text": "all well"}),
        ]
        for n, (call, args) in enumerate(asked):
            await desk.call(Message(id=f"a{n}", call=call, args=args))
        files = {"MEMORY.md": b"one\ntwo\n", "raw.bin": b"\xff\xfe"}
        return Result(outcome="success", exit=0, memory=MemoryTree.of(files))

    hooked.agent(part, more='[authority]\napproval = ["deploy"]\n', before_commit=KEEPS, after_commit=KEEPS)
    async with swarm.up():
        await swarm.ask("ctx_set", agent="disk", key="last", value="1")
        await swarm.ask("memory_write", agent="disk", file="MEMORY.md", text="one\n")
        done = await swarm.ask("run", agent="disk")
    assert done["outcome"] == "committed"
    before, after = hooked.given
    assert (before["hook"], after["hook"]) == ("before_commit", "after_commit")
    assert {name: before[name] for name in ("agent", "session", "trigger", "checkpoint", "approval")} == {
        "agent": "disk", "session": 1, "trigger": "manual", "checkpoint": None, "approval": None,
    }  # fmt: skip
    changes = {change["target"]: change for change in before["changes"]}
    assert {target: change["verdict"] for target, change in changes.items()} == {
        "disk/last": "done", "disk/deploy": "held", "parent": "done", "disk:MEMORY.md": "done", "disk:raw.bin": "done",
    }  # fmt: skip
    assert (changes["disk/last"]["before"], changes["disk/last"]["after"]) == ("1", "2")
    assert (changes["disk/deploy"]["before"], changes["disk/deploy"]["after"]) == (None, "now")
    assert changes["disk:MEMORY.md"]["before"] == {"text": "one\n"}
    assert changes["disk:MEMORY.md"]["after"] == {"text": "one\ntwo\n"}
    assert base64.b64decode(changes["disk:raw.bin"]["after"]["base64"]) == b"\xff\xfe"
    assert changes["disk:raw.bin"]["before"] is None
    assert [note["act"] for note in before["refusals"]] == ["ctx_set", "handoff_send"]
    told = {
        change["target"]: (change["before"], change["after"])
        for change in after["changes"]
        if "path" in change
    }
    assert told == {target: (changes[target]["before"], changes[target]["after"]) for target in told}


REFUSES = {
    "a message on standard error": (
        "import sys\nprint('ignored')\nsys.exit('no secrets, please\\nline 3 has one')",
        "hooks.before_commit: no secrets, please; line 3 has one",
    ),
    "a message on standard output": ("print('not on Fridays')\nraise SystemExit(2)", "hooks.before_commit: not on Fridays"),
    "no word at all": ("raise SystemExit(1)", "exit status 1"),
    "the status of what is away": ("raise SystemExit(75)", "exit status 75"),
    "a signal": ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "killed by signal 9"),
    "too long a time": ("import time\ntime.sleep(600)", "timed out after 1 seconds"),
}  # fmt: skip


@pytest.mark.parametrize("how", REFUSES)
async def test_another_exit_than_0_refuses_the_whole_change_set(hooked, swarm, how):
    body, said = REFUSES[how]
    hooked.agent(SET, timeout="1s", before_commit=body)
    async with swarm.up():
        done = await swarm.ask("run", agent="disk")
        assert done["outcome"] == "refused"
        assert said in done["reason"]
        assert done["draft"] == "open"
        assert [change["verdict"] for change in done["changes"]] == ["not_written"]
        assert hooked.value("last") is None
        assert "refused:disk" in swarm.attention()
        text = (await swarm.ask("prompt", agent="disk"))["user"]
        assert said in text


async def test_a_hook_that_is_not_there_refuses(hooked, swarm):
    hooked.agent(SET, before_commit="")
    (swarm.places.agents / "before_commit.py").unlink()
    async with swarm.up():
        done = await swarm.ask("run", agent="disk")
        assert done["outcome"] == "refused"
        assert "does not exist" in done["reason"]
        assert hooked.value("last") is None


async def test_nothing_is_asked_about_a_session_that_writes_nothing(hooked, swarm):
    hooked.agent(acts(), before_commit=KEEPS, after_commit=KEEPS)
    async with swarm.up():
        assert (await swarm.ask("run", agent="disk"))["outcome"] == "no_change"
        await swarm.ask("ctx_set", agent="disk", key="last", value="1")
        await swarm.ask("ctx_set", agent="disk", key="last", value="2")
        hooked.swarm.stage.parts["hooked"] = acts(("last", "2"))
        assert (await swarm.ask("run", agent="disk"))["outcome"] == "no_change"
        hooked.swarm.stage.parts["hooked"] = SET
        assert (await swarm.ask("run", agent="disk", mode="no_commit"))["outcome"] == "dry_run"
    assert hooked.given == []


async def test_who_forks_and_goes_leaves_nobody_behind(hooked, swarm):
    marker = f"hook-leftover-{os.getpid()}"
    body = f"""
        import os, subprocess, sys
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600) # {marker}"], start_new_session=True)
    """
    hooked.agent(SET, before_commit=body)
    async with swarm.up():
        assert (await swarm.ask("run", agent="disk"))["outcome"] == "committed"
        assert processes(marker) == []


async def test_what_a_hook_prints_is_bounded(hooked, swarm):
    body = """
        import sys
        line = b"x" * 65535 + b"\\n"
        for _ in range(1600):
            sys.stdout.buffer.write(line)
        sys.exit("y" * 5_000_000)
    """
    hooked.agent(SET, before_commit=body)
    async with swarm.up():
        done = await swarm.ask("run", agent="disk")
        assert done["outcome"] == "refused"
        assert len(done["reason"]) < 500
    kept = swarm.places.state / "sessions" / "1" / "hook" / "output.log"
    assert kept.stat().st_size <= 11 * MIB


@pytest.mark.parametrize("reads", [False, True])
async def test_a_change_set_of_10_mb_goes_to_who_reads_it_and_to_who_does_not(hooked, swarm, reads):
    body = KEEPS if reads else "raise SystemExit(0)"
    big = (b"0123456789abcde\n" * 65536) * 10
    hooked.agent(acts(files={"big.md": big}), before_commit=body)
    async with swarm.up():
        assert (await swarm.ask("run", agent="disk"))["outcome"] == "committed"
    if reads:
        assert hooked.given[0]["changes"][0]["after"] == {"text": big.decode()}


async def test_text_in_what_a_hook_is_given_is_data(hooked, swarm):
    hooked.agent(acts(("last", NASTY), files={"a.md": NASTY.encode()}), before_commit=KEEPS)
    async with swarm.up():
        assert (await swarm.ask("run", agent="disk"))["outcome"] == "committed"
    (given,) = hooked.given
    assert [change["after"] for change in given["changes"]] == [NASTY, {"text": NASTY}]


async def test_a_hook_has_no_token_and_is_no_operator(hooked, swarm):
    body = """
        import json, os, subprocess
        ran = subprocess.run(["swarmd", "ctx", "set", "disk", "evil", "1"], capture_output=True, text=True)
        names = sorted(name for name in os.environ if name.startswith("SWARMD_"))
        open({out!r} + "/env", "w").write(json.dumps([names, os.environ["SWARMD_AGENT"], ran.returncode]))
    """
    hooked.agent(SET, before_commit=body)
    async with swarm.up():
        assert (await swarm.ask("run", agent="disk"))["outcome"] == "committed"
        assert hooked.value("evil") is None
    names, agent, status = json.loads((hooked.out / "env").read_text())
    assert not {"SWARMD_TOKEN", "SWARMD_SOCKET"} & set(names)
    assert {"SWARMD_AGENT", "SWARMD_SESSION"} <= set(names)
    assert (agent, status) == ("disk", 3)


async def test_what_a_hook_says_is_masked(hooked, swarm):
    body = "import sys\nsys.exit('found hunter22-hunter22 in it')"
    hooked.agent(SET, before_commit=body)
    file = swarm.places.agents / "disk.toml"
    file.write_text(
        file.read_text().replace('part = "hooked"', 'part = "hooked"').replace("[hooks]", "[hooks]")
    )
    async with swarm.up() as daemon:
        daemon.ports = replace(daemon.ports, secrets=lambda *_: ("hunter22-hunter22",))
        done = await swarm.ask("run", agent="disk")
    assert "hunter22" not in done["reason"]
    assert "found" in done["reason"]


# -- checkpoints --------------------------------------------------------------------------------------------


async def test_a_refused_checkpoint_saves_nothing_and_the_session_goes_on(hooked, swarm):
    body = """
        import json, sys
        found = json.load(sys.stdin)
        values = [change["after"] for change in found["changes"]]
        if "bad" in values:
            sys.exit(f"not that, at checkpoint {found['checkpoint']}")
    """
    replies = []

    async def part(request, desk) -> Result:
        async def put(id, value):
            await desk.call(Message(id=id, call="ctx_set", args={"key": "last", "value": value}))
            replies.append(
                await desk.checkpoint(Message(id=f"c{id}", call="checkpoint", args={}), request.memory, ())
            )

        await put("1", "good")
        await put("2", "bad")
        await put("3", "better")
        return Result(outcome="success", exit=0, memory=request.memory)

    hooked.agent(part, before_commit=body, after_commit=KEEPS)
    async with swarm.up():
        done = await swarm.ask("run", agent="disk")
        assert (done["outcome"], hooked.value("last")) == ("committed", "better")
    assert [reply.error for reply in replies[:2]] == [
        None,
        "nothing was saved: hooks.before_commit: not that, at checkpoint 2",
    ]
    assert replies[2].value["checkpoint"] == 2
    assert [given["checkpoint"] for given in hooked.given] == [1, 2]


# -- after the commit ---------------------------------------------------------------------------------------


async def test_a_hook_that_fails_after_the_commit_is_raised_and_cured_by_one_that_does_not(hooked, swarm):
    hooked.agent(SET, after_commit="import sys\nsys.exit('the mail could not be sent')")
    async with swarm.up():
        done = await swarm.ask("run", agent="disk")
        assert (done["outcome"], hooked.value("last")) == ("committed", "1")
        (item,) = (i for i in swarm.call("attention")["items"] if i["id"] == "hook:disk")
        assert item["kind"] == "hook"
        assert "the mail could not be sent" in item["text"]
        hooked.hook("after_commit", "raise SystemExit(0)")
        swarm.stage.parts["hooked"] = acts(("last", "2"))
        assert (await swarm.ask("run", agent="disk"))["outcome"] == "committed"
        assert "hook:disk" not in swarm.attention()


async def test_a_session_that_is_refused_is_no_commit(hooked, swarm):
    hooked.agent(SET, before_commit="raise SystemExit(1)", after_commit=KEEPS)
    async with swarm.up():
        assert (await swarm.ask("run", agent="disk"))["outcome"] == "refused"
    assert hooked.given == []


# -- cancelled ----------------------------------------------------------------------------------------------

SLEEPS = """
    import time
    open({out!r} + "/asleep", "w").close()
    time.sleep(600) # hook-asleep
"""


async def test_a_session_that_is_cancelled_while_its_hook_runs_saves_nothing(hooked, swarm):
    hooked.agent(SET, timeout="10m", before_commit=SLEEPS)
    async with swarm.up():
        run = asyncio.ensure_future(swarm.ask("run", agent="disk"))
        await until((hooked.out / "asleep").exists)
        await swarm.ask("session_cancel", session="1")
        done = await run
        assert (done["outcome"], done["draft"]) == ("cancelled", "open")
        assert hooked.value("last") is None
        assert processes("before_commit.py") == []


async def test_a_session_that_is_cancelled_while_a_checkpoints_hook_runs_ends_at_once(hooked, swarm):
    async def part(request, desk) -> Result:
        await desk.call(Message(id="1", call="ctx_set", args={"key": "last", "value": "1"}))
        await desk.checkpoint(Message(id="2", call="checkpoint", args={}), request.memory, ())
        raise AssertionError("it was cancelled")

    hooked.agent(part, timeout="10m", before_commit=SLEEPS)
    async with swarm.up():
        run = asyncio.ensure_future(swarm.ask("run", agent="disk"))
        await until((hooked.out / "asleep").exists)
        await swarm.ask("session_cancel", session="1")
        assert (await run)["outcome"] == "cancelled"
        assert processes("before_commit.py") == []


async def test_a_daemon_that_stops_ends_a_hook_after_the_commit_and_raises_it(hooked, swarm):
    hooked.agent(SET, timeout="10m", after_commit=SLEEPS)
    async with swarm.up():
        run = asyncio.ensure_future(swarm.ask("run", agent="disk"))
        await until((hooked.out / "asleep").exists)
        assert hooked.value("last") == "1"
    await asyncio.gather(run, return_exceptions=True)
    assert processes("after_commit.py") == []
    async with swarm.up():
        assert "hook:disk" in swarm.attention()
        assert swarm.outcomes() == ["committed"]


# -- approvals ----------------------------------------------------------------------------------------------

WAITS = '[authority]\napproval = ["deploy"]\n'
POLICY = """
    import json, os, sys
    found = json.load(sys.stdin)
    if found["approval"] is not None and not os.path.exists({out!r} + "/open"):
        sys.exit("the window is shut")
"""


async def test_hooks_are_asked_and_told_where_an_operator_approves(hooked, swarm):
    hooked.agent(acts(("deploy", "now")), more=WAITS, before_commit=POLICY, after_commit=KEEPS)
    async with swarm.up():
        await swarm.ask("run", agent="disk")
        with pytest.raises(Refused, match="the window is shut"):
            await swarm.ask("approval_approve", id=1)
        assert hooked.value("deploy") is None
        (hooked.out / "open").touch()
        done = await swarm.ask("approval_approve", id=1)
        assert (done["state"], hooked.value("deploy")) == ("approved", "now")
    held, approved = hooked.given
    assert [change["verdict"] for change in held["changes"]] == ["held"]
    assert [change["verdict"] for change in approved["changes"]] == ["done"]
    assert (approved["approval"], approved["approved_by"]) == (1, "operator:tester")
    assert (approved["session"], approved["trigger"]) == (1, "manual")


async def test_a_hook_has_the_home_of_the_sessions_subject_also_where_an_operator_approves(hooked, swarm):
    body = """
        import os, pathlib, sys
        sys.stdin.buffer.read()
        with open({out!r} + "/homes", "a") as file:
            file.write(pathlib.Path(os.environ["HOME"]).name + "\\n")
    """
    hooked.agent(acts(("deploy", "now")), more=WAITS, before_commit=body)
    async with swarm.up():
        await swarm.ask("run", agent="disk", subject="alice")
        await swarm.ask("approval_approve", id=1)
    assert (hooked.out / "homes").read_text() == "disk@alice\n" * 2


async def test_what_waits_too_long_ends_with_the_daemons_minute(hooked, swarm):
    hooked.agent(acts(("deploy", "now")), more=WAITS + 'approval_expires = "1h"\n')
    async with swarm.up() as daemon:
        await swarm.ask("run", agent="disk")
        swarm.clock.pass_(3599)
        await daemon.minute()
        assert [row["state"] for row in swarm._rows("SELECT state FROM approvals")] == ["open"]
        swarm.clock.pass_(2)
        await daemon.minute()
        assert swarm._rows("SELECT state, decided_by FROM approvals") == [
            {"state": "expired", "decided_by": "system"}
        ]
        assert "asked in session 1: expired" in (await swarm.ask("prompt", agent="disk"))["user"]


async def test_of_two_whose_hook_is_asked_at_once_one_succeeds_and_a_daemon_killed_after_it_has_lost_nothing(
    hooked, swarm
):
    hooked.agent(acts(("deploy", "now")), more=WAITS, before_commit=POLICY)
    async with swarm.up(killed=True):
        await swarm.ask("run", agent="disk")
        (hooked.out / "open").touch()
        answers = await asyncio.gather(
            *(swarm.ask("approval_approve", id=1) for _ in range(2)), return_exceptions=True
        )
        assert sum(isinstance(answer, dict) for answer in answers) == 1
    async with swarm.up():
        assert [row["state"] for row in swarm._rows("SELECT state FROM approvals")] == ["approved"]
        assert hooked.value("deploy") == "now"
        assert (await swarm.ask("verify"))["ok"]
