"""What makes a skill and what does not."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmd.config.front_matter import FrontMatterError, front_matter
from swarmd.config.skill_text import own_skills, skill_of
from swarmd.core.skills import file_problem
from tests.core.prompt_samples import document

GOOD = "---\nname: pdf\ndescription: Reads PDF files. Use it when one is handed in.\n---\n# How\n"


def skill(text, name="pdf", *, own=False):
    data = text if isinstance(text, bytes) else text.encode("utf-8")
    return skill_of(name, f"/skills/{name}", data, own=own)


# -- the format -------------------------------------------------------------------------------------------------------

FULL = """---
name: pdf
description: >
  Reads PDF files.
  Use it when one is handed in.
license: Apache-2.0
compatibility: needs poppler
metadata: { author: someone, version: "1.0", nested: { deep: [1, 2] } }
allowed-tools: Bash(git:*) Read
user-invocable: true
---
"""


def test_a_full_one_is_read_with_all_its_fields():
    found = skill(FULL)
    assert found.problem is None
    assert found.description == "Reads PDF files. Use it when one is handed in."
    assert (found.license, found.compatibility) == ("Apache-2.0", "needs poppler")
    assert found.allowed_tools == "Bash(git:*) Read"


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        GOOD.replace("\n", "\r\n"),
        GOOD.replace("\n", "\r"),
        "\ufeff" + GOOD,
        GOOD.replace("---\n", "--- \n"),
        "---\nname: 'pdf'\ndescription: \"Reads PDF files. Use it when one is handed in.\"\n---",
        GOOD.replace("name", "allowed-tools: [Read, Write]\nname"),
        GOOD + "---\nnot: front matter\n---\n",
    ],
    ids=["plain", "crlf", "cr", "bom", "space", "no body", "tools as a list", "more lines of dashes"],
)
def test_forms_that_people_write_are_read(text):
    found = skill(text)
    assert (found.problem, found.description) == (None, "Reads PDF files. Use it when one is handed in.")


def test_words_of_another_alphabet_stand_as_they_are():
    assert skill(
        "---\nname: pdf\ndescription: Liest PDFs \u2013 \u6f22\u5b57 \U0001f680\n---\n"
    ).description == ("Liest PDFs \u2013 \u6f22\u5b57 \U0001f680")


def test_values_are_the_text_that_stands_there_and_nothing_else():
    found = skill("---\nname: 007\ndescription: 2026-11-30\n---\n", name="007")
    assert (found.problem, found.description) == (None, "2026-11-30")
    assert skill("---\nname: pdf\ndescription: !!python/object/apply:os.system [id]\n---\n").problem == (
        "its description must be a text"
    )


@pytest.mark.parametrize(
    ("text", "words_of_it"),
    [
        ("", "no front matter"),
        ("# How\n", "no front matter"),
        ("\n" + GOOD, "its first line must be ---"),
        ("---\nname: pdf\ndescription: x\n", "has no end"),
        ("---\nname: pdf\ndescription: x\n" + "a: b\n" * 9000 + "---\n", "has no end within"),
        ("---\n---\n", "has no fields"),
        ("---\n- a\n---\n", "has no fields"),
        ("---\ndescription: x\n---\n", "has no name"),
        ("---\nname: pdf\n---\n", "has no description"),
        ("---\nname: pdf\ndescription: '  '\n---\n", "has no description"),
        ("---\nname: [pdf]\ndescription: x\n---\n", "its name must be a text"),
        ("---\nname: PDF\ndescription: x\n---\n", "single hyphens"),
        ("---\nname: pdf--x\ndescription: x\n---\n", "single hyphens"),
        ("---\nname: pdf-\ndescription: x\n---\n", "single hyphens"),
        (f"---\nname: {'a' * 65}\ndescription: x\n---\n", "1 to 64"),
        ("---\nname: other\ndescription: x\n---\n", "must be the same"),
        (f"---\nname: pdf\ndescription: {'x' * 1025}\n---\n", "1,025 characters; 1,024 are the most"),
        (f"---\nname: pdf\ndescription: x\ncompatibility: {'x' * 501}\n---\n", "500 are the most"),
        ("---\nname: pdf\ndescription: Use: it\n---\n", "line 3 of SKILL.md: a ': ' stands where none may: a text that has one goes in quotes"),
        ("---\nname: 'pdf\ndescription: x\n---\n", "is no YAML: line 2 of SKILL.md: a quote is opened and never closed"),
        ("---\nname: pdf\ndescription: \x07\n---\n", "is no YAML: line 3 of SKILL.md: it has the character '\\x07', which may not stand"),
        ("---\na: &a [x, x]\nb: *a\nname: pdf\ndescription: x\n---\n", "has an alias"),
        ("---\na: " + "[" * 5000 + "\n---\n", "has more than 8 levels, which is not read: line 2 of SKILL.md"),
        ("---\n? [a]\n: b\nname: pdf\ndescription: x\n---\n", "is no YAML: line 2 of SKILL.md: a list or table stands where a name"),
        (b"---\nname: pdf\ndescription: \xff\n---\n", "is not UTF-8 (byte 27)"),
        (b"---\nname: pdf\ndescription: x\x00\n---\n", "NUL"),
        (b"x" * (10 * 1024 * 1024), "10,485,760 bytes; 65,536 are the most"),
    ],
)  # fmt: skip
def test_what_is_no_skill_is_told_why(text, words_of_it):
    found = skill(text)
    assert found.problem is not None
    assert words_of_it in found.problem
    assert found.description == ""


def test_a_bomb_of_aliases_costs_nothing():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert "alias" in (skill("---\n" + "\n".join(lines) + "\n---\n").problem or "")


@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(text):
    found = skill(f"---\nname: pdf\ndescription: x\n{text}\n---\n")
    assert found.problem is None or found.problem.strip()
    with contextlib.suppress(FrontMatterError):
        assert isinstance(front_matter(f"---\n{text}\n---\n"), dict)


@pytest.mark.parametrize("path", ["SKILL.md", "scripts/run.py", "references/a/b.md", "assets/\u6f22.png"])
def test_files_of_a_skill_are_named_by_paths_inside_it(path):
    assert file_problem(path) is None


@pytest.mark.parametrize("path", [
    "", "/etc/passwd", "..", "../x", "a/../../x", "a//b", "a/", "./a", ".git/config", "a\x00b", "a/" * 9 + "b", "x" * 500,
])  # fmt: skip
def test_no_path_leads_out_of_a_skill(path):
    assert file_problem(path) is not None


def test_own_skills_are_the_folders_of_the_memory_that_have_a_skill_file():
    memory = [
        document("MEMORY.md", "x"), document("skills/pdf/SKILL.md", GOOD), document("skills/pdf/scripts/a.py", "x"),
        document("skills/SKILL.md", GOOD), document("notes/pdf/SKILL.md", GOOD), document("skills/empty/notes.md", "x"),
        document("skills/bad/SKILL.md", "no"),
    ]  # fmt: skip
    found = {one.name: one.problem for one in own_skills(memory, "studio")}
    assert found.keys() == {"bad", "pdf"}
    assert found["pdf"] is None
    assert own_skills(memory, "house") == [], "another agent's folder is not its own"
