"""What a command session is given, and what becomes of how it ends."""

import asyncio
import os
import re
import sys
import threading
from dataclasses import replace

import pytest
from pydantic import ValidationError

from swarmd.core.wire import MemoryTree
from swarmd.runners import program, registry
from swarmd.runners.checking import run_check
from swarmd.runners.command import Options, command_line
from swarmd.runners.outcomes import RunCancelled
from tests.runners.machines import TOKEN, text_of, until


async def test_the_environment_is_exactly_what_the_manual_lists(machine):
    machine = machine.with_host(
        environ={
            "ANTHROPIC_API_KEY": "sk-not-for-agents",
            "SECRET_X": "not-for-agents-either",
            "GAME": "pong",
            "NOTIFY_SOCKET": "/run/notify",
        }
    )
    result = await machine.run(
        "/usr/bin/env", "-0", env={"LANG": "de_DE.UTF-8"}, pass_env=["GAME", "NOT_SET"]
    )
    found = dict(entry.split("=", 1) for entry in text_of(result).split("\0") if entry)
    session = f"{machine.root}/state/sessions/1"
    assert found == {
        "PATH": f"{session}/bin:{machine.host.path}",
        "HOME": f"{machine.root}/state/homes/polybreak",
        "USER": machine.host.user,
        "LANG": "de_DE.UTF-8",
        "TZ": "Europe/Berlin",
        "TMPDIR": f"{session}/tmp",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "GAME": "pong",
        "SWARMD_AGENT": "polybreak",
        "SWARMD_SESSION": "1",
        "SWARMD_SOCKET": f"{machine.root}/run/s/1/desk.sock",
        "SWARMD_TOKEN": "[secret]",
        "SWARMD_PROMPT": f"{session}/prompt",
        "SWARMD_MEMORY": f"{session}/memory",
    }


async def test_the_program_itself_gets_the_token(machine):
    result = await machine.run("sh", "-c", f'test "$SWARMD_TOKEN" = {TOKEN}')
    assert result.outcome == "success"


async def test_a_program_gets_no_descriptor_but_the_three(machine):
    result = await machine.run("ls", "/proc/self/fd")
    assert text_of(result).split() == ["0", "1", "2", "3"]  # 3 is the listing's own


async def test_the_prompt_stands_on_standard_input_and_in_a_file_the_system_part_first(machine):
    result = await machine.run("sh", "-c", "cat; cat $SWARMD_PROMPT")
    assert text_of(result) == "You keep Polybreak moving.\n\nGo on." * 2


async def test_a_megabyte_of_prompt_is_read_or_not_without_a_deadlock(machine):
    prompt = "x" * 1_000_000
    reading, printing, ignoring, closing = await asyncio.gather(
        machine.run("wc", "-c", user=prompt, session=1),
        machine.run("sh", "-c", "cat; echo end", user=prompt, session=2),
        machine.run("true", user=prompt, session=3),
        machine.run("sh", "-c", "exec 0<&-; sleep 0.2", user=prompt, session=4),
    )
    assert text_of(reading).strip() == "1000028"
    assert printing.stdout.tail.endswith(b"xend\n")
    assert {result.outcome for result in (reading, printing, ignoring, closing)} == {"success"}


@pytest.mark.parametrize(
    ("script", "outcome", "exit", "reason"),
    [
        ("exit 0", "success", 0, ""),
        ("echo later >&2; exit 75", "unavailable", 75, "exit status 75 (try again later): later"),
        ("echo one >&2; echo two >&2; echo >&2; exit 3", "failed", 3, "exit status 3: two"),
        ("exit 1", "failed", 1, "exit status 1"),
        ("kill -SEGV $$", "failed", 139, "killed by signal 11 (SIGSEGV)"),
        (
            r"printf '\033[31mred\033[0m \377\n' >&2; exit 1",
            "failed",
            1,
            r"exit status 1: \x1b[31mred\x1b[0m \xff",
        ),
        ("kill -TERM 0; sleep 9", "failed", 143, "killed by signal 15 (SIGTERM)"),
    ],
)
async def test_the_exit_status_decides(machine, script, outcome, exit, reason):
    result = await machine.run("sh", "-c", script)
    assert (result.outcome, result.exit, result.reason) == (outcome, exit, reason)


