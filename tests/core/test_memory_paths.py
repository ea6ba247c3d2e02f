"""Which memory paths and sizes are right, and what globs cover."""

import pytest

from swarmd.core.memory import (
    FIRST_FILE_BYTES,
    FOLDER_BYTES,
    FOLDER_FILES,
    appended,
    file_limit,
    full_at,
    matches,
    path_problem,
    room_problem,
    size_problems,
    tree_problems,
)

GOOD = [
    "MEMORY.md",
    "notes",
    "a/b/c/d",
    "people/Ann Smith.md",
    "people/René.md",
    "日本語/記憶.md",
    "a" * 100,
    "-rf",
    "~backup~",
    "a..b",
    "x.",
    "back\\slash",
    "emoji 👩‍👩‍👧",
    "CON",
]

BAD = {
    "": "may not be empty",
    "/etc/passwd": "may not start or end with '/'",
    "a/": "may not start or end with '/'",
    "a//b": "nor hold '//'",
    ".": "start with a dot",
    "..": "start with a dot",
    "../x": "start with a dot",
    "a/../b": "start with a dot",
    ".hidden": "start with a dot",
    "a/.swp": "start with a dot",
    "a/b/c/d/e": "up to 4 parts; this one has 5",
    "a" * 101: "may have 100 bytes; this one has 101",
    "é" * 51: "may have 100 bytes; this one has 102",
    "a\0b": "control characters",
    "a\nb": "control characters",
    "a\x1b[31m": "control characters",
    "a\x7fb": "control characters",
    "a\x85b": "control characters",
    "a\u2028b": "control characters",
    "caf\udce9": "must be UTF-8",
    "Rene\u0301.md": "composed form (NFC)",
}


@pytest.mark.parametrize("path", GOOD)
def test_good_paths(path):
    assert path_problem(path) is None


@pytest.mark.parametrize(("path", "why"), BAD.items())
def test_bad_paths(path, why):
    problem = path_problem(path)
    assert why in problem
    assert problem.isprintable()
    assert len(problem) < 300


def test_a_path_is_spelled_in_a_sentence_as_in_lists():
    assert (path_problem("bad\udcff.md") or "").startswith("'bad\\xff.md': ")
    assert (path_problem("a\x1b[31m") or "").startswith("'a\\x1b[31m': ")
    (twins,) = tree_problems(["\xc4pfel.md", "\xe4pfel.md"])
    assert twins == "'\xe4pfel.md' and '\xc4pfel.md' differ only in case"


def test_paths_that_are_good_alone_and_not_together():
    assert tree_problems(["MEMORY.md", "people/ann.md", "people/bob.md"]) == []
    assert "'memory.md' and 'MEMORY.md' differ only in case" in tree_problems(["MEMORY.md", "memory.md"])
    assert tree_problems(["A/x", "a/y"]) == ["'a' and 'A' differ only in case"]
    assert len(tree_problems(["straße", "STRASSE"])) == 1
    assert len(tree_problems(["ﬁle", "file"])) == 1
    assert tree_problems(["a", "a/b"]) == ["'a' is a file, so that 'a/b' cannot stand in it"]
    assert tree_problems(["../x", ".y"]) == [path_problem("../x"), path_problem(".y")]


def test_the_number_of_files_is_bounded():
    names = [f"n{number}" for number in range(FOLDER_FILES + 1)]
    assert tree_problems(names[1:]) == []
    assert tree_problems(names) == [
        "a memory folder may have 1000 files; this one has 1001: remove or join some"
    ]
    assert tree_problems([*names[1:], *(f"archive/{name}" for name in names)]) == []


def test_sizes():
    assert (file_limit("MEMORY.md"), file_limit("x/MEMORY.md")) == (FIRST_FILE_BYTES, FOLDER_BYTES)
    assert size_problems([("MEMORY.md", FIRST_FILE_BYTES), ("x", FOLDER_BYTES - FIRST_FILE_BYTES)]) == []
    assert size_problems([("MEMORY.md", FIRST_FILE_BYTES + 1)]) == [
        "memory full: MEMORY.md has 1,048,577 bytes and may have 1,048,576: cut at least 1 bytes"
    ]
    assert size_problems([("x", FOLDER_BYTES), ("y", 1)]) == [
        "memory full: the folder has 16,777,217 bytes and may have 16,777,216: cut at least 1 bytes"
    ]
    assert size_problems([("x", FOLDER_BYTES), *((f"archive/{n}", FIRST_FILE_BYTES) for n in range(9))]) == []


