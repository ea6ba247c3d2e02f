"""Memory from elsewhere comes in, and leaves again, to the byte; what cannot come is named, and then nothing comes."""

import json
import os
import shutil
import socket
from pathlib import Path

import pytest

from swarmd.core.interaction_log import blocks
from tests.cli.schema_check import faults
from tests.cli.test_real_store import document, here, swarmd

__all__ = ["here"]
DATA = Path(__file__).parents[1] / "data"
MEMORIES = DATA / "memories"
SCHEMA = json.loads((DATA / "schemas" / "memory_import.json").read_text())


def files(top):
    top = Path(top)
    return {str(p.relative_to(top)): p.read_bytes() for p in sorted(top.rglob("*")) if p.is_file()}


def take(source, *args, status=0, agent="studio"):
    return swarmd("memory", "import", str(source), "--agent", agent, *args, status=status)


@pytest.mark.parametrize("name", ["swarms", "claude", "markdown"])
def test_a_folder_comes_in_and_leaves_again_to_the_byte(here, name):
    done = document("memory", "import", str(MEMORIES / name), "--agent", "studio")
    assert faults(SCHEMA, done) == []
    assert done["format"] == name
    notes = {path: data for path, data in files(MEMORIES / name).items() if not path.endswith(".json")}
    swarmd("memory", "export", "studio", "out")
    assert files("out") == notes
    assert {row["note"] for row in document("memory", "history", "studio")["items"]} == {
        "taken over from elsewhere"
    }


def test_what_was_imported_lived_in_and_exported_can_be_taken_over_again(here):
    take(MEMORIES / "swarms")
    text = Path("agents.d/studio.toml").read_text()
    Path("agents.d/studio.toml").write_text(text + "[memory]\nlog = true\n")
    swarmd("run", "studio")
    swarmd("memory", "export", "studio", "out")
    found = blocks(Path("out/MEMORY.md").read_text())
    assert [b.role for b in found] == ["System", "Human", "bakery-agent", "user", "output"]
    assert found[-1].text == "hello from the session"
    grown = Path("out/MEMORY.md").read_bytes()
    assert grown.startswith((MEMORIES / "swarms" / "MEMORY.md").read_bytes())
    take("out", agent="polybreak")
    swarmd("memory", "export", "polybreak", "again")
    assert files("again") == files("out")


@pytest.mark.parametrize("name", ["swarms.json", "swarms.yaml", "blocks.json"])
def test_a_conversation_becomes_a_log_with_its_own_times(here, name):
    done = document("memory", "import", str(MEMORIES / "conversations" / name), "--agent", "studio")
    assert (done["format"], faults(SCHEMA, done)) == ("conversation", [])
    text = Path(".swarmd/memory/studio/MEMORY.md").read_text()
    assert text.startswith("## Interaction Log\n\n### ")
    assert "You are the harbour pilot's clerk." not in text
    times = [b.at for b in blocks(text)]
    assert all(time.startswith("2026-03-01") or time == "no date" for time in times)
    if name.startswith("swarms"):
        kept = Path(".swarmd/memory/studio/system-prompt.md").read_text()
        assert kept == "You are the harbour pilot's clerk."
        assert done["notes"] == [f"1 of {len(times)} entries have no time, and say so"]


def test_yaml_texts_stay_texts(here):
    take(MEMORIES / "conversations" / "swarms.yaml")
    text = Path(".swarmd/memory/studio/MEMORY.md").read_text()
    assert [(b.at, b.text) for b in blocks(text)] == [
        ("2026-03-01T10:00:00.250000", "no"),
        ("2026-03-01T10:00:09", "Berth 7: # free\nuntil noon."),
        ("no date", "1e3"),
    ]


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_session_that_was_exported_is_a_conversation(here, form):
    swarmd("run", "studio")
    Path(f"s.{form}").write_text(swarmd("session", "export", "1", "--format", form).stdout)
    take(f"s.{form}", agent="polybreak")
    found = blocks(Path(".swarmd/memory/polybreak/MEMORY.md").read_text())
    assert [(b.role, b.text) for b in found] == [
        ("user", "manual (session 1 of studio)"), ("output", "hello from the session"),
    ]  # fmt: skip


