"""What of a folder from elsewhere is taken: to the byte, under its own names where they may stand here."""

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarmd.core.conversations import conversation
from swarmd.core.interaction_log import blocks
from swarmd.core.memory import FIRST_FILE_BYTES, FOLDER_BYTES, tree_problems
from swarmd.core.takeover import AT_ONCE_BYTES, Found, detected, legal_names, of_conversation, of_folder

MEMORIES = Path(__file__).parents[1] / "data" / "memories"


def folder(name):
    top = MEMORIES / name
    return [
        Found(path=str(p.relative_to(top)), data=p.read_bytes())
        for p in sorted(top.rglob("*"))
        if p.is_file()
    ]


@pytest.mark.parametrize("name", ["swarms", "claude", "markdown"])
def test_a_folder_is_known_by_what_is_in_it_and_comes_over_to_the_byte(name):
    found = folder(name)
    assert detected(found) == name
    plan = of_folder(found, name)
    notes = {f.path: f.data for f in found if not f.path.endswith(".json")}
    assert {item.path: item.data for item in plan.items} == notes
    assert (plan.bad, plan.renamed, plan.problems) == ([], [], [])
    assert [left["file"] for left in plan.left_out] == (["config.json"] if name == "swarms" else [])


def test_what_kind_a_folder_is():
    assert detected([]) is None
    assert detected([Found(path="a.json", data=b"{}")]) is None
    assert detected([Found(path="a.md", data=b"x")]) == "markdown"
    assert detected([Found(path="CLAUDE.md")]) == "claude"
    assert detected([Found(path="x/a.md", data=b"---\nname: a\ndescription: b\n---\n")]) == "claude"
    assert detected([Found(path="a.md", data=b"---\ntitle: a\n---\n")]) == "markdown"
    assert detected([Found(path="MEMORY.md", data=b"notes\n")]) == "claude"
    assert detected([Found(path="MEMORY.md", data=b"x\n## Interaction Log\n")]) == "swarms"
    assert detected([Found(path="archive/history_2026-04-12_09-00-00.md")]) == "swarms"


def test_what_cannot_come_is_named_with_its_reason():
    plan = of_folder(
        [
            Found(path="ok.md", data=b"fine"), Found(path="nul.md", data=b"a\0b"), Found(path="latin.md", data=b"caf\xe9"),
            Found(path="link.md", problem="it is a symbolic link"), Found(path=".git"), Found(path="a/.hidden/x.md"),
            Found(path="photo.jpg", data=b"\xff\xd8"),
        ],
        "markdown",
    )  # fmt: skip
    assert [item.path for item in plan.items] == ["ok.md"]
    assert {bad["file"]: bad["why"] for bad in plan.bad} == {
        "nul.md": "it is no text: byte 2 is NUL", "latin.md": "it is not UTF-8: byte 4 is 0xe9",
        "link.md": "it is a symbolic link",
    }  # fmt: skip
    assert [left["file"] for left in plan.left_out] == [".git", "a/.hidden/x.md", "photo.jpg"]


def test_with_all_files_other_texts_come_too():
    found = [Found(path="a.csv", data=b"1,2\n"), Found(path="b.bin", data=b"\0")]
    plan = of_folder(found, "markdown", all_files=True)
    assert [item.path for item in plan.items] == ["a.csv"]
    assert [bad["file"] for bad in plan.bad] == ["b.bin"]


DECOMPOSED = unicodedata.normalize("NFD", "größe.md")


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["a.md"], {"a.md": "a.md"}),
        (["a/b/c/d/e.md"], {"a/b/c/d/e.md": "a/b/c/d-e.md"}),
        ([DECOMPOSED], {DECOMPOSED: "größe.md"}),
        (["a\nb.md"], {"a\nb.md": "a_b.md"}),
        (["memory.md"], {"memory.md": "MEMORY.md"}),
        (["MEMORY.md", "memory.md"], {"MEMORY.md": "MEMORY.md", "memory.md": "MEMORY-2.md"}),
        (["memory.md/x.md"], {"memory.md/x.md": "in-memory.md/x.md"}),
        (["Archive/x.md"], {"Archive/x.md": "archive/x.md"}),
        (["A.md", "a.md"], {"A.md": "A.md", "a.md": "a-2.md"}),
        (["N/a.md", "n/a.md", "n/b.md"], {"N/a.md": "N/a.md", "n/a.md": "N/a-2.md", "n/b.md": "N/b.md"}),
        (["a\udcff.md"], {"a\udcff.md": "a\ufffd.md"}),
        (["x" * 120 + ".md"], {"x" * 120 + ".md": "x" * 97 + ".md"}),
        # A number that makes a name another is never what is cut off.
        (["x" * 120, "x" * 130], {"x" * 120: "x" * 100, "x" * 130: "x" * 98 + "-2"}),
        (["x" * 100, "X" * 100], {"X" * 100: "X" * 100, "x" * 100: "x" * 98 + "-2"}),
        (
            ["x" * 98 + ".y", "x" * 98 + ".Y"],
            {"x" * 98 + ".Y": "x" * 98 + ".Y", "x" * 98 + ".y": "x" * 96 + "-2.y"},
        ),
        (
            ["." + "x" * 99, "." + "X" * 99],
            {"." + "X" * 99: "." + "X" * 99, "." + "x" * 99: "." + "x" * 97 + "-2"},
        ),
    ],
)
def test_names_are_changed_only_where_they_may_not_stand(paths, names):
    found = legal_names(paths)
    assert {path: name for path, (name, _) in found.items()} == names
    for path, (name, why) in found.items():
        assert bool(why) == (path != name)