@pytest.mark.parametrize(
    ("path", "size", "wanted", "said"),
    [
        ("MEMORY.md", FIRST_FILE_BYTES, FIRST_FILE_BYTES, None),
        ("MEMORY.md", FIRST_FILE_BYTES + 9, FIRST_FILE_BYTES + 9, None),
        ("MEMORY.md", FIRST_FILE_BYTES - 1, FIRST_FILE_BYTES + 1, ("MEMORY.md", FIRST_FILE_BYTES - 1)),
        ("a has 7 bytes.md", FOLDER_BYTES, FOLDER_BYTES + 1, ("a has 7 bytes.md", FOLDER_BYTES)),
        ("a", 5, FOLDER_BYTES - 4, ("the folder", 10)),
        ("archive/a", 5, FOLDER_BYTES, None),
    ],
)
def test_a_refusal_for_want_of_room_can_be_read_again(path, size, wanted, said):
    problem = room_problem({path: size, "other": 5}, path, wanted)
    assert (None if problem is None else full_at(problem)) == said
    assert full_at(size_problems([("MEMORY.md", FIRST_FILE_BYTES + 1)])[0]) is None


@pytest.mark.parametrize(
    ("path", "glob", "covered"),
    [
        ("policies/a.md", "policies/**", True),
        ("policies/a/b.md", "policies/**", True),
        ("policies", "policies/**", False),
        ("policies2/a.md", "policies/**", False),
        ("policies/a.md", "policies", True),
        ("policies/a.md", "policies/", True),
        ("a.md", "*.md", True),
        ("a/b.md", "*.md", False),
        ("a/b.md", "**/*.md", True),
        ("b.md", "**/*.md", True),
        ("a/b/c.md", "a/**/c.md", True),
        ("a/c.md", "a/**/c.md", True),
        ("a/b/c.md", "a/*", True),
        ("abc", "a?c", True),
        ("a/c", "a?c", False),
        ("a\nb", "a*", True),
        ("a.c", "a[.]c", False),
        ("anything/at/all", "**", True),
        ("x", "", False),
        ("Policies/A.md", "policies/**", True),
        ("rules.md", "RULES.md", True),
    ],
)
def test_globs(path, glob, covered):
    assert matches(path, [glob]) is covered
    assert matches(path, ["nothing", glob]) is covered


def test_no_globs_cover_nothing():
    assert not matches("x", [])


def test_appending_stands_on_lines_of_its_own():
    assert appended(b"", b"a") == b"a\n"
    assert appended(b"a", b"b\n") == b"a\nb\n"
    assert appended(b"a\n", b"b") == b"a\nb\n"


def test_appended_text_has_the_line_ends_of_the_file():
    assert appended(b"a\r\nb\r\n", b"c\nd\r\ne") == b"a\r\nb\r\nc\r\nd\r\ne\r\n"
    assert appended(b"a\r\nb", b"c") == b"a\r\nb\r\nc\r\n"
    assert appended(b"a\nb\r\nc\n", b"d\n") == b"a\nb\r\nc\nd\n"  # most lines have no CRLF
    assert appended(b"a\nb\n", b"c\r\nd\r\n") == b"a\nb\nc\nd\n"
    assert appended(b"a", b"b\r\nc\r\n") == b"a\r\nb\r\nc\r\n"  # one line has no line end to go by


@pytest.mark.parametrize("path", ["MEMORY.md/x", "memory.md/x", "Memory.MD", "MEMORY.md/a/b"])
def test_the_first_file_is_always_a_file_of_its_very_name(path):
    assert "is always a file" in (path_problem(path) or "")


@pytest.mark.parametrize("path", ["MEMORY.md", "notes/MEMORY.md", "MEMORY.md.bak"])
def test_other_places_may_have_that_name(path):
    assert path_problem(path) is None