async def test_a_last_line_without_end_is_cut(machine):
    result = await machine.run("sh", "-c", "head -c 300000 /dev/zero | tr '\\0' y >&2; exit 1")
    assert len(result.reason) < 330
    assert result.reason.endswith("yyy...")


@pytest.mark.parametrize(
    ("argv", "more", "sentence"),
    [
        (["nosuchprogram"], {}, r"the program 'nosuchprogram' was not found on PATH \(.+\)"),
        (["./nosuch"], {}, r"the program .*/agents.d/nosuch does not exist \(a relative one starts .*"),
        (["./plain.txt"], {}, r"the program .*/plain.txt may not be executed: .*chmod \+x.*"),
        (["./nohash"], {}, r"the program .*/nohash cannot be executed: is it a script without '#!' .*"),
        (["./nointerpreter"], {}, r"the program .* the interpreter that its first line names does not exist"),
        (["true"], {"workdir": "/nosuch"}, r"workdir /nosuch: No such file or directory; make it, .*"),
        (["true"], {"workdir": "/etc/passwd"}, r"workdir /etc/passwd: Not a directory; .*"),
        (
            ["true"],
            {"sandbox": {"write": ["/nosuch"]}},
            r"sandbox.write: /nosuch does not exist; make it, .*",
        ),
        (["true", "x" * 200_000], {}, r"the program true cannot be started: Argument list too long"),
    ],
)
async def test_what_cannot_start_says_so_in_a_sentence(machine, argv, more, sentence):
    machine.script("", "plain.txt")
    (machine.agents / "plain.txt").chmod(0o644)
    machine.script("", "nohash", first="exit 0\n")
    machine.script("", "nointerpreter", first="#!/nosuch/interpreter\n")
    result = await machine.run(*argv, **more)
    assert (result.outcome, result.exit) == ("failed", None)
    assert re.fullmatch(sentence, result.reason)


async def test_a_relative_program_starts_at_the_agent_file_and_not_at_workdir(machine):
    workdir = machine.root / "work"
    workdir.mkdir()
    (workdir / "agent.sh").write_text("#!/bin/sh\necho wrong\n")
    (workdir / "agent.sh").chmod(0o755)
    result = await machine.run(machine.script("echo right; pwd"), workdir=str(workdir))
    assert text_of(result).split() == ["right", str(workdir)]


async def test_the_workdir_is_the_home_where_none_is_named(machine):
    assert text_of(await machine.run("pwd")).strip() == str(machine.state / "homes/polybreak")


async def test_arguments_arrive_as_they_are_and_no_shell_reads_them(machine):
    texts = ["'; touch PWNED; echo '", "$(touch PWNED)", "a\nb", "", "- buy milk", "@file"]
    result = await machine.run("printf", "%s\\0", *texts)
    assert text_of(result).split("\0")[:-1] == texts


async def test_there_is_no_terminal(machine):
    result = await machine.run("sh", "-c", "test ! -t 0 && test ! -t 1 && ! sh -c ': </dev/tty'")
    assert result.outcome == "success"


async def test_a_question_at_the_deadline_is_named(machine):
    result = await machine.run("sh", "-c", "printf 'Password: ' >&2; sleep 60", timeout_seconds=0.3)
    assert result.outcome == "timed_out"
    assert result.reason.endswith("; perhaps it waited for an answer (there is no terminal): 'Password:'")


async def test_memory_comes_back_as_the_session_left_it(machine):
    script = (
        "cd $SWARMD_MEMORY && ls -la archive/old.md >&2 && mkdir -p people && echo hi >people/ann.md "
        "&& echo more >>MEMORY.md"
    )
    memory = MemoryTree.of({"MEMORY.md": b"# Notes\n", "archive/old.md": b"old\n"})
    result = await machine.run("sh", "-c", script, memory=memory)
    assert result.stderr.head.startswith(b"-r--r--r--")
    assert result.memory.as_files() == {
        "MEMORY.md": b"# Notes\nmore\n",
        "archive/old.md": b"old\n",
        "people/ann.md": b"hi\n",
    }
    assert result.memory_problems == ()


