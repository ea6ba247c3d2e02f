"""A corpus of broken agent files, each with the sentence that names its line, what was found and what is expected."""

from __future__ import annotations

import pytest

from tests.config.kit import good

P = 'system_prompt = "x"\n'
R = 'runner = { kind = "command", command = ["a"] }\n'

BROKEN = [
    # unknown fields
    (P + R + "timout = '600s'", "3: timout: unknown field (did you mean 'timeout' in [limits]?)"),
    (P + R + "[limit]\nmax_turns = 5", "3: limit: unknown field (did you mean 'limits'?)"),
    (P + R + "limit.max_turns = 5", "3: limit: unknown field (did you mean 'limits'?)"),
    (P + R + 'name = "bob"', "3: name: unknown field (an agent's name is the name of its file)"),
    (P + R + "[limits]\nparent = 'x'", "4: limits.parent: unknown field ('parent' belongs above the first [table] of the file)"),
    (P + R + "[limits]\n'a b' = 1", "4: limits.'a b': unknown field"),
    (P + R + "[limits]\nsessions_per_day = 1", "4: limits.sessions_per_day: unknown field (this version of swarmd does not have it)"),
    (P + R + "[wake]\non_report = true", "3: wake: unknown field (this version of swarmd does not have it)"),
    (P + 'runner = { kind = "command", command = ["a"], comand = 1 }', "2: runner.comand: unknown field (did you mean 'command'?)"),
    # kinds of value
    (P + R + 'enabled = "false"', "3: enabled: expected true or false, found 'false' (write false without quotes)"),
    (P + R + "enabled = 0", "3: enabled: expected true or false, found 0"),
    (P + R + "description = 5", "3: description: expected text, found 5"),
    (P + R + "schedule = 5", "3: schedule: expected a cron line in quotes or a table, found 5"),
    (P + R + "limits = 'none'", "3: limits: expected a table, found 'none'"),
    (P + R + "[[limits]]\nretries = 1", "3: limits: expected a table, found a list"),
    (P + R + "[limits]\nretries = 1.0", "4: limits.retries: expected a whole number, found 1.0"),
    (P + R + "[limits]\nretries = true", "4: limits.retries: expected a whole number, found true"),
    (P + R + "[limits]\nretries = '2'", "4: limits.retries: expected a whole number, found '2' (write 2 without quotes)"),
    (P + R + "[limits]\nretries = -1", "4: limits.retries: expected at least 0, found -1"),
    (P + R + "[limits]\npause_after_failures = 0", "4: limits.pause_after_failures: expected at least 1, found 0"),
    (P + R + f"[limits]\nhandoff_depth = 1{'0' * 23}", f"4: limits.handoff_depth: expected at most 1000000000, found 1{'0' * 23}"),
    (P + R + f"[limits]\nhandoff_depth = 0x{'f' * 9000}", "4: limits.handoff_depth: expected at most 1000000000, found a number of 36000 bits"),
    (P + R + "[sandbox]\nwrite = '/srv'", "4: sandbox.write: expected a list, found '/srv' (write it in brackets, each part in quotes)"),
    (P + R + "[sandbox]\nwrite = ['/a', 5]", "4: sandbox.write[1]: expected text, found 5"),
    (P + R + "[sandbox]\nwrite = ['~/x']", "4: sandbox.write[0]: expected a path, absolute or from the file that names it (and no '~'), found '~/x'"),
    (P + R + "[sandbox]\nlevel = 'bubblewrap'", "4: sandbox.level: expected 'auto', 'landlock' or 'none', found 'bubblewrap'"),
    (P + R + "[sandbox]\nlevel = 'landlok'", "4: sandbox.level: expected 'auto', 'landlock' or 'none', found 'landlok' (did you mean 'landlock'?)"),
    (P + R + "[success]\nkeys_changed = ['a b']", "4: success.keys_changed[0]: a key's name has 1 to 128 of"),
    (P + R + "[memory]\nreads = ['Bob']", "4: memory.reads[0]: an agent's name has 1 to 63"),
    (P + R + "[memory]\nread_only = ['../x']", "4: memory.read_only[0]: expected a pattern of paths inside the memory folder"),
    (P + R + "[authority]\nkeys = 'above'", "4: authority.keys: expected 'own' or 'below', found 'above'"),
    (P + R + 'description = "a\\u0000b"', "3: description: may not hold a NUL character"),
    (P + 'runner = { kind = "command", command = ["a\\u0000"] }', "2: runner.command[0]: may not hold a NUL character"),
    (P + R + f"description = '{'x' * 1001}'", "3: description: expected text of at most 1000 characters"),
    # durations
    (P + R + "[limits]\ntimeout = 600", "4: limits.timeout: expected a duration from 1s to 30d, such as '90s', found 600 (did you mean \"600s\"?)"),
    (P + R + "[limits]\ntimeout = nan", "4: limits.timeout: expected a duration from 1s to 30d, such as '90s', found nan"),
    (P + R + "[limits]\ntimeout = inf", "4: limits.timeout: expected a duration from 1s to 30d, such as '90s', found inf"),
    (P + R + "[limits]\ntimeout = -1", "4: limits.timeout: expected a duration from 1s to 30d, such as '90s', found -1"),
    (P + R + "[limits]\ntimeout = '0s'", "4: limits.timeout: expected a duration from 1s to 30d, such as '90s', found '0s'"),
    (P + R + "[limits]\ntimeout = '60'", "4: limits.timeout: '60' is no duration"),
    (P + R + "[limits]\ntimeout = true", "4: limits.timeout: expected a duration"),
    (P + R + "[schedule]\njitter = '2 m'", "4: schedule.jitter: '2 m' is no duration"),
    # schedules
    (P + R + "schedule = ''", "3: schedule: expected five cron fields such as '0 * * * *', found ''"),
    (P + R + "schedule = '* * * *'", "3: schedule: 4 fields, 5 are wanted"),
    (P + R + "schedule = '0 0 31 2 *'", "3: schedule: day-of-month: it can never come"),
    (P + R + "schedule = '*/90 * * * *'", "3: schedule: minute: "),
    (P + R + "schedule = '0 22-6 * * *'", "3: schedule: hour: '22-6': the range runs backwards; write 22-23,0-6"),
    (P + R + "[schedule]\ncron = '0 0 30 2 *'", "4: schedule.cron: day-of-month: it can never come"),
    (P + R + "[schedule]\ncron = '0 * * * *'\nevery = '5m'", "5: schedule.every: only one of cron, every, at and adaptive may be there, and cron is"),
    (P + R + "[schedule]\nevery = '0s'", "4: schedule.every: write whole seconds, from 1s"),
    (P + R + "[schedule]\nat = '2026-02-30T10:00'", "4: schedule.at: '2026-02-30T10:00' is no date and time"),
    (P + R + "[schedule]\nat = 2026-12-24T18:00:00", "4: schedule.at: expected text, found the date or time 2026-12-24 18:00:00 without quotes"),
    (P + R + "[schedule]\ntimezone = 'Europe/Belrin'", "4: schedule.timezone: no time zone is named 'Europe/Belrin' (did you mean Europe/Berlin?)"),
    (P + R + "[schedule]\noverlap = 'skipp'", "4: schedule.overlap: expected 'skip', 'queue' or 'cancel_running', found 'skipp' (did you mean 'skip'?)"),
    # what an agent must have
    ("", "1: runner: is missing: a table with the runner's `kind` and its options"),
    (R, "1: system_prompt: is missing (or `system_prompt_file`): every agent has one"),
    ("system_prompt = ' '\n" + R, "1: system_prompt: expected text, found ' '"),
    ("system_prompt = ''\n" + R, "1: system_prompt: expected text"),
    (P + R + "system_prompt_file = 'bob.toml'", "3: system_prompt_file: only one of it and `system_prompt` may be there"),
    ("system_prompt_file = 'no.md'\n" + R, "1: system_prompt_file: 'no.md' does not exist"),
    ("system_prompt_file = '.'\n" + R, "1: system_prompt_file: '.' is a folder, not a file"),
    ("system_prompt_file = '../../no/x.md'\n" + R, "1: system_prompt_file: '../../no/x.md' does not exist"),
    (P + "runner = {}", "2: runner.kind: is missing; expected 'command' or 'model'"),
    (P + "runner = { kind = 5 }", "2: runner.kind: expected 'command' or 'model', found 5"),
    (P + "runner = { kind = 'comand', command = ['a'] }", "2: runner.kind: expected 'command' or 'model', found 'comand' (did you mean 'command'?)"),
    (P + "[runner]\nkind = 'command'", "2: runner.command: is missing"),
    (P + "runner = 'command'", "2: runner: expected a table, found 'command'"),
    (P + "runner = { kind = 'command', command = 'a b' }", "2: runner.command: expected a list, found 'a b' (write it in brackets, each part in quotes)"),
    (P + "runner = { kind = 'command', command = [] }", "2: runner.command: expected a list of at least 1, found an empty list"),
    (P + "[runner]\nkind = 'command'\ncommand = ['a']\nenv = { A = 1 }", "5: runner.env.A: expected text, found 1"),
    (P + "runner = { kind = 'command', command = ['a'], x = nan }", "2: runner.x: expected a number of at most 64 bits, found nan"),
    (P + "runner = { kind = 'command', command = ['a'], x = 9223372036854775808 }", "2: runner.x: expected a number of at most 64 bits, found 9223372036854775808"),
    (P + "runner = { kind = 'command', command = ['a'], env = { \"a\\u0000\" = 'b' } }", "2: runner.env.'a\\x00': may not hold a NUL character"),
    # the tree
    (P + R + 'parent = ""', "3: parent: expected an agent's name, found ''; a root of the tree has no `parent` at all"),
    (P + R + 'parent = "../root"', "3: parent: an agent's name has"),
    (P + R + 'parent = "operator"', "3: parent: the name 'operator' is reserved"),
    (P + R + 'parent = "bob"', "3: parent: closes a cycle: bob -> bob"),
    (P + R + 'parent = "studoi"', "3: parent: no agent is named 'studoi'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sentence"), BROKEN, ids=[sentence[:60] for _, sentence in BROKEN])
def test_a_broken_file_is_refused_with_its_line_and_what_is_expected(folder, text, sentence):
    folder.write("good", good())
    problems = folder.problems(text)
    reload = folder.load()
    assert any(problem.startswith(f"agents.d/bob.toml:{sentence}") for problem in problems), problems
    assert len(problems) == (2 if text == "" else 1), problems
    assert (reload.out, list(reload.agents)) == (("bob",), ["good"])


def test_all_that_is_wrong_is_said_at_once_and_in_the_order_of_the_file(folder):
    folder.write(
        "eve",
        'timout = 1\nsystem_prompt = "x"\nparent = "bub"\n[limits]\nretries = "x"\n[runner]\nkind = "x"\n',
    )
    folder.write("bob", "x = \n")
    assert [str(problem).split(":")[:3] for problem in folder.load().problems] == [
        ["agents.d/bob.toml", "1", "5"],
        ["agents.d/eve.toml", "1", " timout"],
        ["agents.d/eve.toml", "5", " limits.retries"],
        ["agents.d/eve.toml", "7", " runner.kind"],
        ["agents.d/eve.toml", "3", " parent"],
    ]