PARTS = st.text(st.sampled_from("aAäÄ\u0308.\n é"), min_size=1, max_size=6).filter(
    lambda part: not part.startswith(".") and "/" not in part
) | st.sampled_from(
    ["MEMORY.md", "memory.md", "x" * 130, "x" * 131, "x" * 120 + ".md", "X" * 100, "x." + "y" * 99]
)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.lists(PARTS, min_size=1, max_size=6).map("/".join), unique=True, max_size=8))
def test_the_names_may_stand_together_or_a_file_and_a_folder_have_one_name(paths):
    # No folder holds a file and a folder of one name.
    paths = [p for p in paths if not any(other.startswith(p + "/") for other in paths)]
    names = [name for name, _ in legal_names(paths).values()]
    assert len(set(names)) == len(paths)
    assert [
        p for p in tree_problems(names) if "is a file, so that" not in p and "differ only in case" not in p
    ] == []


def log_of(count, size=2000):
    entries = "".join(
        f"### Human — 2026-04-{1 + n // 60 % 28:02}T10:{n % 60:02}:00.{n:06}\n\n{n} {'w' * size}\n\n---\n\n"
        for n in range(count)
    )
    return f"# Agent Memory\n\n---\n\n## Interaction Log\n\n{entries}"


def test_a_log_that_is_too_long_leaves_its_oldest_entries_in_archives_to_the_byte():
    text = log_of(1400)
    plan = of_folder([Found(path="MEMORY.md", data=text.encode())], "swarms")
    assert plan.problems == []
    *archives, first = plan.items
    assert first.path == "MEMORY.md"
    assert len(first.data) <= FIRST_FILE_BYTES - 60_000
    assert first.data.startswith(b"# Agent Memory\n\n---\n\n## Interaction Log\n\n### Human")
    assert all(len(item.data) <= FIRST_FILE_BYTES for item in archives)
    head, entries = text[: text.index("### ")], text[text.index("### ") :]
    kept = "".join(item.data.decode() for item in archives) + first.data.decode().removeprefix(head)
    assert kept == entries
    last = blocks(archives[-1].data.decode())[-1]
    stamp = last.at[:19].replace("T", "_").replace(":", "-")
    assert archives[-1].path == f"archive/history_{stamp}.md"
    assert {r["path"] for r in plan.renamed} == {item.path for item in archives}


def test_notes_that_are_too_long_are_not_cut():
    plan = of_folder([Found(path="MEMORY.md", data=b"x" * (FIRST_FILE_BYTES + 1))], "markdown")
    assert plan.problems == [
        "memory full: MEMORY.md has 1,048,577 bytes and may have 1,048,576: cut at least 1 bytes"
    ]


def test_a_folder_that_is_too_large_is_refused_with_the_figure():
    files = [Found(path=f"{n}.md", data=b"x" * 1_000_000) for n in range(17)]
    assert of_folder(files, "markdown").problems == [
        f"memory full: the folder has 17,000,000 bytes and may have {FOLDER_BYTES:,}: cut at least 222,784 bytes"
    ]
    many = of_folder([Found(path=f"{n}.md") for n in range(1001)], "markdown").problems
    assert many == ["a memory folder may have 1000 files; this one has 1001: remove or join some"]


def test_archives_count_against_no_limit_of_the_folder_but_come_in_parts():
    older = [Found(path=f"archive/history_{n}.md", data=b"x" * 1_000_000) for n in range(40)]
    assert of_folder(older, "swarms").problems == []
    more = [*older, *(Found(path=f"archive/more_{n}.md", data=b"x" * 1_000_000) for n in range(10))]
    assert of_folder(more, "swarms").problems == [
        f"50,000,000 bytes are too many for one import, which takes {AT_ONCE_BYTES:,}: bring them in parts"
    ]


def test_a_long_conversation_is_split_as_a_log_is_and_undated_parts_say_so():
    messages = [{"role": "user", "content": f"{n} {'w' * 3000}"} for n in range(800)]
    plan = of_conversation(conversation(messages), "talk.json")
    assert plan.problems == []
    assert plan.items[0].path == "archive/history_no-date.md"
    assert plan.items[-1].log
    assert plan.notes == ["800 of 800 entries have no time, and say so"]
    told = [b.text.split()[0] for item in plan.items for b in blocks(item.data.decode())]
    assert told == [str(n) for n in range(800)]