async def test_an_edit_of_a_read_only_file_and_a_link_are_problems(machine):
    memory = MemoryTree.of({"policies/a.md": b"rule\n", "policies/b.md": b"rule\n"})
    script = "cd $SWARMD_MEMORY; rm policies/a.md; mv policies/b.md x; ln -s /etc/passwd link; echo new >policies/c.md"
    result = await machine.run("sh", "-c", script, memory=memory, read_only=("policies/**",))
    assert result.memory_problems == (
        "link is a symbolic link; a memory folder holds regular files only",
        "policies/a.md is read-only, and was removed",
        "policies/b.md is read-only, and was removed",
        "policies/c.md is read-only, and was added",
    )


async def test_only_the_log_and_the_memory_copy_are_left_of_a_session(machine):
    result = await machine.run(
        "sh", "-c", "echo one; echo two >&2; cd $TMPDIR; mkdir -p a/b; chmod 0 a/b; chmod 0 a"
    )
    assert result.outcome == "success"
    assert sorted(os.listdir(machine.state / "sessions/1")) == ["memory", "output.log"]
    assert sorted((machine.state / "sessions/1/output.log").read_text().split()) == ["one", "two"]
    assert os.listdir(machine.root / "run/s") == []


async def test_a_very_deep_temp_folder_is_removed(machine):
    script = "import os\nos.chdir(os.environ['TMPDIR'])\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')\n"
    result = await machine.run(machine.python(script))
    assert result.outcome == "success", result.reason
    assert sorted(os.listdir(machine.state / "sessions/1")) == ["memory", "output.log"]


async def test_secrets_are_masked_in_what_is_kept(machine):
    machine = machine.with_host(environ={"GAME_TOKEN": "hunter2hunter2", "SHORT": "abc"})
    script = (
        "printf hunter2; sleep 0.1; printf 'hunter2 %s abc\\n' known-secret; echo $SWARMD_TOKEN >&2; exit 1"
    )
    result = await machine.run(
        "sh", "-c", script, pass_env=["GAME_TOKEN", "SHORT"], secrets=("known-secret",)
    )
    assert text_of(result) == "[secret] [secret] abc\n"
    assert result.reason == "exit status 1: [secret]"
    assert "hunter2hunter2" not in (machine.state / "sessions/1/output.log").read_text()


async def test_cancelling_ends_it_and_hands_over_what_there_was(machine):
    session = asyncio.ensure_future(
        machine.run("sh", "-c", "echo kept >>$SWARMD_MEMORY/MEMORY.md; echo begun; sleep 60")
    )
    log = machine.state / "sessions/1/output.log"
    await until(lambda: log.exists() and log.read_text())
    session.cancel()
    with pytest.raises(RunCancelled) as caught:
        await session
    assert caught.value.result.outcome == "cancelled"
    assert caught.value.result.memory.read("MEMORY.md") == b"# Notes\nkept\n"
    assert text_of(caught.value.result) == "begun\n"
    assert sorted(os.listdir(machine.state / "sessions/1")) == ["memory", "output.log"]


@pytest.mark.parametrize("step", ["_result", "clear_but_memory"])
async def test_a_cancellation_that_comes_when_the_program_has_ended_hands_over_its_memory_too(
    machine, monkeypatch, step
):
    reached, go_on = threading.Event(), threading.Event()
    real = getattr(program, step)

    def slowly(*args):
        reached.set()
        assert go_on.wait(10)
        return real(*args)

    monkeypatch.setattr(program, step, slowly)
    session = asyncio.ensure_future(machine.run("sh", "-c", "echo kept >>$SWARMD_MEMORY/MEMORY.md"))
    await until(reached.is_set)
    for _ in range(3):
        session.cancel()
        await asyncio.sleep(0.01)
    go_on.set()
    with pytest.raises(RunCancelled) as caught:
        await session
    assert caught.value.result.outcome == "cancelled"
    assert caught.value.result.memory.read("MEMORY.md") == b"# Notes\nkept\n"
    assert sorted(os.listdir(machine.state / "sessions/1")) == ["memory", "output.log"]


