"""From bytes to TOML values: encodings, line ends, and what tomllib raises beside its own error."""

from __future__ import annotations

import pytest

from swarmd.config.document import read_document
from swarmd.config.problems import Complaint


def problem(data: bytes) -> str:
    document = read_document("a.toml", data)
    assert document.problem is not None
    assert document.data == {}
    return str(document.problem)


def test_a_file_saved_on_windows_reads_as_any_other():
    data = '\ufeffsystem_prompt = """\r\none\r\ntwo"""\r\nenabled = true\r\n'.encode()
    document = read_document("a.toml", data)
    assert document.problem is None
    assert document.data == {"system_prompt": "one\ntwo", "enabled": True}
    assert document.lines.of(("enabled",)) == 4


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"a = \nb = 1", "a.toml:1:5: not valid TOML: Invalid value"),
        (b"x = 1\n\na = 'open", 'a.toml:3: not valid TOML: Expected "\'"'),
        (b"a = 1\na = 2\n", "a.toml:2:6: not valid TOML: the key a is there twice"),
        (b"[a.b]\n[a.b]\n", "a.toml:2:5: not valid TOML: the table [a.b] is there twice"),
        ("a = 1\n".encode("utf-16"), "a.toml: is UTF-16; save it as UTF-8"),
        ("ab = 'ä'\n".encode("utf-16-le"), "a.toml: is not UTF-8 (UTF-16 without a BOM?); save it as UTF-8"),
        ("a = 'b'\n".encode("utf-16-be"), "a.toml:1:1: not valid TOML"),
        (b"a = 1\nb = 'caf\xe9'\n", "a.toml:2: is not UTF-8 (byte 0xe9); save it as UTF-8"),
        (b"a = " + b"[" * 100_000, "a.toml: tables or lists are nested too deeply: 32 levels are the most"),
        (b"a = " + b"9" * 5000, "a.toml: not valid TOML: a number has too many digits"),
        (b"a = 1\rb = 2", "a.toml:1"),
    ],
)
def test_what_is_no_toml_is_told_in_one_sentence(data, sentence):
    assert problem(data).startswith(sentence)


def test_an_empty_file_is_an_empty_document():
    assert read_document("a.toml", b"").problem is None


def test_a_complaint_about_something_missing_gets_the_line_of_its_table():
    document = read_document("a.toml", b"x = 1\n[runner]\nkind = 'command'\n")
    located = document.located(Complaint(path=("runner", "command"), text="is missing"))
    assert str(located) == "a.toml:2: runner.command: is missing"
    nowhere = document.located(Complaint(path=("system_prompt",), text="is missing"))
    assert str(nowhere) == "a.toml:1: system_prompt: is missing"


def test_a_complaint_about_a_text_that_stands_for_a_table_names_the_text():
    document = read_document("a.toml", b"\nschedule = ''\n")
    located = document.located(Complaint(path=("schedule", "cron"), text="is empty"))
    assert (located.line, located.field) == (2, "schedule")


def test_names_with_more_parts_than_anybody_needs_are_one_problem_of_their_file(folder):
    folder.write("good", 'system_prompt = "x"\nrunner = { kind = "command", command = ["/bin/true"] }\n')
    folder.write("long", f"a{'.a' * 5000} = 1\n")
    folder.write("deep", f'system_prompt = "x"\nlimits{".a" * 1100} = 1\n')
    checked = folder.check()
    assert sorted(checked.agents) == ["good"]
    assert [problem.text for problem in checked.problems] == [
        "tables or lists are nested too deeply: 32 levels are the most"
    ] * 2
