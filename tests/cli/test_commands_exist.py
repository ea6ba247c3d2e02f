"""Every command that the manual promises is there and has help; the same answer twice is the same text."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from swarmd.cli.client import READS
from swarmd.cli.main import root
from swarmd.core.acts import ACTS
from tests.cli import documents
from tests.cli.schema_check import faults

PROMISED = """
init | check | reload | serve | schema | completion | run | prompt | status
agent list | agent tree | agent show | agent history | agent rename | agent forget
why | log | next | usage | pause | resume
ctx list | ctx get | ctx set | ctx unset | ctx history
handoff send | handoff list | handoff show | handoff ack | handoff complete | handoff decline | handoff ask
handoff answer | handoff cancel | handoff change | handoff requeue
report | report list
memory show | memory edit | memory write | memory append | memory history | memory diff | memory restore
memory delete | memory shared | memory subjects | memory forget-subject
approval list | approval show | approval approve | approval deny
memory blame | memory conflicts | memory import | memory export | memory ctx set | memory ctx get
memory handoff send | memory compact | memory consolidate | skill list | skill show
session list | session show | session log | session cancel | session apply | session discard | session revert
session trace | session export | session search | memory search | session quarantine | session unquarantine
checkpoint | fail | draft show | draft apply | draft discard
attention | attention ack | doctor | verify | backup | restore | mcp
"""
COMMANDS = [command.strip() for line in PROMISED.strip().splitlines() for command in line.split("|")]
LATER = (
    "plan",
    "edit",
    "import",
)
SCHEMAS = sorted((Path(__file__).parents[1] / "data" / "schemas").glob("*.json"))


def found(command: str) -> click.Command | None:
    node: click.Command | None = root
    for word in command.split():
        if not isinstance(node, click.Group):
            return None
        node = node.get_command(click.Context(node), word)
    return node


@pytest.mark.parametrize("command", COMMANDS)
def test_every_promised_command_is_there_and_has_help(command, swarmd):
    ran = swarmd(*command.split(), "--help")
    assert ran.status == 0
    assert f"Usage: swarmd {command}" in ran.text
    node = found(command)
    assert node is not None
    assert (node.help or "").strip()
    for param in node.params:
        if isinstance(param, click.Option) and not param.hidden:
            assert param.help, f"{command} {param.opts}"


@pytest.mark.parametrize("command", LATER)
def test_what_comes_later_is_said_to_come_later(command, swarmd):
    ran = swarmd(*command.split(), "more", "--agent", "a")
    assert (ran.status, ran.calls) == (2, [])
    assert ran.err == f"swarmd: this version has no `swarmd {command}` yet (README: Not there yet)\n"


def test_the_help_of_swarmd_names_every_command(swarmd):
    text = swarmd("--help").text
    for name in {command.split()[0] for command in COMMANDS}:
        assert f"\n  {name} " in text


def test_every_act_on_handoffs_has_its_command():
    for act in ACTS:
        if act.startswith("handoff_"):
            assert found(f"handoff {act.removeprefix('handoff_')}") is not None


def test_no_act_is_taken_for_a_read():
    assert not READS & set(ACTS)


@pytest.mark.parametrize("file", SCHEMAS, ids=lambda file: file.stem)
def test_the_sample_of_each_document_fits_its_schema(file):
    assert faults(json.loads(file.read_text()), documents.SAMPLES[file.stem]) == []


def test_a_document_that_lacks_a_promised_field_does_not_fit():
    schema = json.loads(next(file for file in SCHEMAS if file.stem == "ctx_get").read_text())
    assert faults(schema, {**documents.KEY, "version": "1"}) == ["$.version: integer is expected"]
    assert faults(schema, {"agent": "a"}) != []


READING = {
    "approval_list": ["approval", "list"], "approval_show": ["approval", "show", "7"],
    "status": ["status"], "agent_list": ["agent", "list"], "agent_tree": ["agent", "tree"],
    "agent_show": ["agent", "show", "studio"], "agent_history": ["agent", "history", "studio"],
    "why": ["why", "studio"], "log": ["log"], "next": ["next"], "ctx_list": ["ctx", "list", "studio"],
    "ctx_get": ["ctx", "get", "studio", "status"], "ctx_history": ["ctx", "history", "studio", "status"],
    "handoff_list": ["handoff", "list"], "handoff_show": ["handoff", "show", "7"], "report_list": ["report", "list"],
    "memory_list": ["memory", "list", "studio"], "memory_show": ["memory", "show", "studio"],
    "memory_history": ["memory", "history", "studio"], "memory_diff": ["memory", "diff", "studio", "1"],
    "memory_blame": ["memory", "blame", "studio"], "memory_conflicts": ["memory", "conflicts", "studio"],
    "memory_subjects": ["memory", "subjects", "studio"], "memory_shared": ["memory", "shared"],
    "memory_export": ["memory", "export", "studio"],
    "session_list": ["session", "list"], "session_show": ["session", "show", "7"],

"session_log": ["session", "log", "7"], "session_trace": ["session", "trace", "7"], "attention": ["attention"],
"skill_list": ["skill", "list", "studio"], "skill_show": ["skill", "show", "studio", "pdf"], "usage": ["usage"], "prompt": ["prompt", "studio"], "doctor": ["doctor"], "verify": ["verify"], "session_search": ["session", "search", "hello"],
"memory_search": ["memory", "search", "POLISH"],
}  # fmt: skip


def test_every_read_is_printed_by_a_command():
    assert set(READING) == READS


@pytest.mark.parametrize("name", sorted(READING))
def test_json_is_the_document_as_it_came_and_text_is_steady(name, swarmd):
    document = documents.SAMPLES[name]
    for args in ([*READING[name], "--json"], ["--json", *READING[name]]):
        ran = swarmd(*args, **{name: document})
        assert (ran.status, ran.json, ran.err) == (0, document, "")
        assert [call for call, _ in ran.calls] == [name]
    first, second = (swarmd(*READING[name], **{name: document}) for _ in range(2))
    assert first.status == 0, first.err
    assert first.out == second.out != b""
    assert "{'" not in first.text, "a Python object was printed"