async def test_python_signals_are_the_usual_ones(machine):
    result = await machine.run(
        "sh", "-c", "yes | head -1; grep -E 'Sig(Ign|Blk)' /proc/self/status; umask; ulimit -c"
    )
    yes, _, blocked, _, ignored, umask, core = text_of(result).split()
    # Signals 32 and 33 are the C library's own: it sets them for nobody, so they stay as whoever started the tests has them.
    assert int(ignored, 16) & ~(0b11 << 31) == 0
    assert (yes, int(blocked, 16), umask, core) == ("y", 0, "0077", "0")


async def test_a_runtime_folder_that_is_too_long_is_named(machine):
    machine = machine.with_host(runtime_dir=f"{machine.root}/{'r' * 100}")
    result = await machine.run("true")
    assert result.outcome == "failed"
    assert "too long for a socket" in result.reason


async def test_a_check_runs_as_the_session_did_but_without_a_token(machine):
    workdir = machine.root / "work"
    workdir.mkdir()
    (workdir / "report.html").write_text("x")
    request = machine.request("true", workdir=str(workdir), env={"A": "b"})
    assert (await run_check(["test", "-s", "report.html"], request, machine.host)).good
    script = 'test "$A$SWARMD_SESSION" = b1 && test -z "$SWARMD_TOKEN$SWARMD_SOCKET" && cat $SWARMD_MEMORY/MEMORY.md'
    memory = MemoryTree.of({"MEMORY.md": b"as it became"})
    checked = await run_check(["sh", "-c", script], request, machine.host, memory=memory)
    assert (checked.good, checked.last_line) == (True, "as it became")
    bad = await run_check(["sh", "-c", "echo because; exit 4"], request, machine.host)
    assert (bad.good, bad.exit, bad.last_line, bad.reason) == (False, 4, "because", "exit status 4")
    slow = await run_check(["sleep", "60"], request, machine.host, timeout_seconds=0.2)
    assert not slow.good
    assert slow.reason.startswith("timed out")
    assert not (await run_check(["nosuchprogram"], request, machine.host)).good


async def test_the_command_line_for_people(machine):
    assert command_line(machine.request("./bin/x", "a b"), machine.host) == [f"{machine.agents}/bin/x", "a b"]
    assert command_line(machine.request("nosuchprogram"), machine.host) == ["nosuchprogram"]
    assert command_line(machine.request("sh"), replace(machine.host, path="/bin"))[0] == "/bin/sh"


@pytest.mark.parametrize(
    "options",
    [
        {"command": []},
        {"command": "true"},
        {"command": ["a\0b"]},
        {"command": ["true"], "env": {"SWARMD_TOKEN": "x"}},
        {"command": ["true"], "env": {"A=B": "x"}},
        {"command": ["true"], "env": {"A": "x\0"}},
        {"command": ["true"], "pass_env": ["SWARMD_SOCKET"]},
        {"command": ["true"], "shell": True},
    ],
)
def test_bad_options_are_refused_when_the_file_is_loaded(options):
    with pytest.raises(ValidationError):
        Options.model_validate(options)


def test_the_registry_knows_the_runner():
    module = registry.load("command")
    assert module.Options is Options
    assert module.measures == frozenset()
    assert "command" in registry.kinds()
    with pytest.raises(Exception, match=r"no runner is named 'comand'; there are: .*command"):
        registry.load("comand")


async def test_the_swarmd_program_is_on_the_path_and_nothing_else_of_its_folder(machine):
    program = machine.root / "venv/bin/swarmd"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho it is me\n")
    program.chmod(0o755)
    (program.parent / "python3").symlink_to(sys.executable)
    machine = machine.with_host(swarmd=str(program), path="/usr/bin:/bin")
    result = await machine.run("sh", "-c", "swarmd; command -v python3")
    assert text_of(result).splitlines()[0] == "it is me"
    assert "venv" not in text_of(result).splitlines()[-1]