def test_lines_of_json_are_a_conversation_too(here):
    lines = [
        {"role": "user", "content": "hi"},
        {"type": "assistant", "message": {"role": "assistant", "content": "ho"}},
    ]
    Path("talk.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    take("talk.jsonl")
    assert [b.text for b in blocks(Path(".swarmd/memory/studio/MEMORY.md").read_text())] == ["hi", "ho"]


def test_what_is_there_is_said_before_anything_is_written(here):
    swarmd("memory", "write", "studio", "MEMORY.md", "mine\n")
    ran = take(MEMORIES / "swarms", status=3)
    assert (
        "studio has MEMORY.md already, with another text; --merge keeps both texts, --replace" in ran.stderr
    )
    assert Path(".swarmd/memory/studio/MEMORY.md").read_text() == "mine\n"
    assert not Path(".swarmd/memory/studio/archive").exists()
    ran = take(MEMORIES / "swarms", "--merge", "--dry-run")
    assert "nothing is written: 3 files of studio would be, from swarms" in ran.stderr
    assert Path(".swarmd/memory/studio/MEMORY.md").read_text() == "mine\n"
    take(MEMORIES / "swarms", "--merge")
    assert Path(".swarmd/memory/studio/MEMORY.md").read_bytes().startswith(b"mine\n")
    assert "Rye is short" in Path(".swarmd/memory/studio/MEMORY.md").read_text()
    take(MEMORIES / "swarms", "--replace")
    assert (
        files(".swarmd/memory/studio").items()
        >= {"MEMORY.md": (MEMORIES / "swarms" / "MEMORY.md").read_bytes()}.items()
    )
    assert take(MEMORIES / "swarms", "--merge", "--replace", status=2).stderr.startswith(
        "swarmd: only one of --merge"
    )


def test_names_are_mapped_and_each_mapping_is_told(here):
    deep = Path("notes/a/b/c/d")
    deep.mkdir(parents=True)
    (deep / "e.md").write_text("deep\n")
    done = document("memory", "import", "notes", "--agent", "studio")
    assert done["renamed"] == [
        {"file": "a/b/c/d/e.md", "path": "a/b/c/d-e.md", "why": "a path has up to 4 parts"}
    ]
    assert done["items"][0]["source"] == "a/b/c/d/e.md"
    assert "a/b/c/d-e.md" in take("notes", "--dry-run").stdout


def bad_folder():
    top = Path("bad")
    top.mkdir()
    (top / "good.md").write_text("good\n")
    (top / "link.md").symlink_to("/etc/passwd")
    (top / "folder").symlink_to("/etc")
    os.mkfifo(top / "pipe.md")
    (top / "binary.md").write_bytes(b"\x00\x01")
    (top / "latin.md").write_bytes(b"caf\xe9")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(top / "door"))
    (top / ".git").mkdir()
    (top / ".git" / "x.md").write_text("x")
    (top / "photo.png").write_bytes(b"\x89PNG")
    return top


def test_one_bad_file_stops_all_unless_it_is_skipped(here):
    bad_folder()
    ran = take("bad", status=2)
    assert ran.stderr.startswith(
        "swarmd: nothing is imported from bad: binary.md: it is no text: byte 1 is NUL; folder: it is a "
    )
    assert "--skip-bad takes the rest" in ran.stderr
    assert not Path(".swarmd/memory/studio").exists()
    done = document("memory", "import", "bad", "--agent", "studio", "--skip-bad")
    assert [row["path"] for row in done["items"]] == ["good.md"]
    assert {row["file"]: row["why"] for row in done["skipped"]} == {
        "binary.md": "it is no text: byte 1 is NUL", "latin.md": "it is not UTF-8: byte 4 is 0xe9",
        "link.md": "it is a symbolic link", "folder": "it is a symbolic link", "pipe.md": "it is a named pipe",
    }  # fmt: skip
    assert [row["file"] for row in done["left_out"]] == [".git", "door", "photo.png"]


def test_what_would_not_come_anyway_stops_nothing_whatever_it_is(here, tmp_path):
    top, kind = Path("notes"), "it is no .md, .markdown, .txt file"
    (top / "sub").mkdir(parents=True)
    (top / "a.md").write_text("a\n")
    (top / "pic.png").symlink_to("a.md")
    (top / "LICENSE").symlink_to("a.md")
    (top / "sub" / "gone.png").symlink_to("nowhere")
    (top / "loop.png").symlink_to("loop.png")
    (top / ".git").symlink_to(tmp_path)
    os.mkfifo(top / "pipe")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(top / "door"))
    with (top / "film.mp4").open("wb") as film:
        film.truncate(200 * 1024 * 1024)
    done = document("memory", "import", "notes", "--agent", "studio")
    assert [row["path"] for row in done["items"]] == ["a.md"]
    whys = {row["file"]: row["why"] for row in done["left_out"]}
    others = ("pic.png", "LICENSE", "sub/gone.png", "loop.png", "pipe", "door", "film.mp4")
    assert whys == {".git": "its name begins with a dot", **dict.fromkeys(others, kind)}
    assert done["skipped"] == []
    told = take("notes", "--all-files", "--dry-run", status=2).stderr
    assert "LICENSE: it is a symbolic link" in told


@pytest.mark.parametrize(
    "name", ["x.md", "MEMORY.md", "skills/a/SKILL.md", "archive", "topics", "v1.2", "gone"]
)
def test_a_link_in_the_place_of_notes_or_of_a_folder_is_refused_and_never_followed(here, tmp_path, name):
    top, elsewhere = Path("notes"), tmp_path / "elsewhere"
    (top / name).parent.mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / "secret.md").write_text("secret\n")
    (top / "a.md").write_text("a\n")
    target = elsewhere if "." not in name or name == "v1.2" else elsewhere / "secret.md"
    (top / name).symlink_to(target if name != "gone" else "nowhere")
    assert f"{name}: it is a symbolic link" in take("notes", status=2).stderr
    take("notes", "--skip-bad")
    assert files(".swarmd/memory/studio") == {"a.md": b"a\n"}


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nmessages: [*b, *b]\n"


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("a.yaml", BOMB, "a.yaml: it has an alias (*a); write it without, or as JSON"),
        ("a.yaml", "[" * 500, "a.yaml: it has more than 100 levels"),
        ("a.yaml", "a: [", "a.yaml: it is no YAML: "),
        ("a.yaml", "- !!python/object/apply:os.system ['true']\n", "a.yaml: it is no YAML: "),
        ("a.yaml", "a: 1\n---\nb: 2\n", "a.yaml: it is no YAML: "),
        ("a.yaml", "a: \x00", "a.yaml: it is no YAML: "),
        ("a.json", "{", "a.json: it is no JSON: "),
        ("a.json", "[" * 100_000, "a.json: it has more than 100 levels"),
        ("a.json", '[{"role": "u", "content": ' + "[" * 200 + "]" * 200 + "}]", "a.json: it has more than 100 levels"),
        ("a.json", '{"a": 1}', "a.json: it holds no list of messages (an object with a was found"),
        ("a.json", "[1]", "a.json: entry 1 is no message: a number was found"),
        ("a.jsonl", '{"role": "u"}\n{', "a.jsonl: line 2: it is no JSON: "),
        ("a.json", b"\xff\xfe", "a.json: it is not UTF-8: byte 1 is 0xff"),
    ],
)  # fmt: skip
def test_a_file_that_holds_no_conversation_is_told_in_a_sentence(here, name, data, sentence):
    Path(name).write_bytes(data if isinstance(data, bytes) else data.encode())
    ran = take(name, status=2)
    assert ran.stderr.startswith(f"swarmd: {sentence}")
    assert "Traceback" not in ran.stderr
    assert not Path(".swarmd/memory/studio").exists()


def test_what_is_not_there_or_holds_nothing(here):
    assert "there is no nowhere" in take("nowhere", status=4).stderr
    Path("empty").mkdir()
    assert "nothing in it looks like a memory" in take("empty", status=2).stderr
    Path("none.json").write_text("[]")
    assert "there is nothing to import in none.json" in take("none.json", status=4).stderr
    assert "is a folder; name the file" in take("empty", "--format", "conversation", status=2).stderr
    os.mkfifo("pipe.json")
    assert take("pipe.json", status=2).stderr.startswith("swarmd: pipe.json: it is a named pipe")
    assert "nobody" in take(MEMORIES / "claude", agent="nobody", status=4).stderr


def test_that_there_is_no_such_agent_is_told_before_all_that_is_wrong_with_the_files(here):
    bad_folder()
    Path("latin.toml").write_bytes(b"\xff")
    Path("full").mkdir()
    Path("full/x").touch()
    for args, stdin in (
        (("memory", "import", "bad", "--agent", "nobody"), b""),
        (("memory", "import", "nowhere", "--agent", "nobody"), b""),
        (("memory", "export", "nobody", "full"), b""),
        (("memory", "compact", "nobody", "--summary-file", "nowhere"), b""),
        (("memory", "write", "nobody", "a.md", "-"), b"\xff"),
        (("memory", "append", "nobody", "a.md", "-"), b"\xff"),
        (("memory", "write", "@nobody", "a.md", "-"), b"\xff"),
        (("ctx", "set", "nobody", "key", "-"), b"\xff"),
        (("run", "nobody", "--file", "latin.toml"), b""),
        (("prompt", "nobody", "--file", "nowhere.toml"), b""),
    ):
        told = swarmd(*args, stdin=stdin, status=4).stderr
        assert "agent is named 'nobody'" in told or "agent has a shared folder 'nobody'" in told, args


def test_the_files_are_told_of_where_the_agent_is_there(here):
    assert (
        "standard input is not UTF-8"
        in swarmd("memory", "write", "studio", "a", "-", stdin=b"\xff", status=2).stderr
    )
    assert "nowhere: there is no such file" in swarmd("run", "studio", "--file", "nowhere", status=4).stderr


def some_state(top, *names, database=True):
    for name in names:
        folder = Path(top, "memory", name)
        folder.mkdir(parents=True)
        (folder / "MEMORY.md").write_text(f"notes of {name}\n")
    if database:
        Path(top, "swarmd.db").touch()
    return top


@pytest.mark.parametrize("format", [(), ("--format", "markdown"), ("--all-files",)])
def test_the_state_of_a_swarm_is_no_memory_and_the_folder_that_is_meant_is_named(here, format):
    some_state("old", "baker", "@team", "baker@alice")
    ran = take("old", *format, status=2).stderr
    assert ran.startswith(
        "swarmd: old is the state of a swarm, not one memory: name the folder of one agent (old/memory/@"
    )
    assert "old/memory/baker, old/memory/baker@alice)" in ran
    assert "holds the memories of all agents of a swarm" in take("old/memory", *format, status=2).stderr
    take("old/memory/baker")
    assert files(".swarmd/memory/studio") == {"MEMORY.md": b"notes of baker\n"}


def test_a_state_without_any_memory_is_told_too(here):
    Path("old").mkdir()
    some_state("old")
    assert "name the folder of one agent (old/memory/AGENT)" in take("old", status=2).stderr


def test_a_folder_of_several_memories_is_taken_as_notes_only_where_that_is_said(here):
    some_state("old", *(f"baker{n}" for n in range(7)), database=False)
    told = take("old/memory", status=2).stderr
    assert (
        "old/memory is no memory itself, and holds several: name the folder of one agent (old/memory/baker0, "
        in told
    )
    assert "old/memory/baker4 and 2 more); --format markdown takes all as notes" in told
    take("old/memory", "--format", "markdown")
    assert "baker6/MEMORY.md" in files(".swarmd/memory/studio")
    Path("notes/sub").mkdir(parents=True)
    Path("notes/index.md").write_text("x\n")
    Path("notes/sub/MEMORY.md").write_text("x\n")
    take("notes", agent="polybreak")


@pytest.mark.parametrize(
    ("source", "format", "sentence"),
    [
        ("c.json", "swarms", "--format swarms is for an agent's folder of the Swarms framework, and c.json is a file: "),
        ("c.json", "swarms", "name the folder, or leave --format out to have it read as a conversation"),
        ("c.json", "claude", "--format claude is for a memory folder of Claude Code, and c.json is a file: name "),
        ("c.bin", "claude", "name the folder, or --format conversation reads a conversation"),
        ("c.json", "markdown", "is for a folder of .md, .markdown, .txt files or one of them, and c.json is neither: "),
        ("c.json", "markdown", "--all-files takes it as it is, or leave --format out to have it read as a conversation"),
        ("some", "conversation", "is for one file (.json, .jsonl, .yaml, .yml), and some is a folder; name the file of "),
    ],
)  # fmt: skip
def test_what_does_not_fit_its_format_is_told_what_the_format_is(here, source, format, sentence):
    for name in ("c.json", "c.bin"):
        Path(name).write_text("[]")
    Path("some").mkdir()
    ran = take(source, "--format", format, status=2)
    assert sentence in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_single_note_may_have_the_format_of_a_folder(here):
    take(MEMORIES / "swarms" / "MEMORY.md", "--format", "swarms")
    Path("c.json").write_text("[]")
    take("c.json", "--format", "markdown", "--all-files")
    assert sorted(files(".swarmd/memory/studio")) == ["MEMORY.md", "c.json"]


WRITES = {
    "write": ("memory", "write", "studio", "a.md", "x"),
    "append": ("memory", "append", "studio", "MEMORY.md", "x"),
    "restore": ("memory", "restore", "studio", "1"),
    "import": ("memory", "import", "new", "--agent", "studio"),
    "import, tried": ("memory", "import", "new", "--agent", "studio", "--dry-run"),
    "edit": ("memory", "edit", "studio"),
    "subject": ("memory", "write", "studio@alice", "a.md", "x"),
}


@pytest.mark.parametrize("args", WRITES.values(), ids=WRITES.keys())
@pytest.mark.parametrize("persistent", [True, False])
def test_a_write_to_the_memory_of_an_agent_that_has_none_is_warned_of(here, args, persistent, monkeypatch):
    monkeypatch.setenv("EDITOR", "sh -c 'echo more >> $0'")
    Path("new").mkdir()
    Path("new/b.md").write_text("b\n")
    swarmd("memory", "write", "studio", "MEMORY.md", "one\n")
    swarmd("memory", "write", "studio", "MEMORY.md", "two\n")
    if not persistent:
        with Path("agents.d/studio.toml").open("a") as file:
            file.write("[memory]\npersistent = false\n")
    swarmd("reload")
    ran = swarmd(*args)
    warning = (
        "swarmd: warning: nothing of it reaches studio, whose file says memory.persistent = false: take that line out of "
        "studio.toml, or use a key (swarmd ctx set studio KEY VALUE)\n"
    )
    assert (warning in ran.stderr) == (not persistent)
    assert "warning" not in swarmd("memory", "delete", "studio", "MEMORY.md").stderr


def test_a_single_note_is_taken_under_its_name(here):
    Path("plan.md").write_text("plan\n")
    take("plan.md")
    assert files(".swarmd/memory/studio")["plan.md"] == b"plan\n"


def test_a_folder_without_end_is_refused(here):
    top = Path("wide")
    top.mkdir()
    for n in range(1001):
        (top / f"{n}.md").touch()
    assert "may have 1000 files; this one has 1001" in take("wide", status=2).stderr


def test_files_of_other_names_come_where_they_are_asked_for(here):
    shutil.copytree(MEMORIES / "swarms", "agent")
    take("agent", "--all-files")
    assert "config.json" in files(".swarmd/memory/studio")


def test_an_export_never_writes_into_a_folder_that_holds_something(here):
    swarmd("memory", "write", "studio", "MEMORY.md", "notes\n")
    Path("full").mkdir()
    Path("full/x").touch()
    for place in ("full", "full/x"):
        ran = swarmd("memory", "export", "studio", place, status=3)
        assert "is no empty folder" in ran.stderr
    Path("empty").mkdir()
    swarmd("memory", "export", "studio", "empty")
    swarmd("memory", "export", "studio", "new/below")
    assert files("empty") == files("new/below") == {"MEMORY.md": b"notes\n"}
    assert sorted(p.name for p in Path().iterdir() if p.name.startswith(".")) == [".swarmd"]
    assert "is empty" in swarmd("memory", "export", "polybreak", "other", status=4).stderr
    assert not Path("other").exists()


def test_an_export_without_a_folder_shows_what_would_be_written(here):
    swarmd("memory", "write", "studio", "MEMORY.md", "notes\n")
    assert "MEMORY.md" in swarmd("memory", "export", "studio").stdout
    assert document("memory", "export", "studio")["items"][0]["text"] == "notes\n"
    written = document("memory", "export", "studio", "out")
    assert (written["folder"], "text" in written["items"][0]) == ("out", False)


def test_a_session_may_do_neither(here, monkeypatch):
    monkeypatch.setenv("SWARMD_SESSION", "7")
    assert "is an operator's command" in take(MEMORIES / "claude", status=3).stderr
    assert "is an operator's command" in swarmd("memory", "export", "studio", "out", status=3).stderr
    assert not Path("out").exists()


def test_the_memory_of_an_agent_that_has_none_is_not_summarized(here):
    swarmd("memory", "write", "studio", "MEMORY.md", "a note\n" * 20)
    with Path("agents.d/studio.toml").open("a") as file:
        file.write("[memory]\npersistent = false\n")
    swarmd("reload")
    ran = swarmd("memory", "compact", "studio", status=2)
    assert "the memory of studio is not summarized: nothing of it reaches studio" in ran.stderr
