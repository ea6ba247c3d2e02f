"""Memory from elsewhere enters in one transaction, in the operator's name, and never over what is there unasked."""

import base64
import json

import pytest

from swarmd.core.interaction_log import HEADING, Block, blocks, written
from swarmd.core.memory import FIRST_FILE_BYTES
from swarmd.errors import BadInput, NotFound, Refused

TOLD = written(Block(role="Human", at="2026-04-20T14:31:02", text="Which flour is short?"))
MORE = written(Block(role="Baker", at="2026-04-20T14:31:09", text="Rye."))


def file(path, data, **more):
    data = data.encode() if isinstance(data, str) else data
    return {"path": path, "base64": base64.b64encode(data).decode(), **more}


def take(swarm, *files, **args):
    return swarm.call("memory_import", agent="studio", files=list(files), **args)


def test_files_come_to_the_byte_in_one_act_of_the_operator(swarm):
    data = "\ufeffnotes\r\nwithout an end".encode()
    done = take(swarm, file("MEMORY.md", data), file("archive/history_2026-04-12_09-00-00.md", "old\n"))
    assert [(i["path"], i["what"], i["rev"]) for i in done["items"]] == [
        ("MEMORY.md", "new", 1), ("archive/history_2026-04-12_09-00-00.md", "new", 1),
    ]  # fmt: skip
    assert swarm.file("studio").read_bytes() == data
    assert swarm.text("studio", "archive/history_2026-04-12_09-00-00.md") == "old\n"
    for row in swarm.call("memory_history", agent="studio")["items"]:
        assert (row["by"], row["note"]) == ("operator:ada", "taken over from elsewhere")
    (act,) = swarm.rows("SELECT * FROM audit WHERE act = 'memory_import'")
    assert (act["by"], act["target"]) == ("operator:ada", "studio")
    assert len(json.loads(act["detail"])["changes"]) == 2
    assert swarm.call("verify")["ok"]


def test_a_file_may_be_given_as_text(swarm):
    take(swarm, {"path": "a.md", "text": "größe\n"})
    assert swarm.text("studio", "a.md") == "größe\n"


def test_the_same_again_changes_nothing(swarm):
    take(swarm, file("a.md", "x\n"))
    before = swarm.rows("SELECT * FROM revisions")
    assert [i["what"] for i in take(swarm, file("a.md", "x\n"))["items"]] == ["same"]
    assert swarm.rows("SELECT * FROM revisions") == before


def test_what_is_there_is_not_touched_unasked_and_nothing_else_is_written(swarm):
    swarm.call("memory_write", agent="studio", file="a.md", text="mine\n")
    before = swarm.dump()
    with pytest.raises(Refused) as caught:
        take(swarm, file("new.md", "x"), file("a.md", "theirs\n"))
    assert "studio has a.md already, with another text; --merge keeps both" in str(caught.value)
    assert swarm.dump() == before


def test_replacing_keeps_the_old_text_in_history(swarm):
    swarm.call("memory_write", agent="studio", file="a.md", text="mine\n")
    take(swarm, file("a.md", "theirs\n"), existing="replace")
    assert swarm.text("studio", "a.md") == "theirs\n"
    assert swarm.call("memory_show", agent="studio", file="a.md", rev=1)["text"] == "mine\n"


def test_merging_keeps_both_texts_and_once_is_enough(swarm):
    swarm.call("memory_write", agent="studio", file="a.md", text="# Title\n\nmine\n")
    assert take(swarm, file("a.md", "# Title\n\ntheirs\n"), existing="merge")["items"][0]["what"] == "merged"
    assert swarm.text("studio", "a.md") == "# Title\n\nmine\n\ntheirs\n"
    assert take(swarm, file("a.md", "# Title\n\ntheirs\n"), existing="merge")["items"][0]["what"] == "same"
    assert swarm.call("memory_conflicts", agent="studio")["items"] == []


def test_a_log_is_merged_into_the_log_entry_by_entry(swarm):
    old = f"# Mine\n\n{HEADING}\n\n{TOLD}## Plans\n\nBuy flour.\n"
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text=old)
    coming = file("MEMORY.md", f"# Theirs\n\nnote\n\n{HEADING}\n\n{TOLD}{MORE}")
    take(swarm, coming, existing="merge")
    text = swarm.text("studio")
    assert text == f"# Mine\n\n# Theirs\n\nnote\n\n{HEADING}\n\n{TOLD}{MORE}## Plans\n\nBuy flour.\n"
    assert [i["what"] for i in take(swarm, coming, existing="merge")["items"]] == ["same"]


def test_older_entries_come_before_newer_ones(swarm):
    def entry(at, text):
        return f"### user \N{EM DASH} {at}\n\n{text}\n\n---\n\n"

    new = entry("2026-11-29T10:00:00+00:00", "yesterday") + entry("2026-11-30T10:00:00+00:00", "today")
    old = (
        entry("2026-02-01", "in winter")
        + entry("2026-11-29 12:00:00", "between")
        + entry("2027-01-01", "later")
    )
    swarm.call(
        "memory_write", agent="studio", file="MEMORY.md", text=f"# Notes\n\n{HEADING}\n\n{new}## Plans\n"
    )
    coming = file("MEMORY.md", f"{HEADING}\n\n{old}{entry('no date', 'some time')}", log=True)
    take(swarm, coming, existing="merge")
    text = swarm.text("studio")
    assert [block.text for block in blocks(text)] == [
        "in winter", "yesterday", "between", "today", "later", "some time",
    ]  # fmt: skip
    assert text.startswith(f"# Notes\n\n{HEADING}\n\n### user")
    assert text.endswith("---\n\n## Plans\n")
    assert [i["what"] for i in take(swarm, coming, existing="merge")["items"]] == ["same"]


def test_a_conversation_goes_into_the_log_of_notes_that_had_none(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="notes\n")
    take(swarm, file("MEMORY.md", f"{HEADING}\n\n{TOLD}", log=True), existing="merge")
    assert swarm.text("studio").startswith(f"notes\n\n{HEADING}\n\n### Human")
    assert [b.at for b in blocks(swarm.text("studio"))] == ["2026-04-20T14:31:02"]


def test_text_that_is_no_entry_comes_once_too(swarm):
    lines = f"{HEADING}\n\nBegun in spring.\n\n{TOLD}By the way, it was loud.\n\n{MORE}"
    swarm.call(
        "memory_write", agent="studio", file="MEMORY.md", text=f"{HEADING}\n\n{TOLD}## Plans\n\nBuy flour.\n"
    )
    take(swarm, file("MEMORY.md", f"{lines}## Plans\n\nBuy flour.\n\nBuy rye.\n"), existing="merge")
    text = swarm.text("studio")
    assert text.count("Begun in spring") == text.count("it was loud") == text.count("Buy flour") == 1
    assert text.endswith("## Plans\n\nBuy flour.\n\nBuy rye.\n")
    coming = file("MEMORY.md", f"\n{lines}## Plans\n\nBuy flour.\n\nBuy rye.\n")
    assert [i["what"] for i in take(swarm, coming, existing="merge")["items"]] == ["same"]


def test_a_log_of_plain_lines_in_another_order_comes_once_too(swarm):
    take(swarm, file("MEMORY.md", f"{HEADING}\n\n- two\n"))
    coming = file("MEMORY.md", f"{HEADING}\r\n\r\n- one\r\n- two\r\n- three\r\n")
    take(swarm, coming, existing="merge")
    assert swarm.text("studio") == f"{HEADING}\n\n- two\n\n- one\n- three\n"
    assert [i["what"] for i in take(swarm, coming, existing="merge")["items"]] == ["same"]


NOTES = "# Mine\n\n- größe\n\n"
BULLETS = f"{HEADING}\n\n- 2026-04-20 hello\n- 2026-04-21 again\n"
OTHERWISE = {
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "BOM": lambda text: f"\ufeff{text}",
    "no last newline": lambda text: text.rstrip("\n"),
    "all of it": lambda text: "\ufeff" + text.rstrip("\n").replace("\n", "\r\n"),
}  # fmt: skip


@pytest.mark.parametrize("path", ["MEMORY.md", "a.md", "archive/history_2026-04-12_09-00-00.md"])
@pytest.mark.parametrize("text", [
    f"{HEADING}\n\n{TOLD}", f"{NOTES}{HEADING}\n\n{TOLD}{MORE}## Plans\n\nBuy flour.\n", BULLETS, NOTES,
])  # fmt: skip
@pytest.mark.parametrize("otherwise", OTHERWISE)
@pytest.mark.parametrize("other_first", [True, False])
def test_what_is_there_comes_once_however_its_lines_end(swarm, path, text, otherwise, other_first):
    one, other = text.encode(), OTHERWISE[otherwise](text).encode()
    first, second = (other, one) if other_first else (one, other)
    take(swarm, file(path, first))
    for data in (second, first, second):
        assert [i["what"] for i in take(swarm, file(path, data), existing="merge")["items"]] == ["same"]
    assert swarm.file("studio", path).read_bytes() == first, "to the byte"


@pytest.mark.parametrize("path", ["MEMORY.md", "a.md"])
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("crlf", [True, False])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_what_is_added_has_the_line_ends_of_the_file(swarm, path, log, crlf, bom):
    def ends(text, crlf):
        return text.replace("\n", "\r\n") if crlf else text

    old = f"{bom}{NOTES}{HEADING}\n\n{TOLD}" if log else f"{bom}{NOTES}- mine"
    new = f"{NOTES}- theirs\n\n{HEADING}\n\n{TOLD}{MORE}" if log else f"{NOTES}- theirs\n- more\n"
    take(swarm, file(path, ends(old, crlf)))
    for _ in range(3):
        take(swarm, file(path, "\ufeff" + ends(new, not crlf)), existing="merge")
    data = swarm.file("studio", path).read_bytes()
    assert data.count(b"\r\n") == (data.count(b"\n") if crlf else 0)
    assert (data.count("\ufeff".encode()), data.startswith(bom.encode())) == (len(bom), True)
    for line in (
        "# Mine",
        "- gr\u00f6\u00dfe",
        "- theirs",
        *(("Which flour", "Rye.") if log else ("- mine", "- more")),
    ):
        assert data.decode().count(line) == 1, line


def test_lines_that_stand_keep_their_own_ends_and_a_text_without_any_takes_those_that_come(swarm):
    take(swarm, file("a.md", b"one\r\ntwo\nthree\n"))
    take(swarm, file("a.md", b"zero\r\none\r\ntwo\r\nthree\r\nfour\r\n"), existing="merge")
    assert swarm.file("studio", "a.md").read_bytes() == b"zero\none\r\ntwo\nthree\nfour\n"
    take(swarm, file("b.md", b"one"))
    take(swarm, file("b.md", b"two\r\nthree\r\n"), existing="merge")
    assert swarm.file("studio", "b.md").read_bytes() == b"one\r\ntwo\r\nthree\r\n"


def test_a_text_that_is_no_utf8_is_not_merged_and_that_is_said(swarm):
    swarm.call("memory_write", agent="studio", file="a.md", text="x\n")
    swarm.file("studio", "a.md").write_bytes(b"caf\xe9\n")
    before = swarm.file("studio", "a.md").read_bytes()
    with pytest.raises(Refused, match=r"a\.md: the text that is there is not UTF-8.*--replace"):
        take(swarm, file("a.md", "new\n"), existing="merge")
    assert swarm.file("studio", "a.md").read_bytes() == before


def test_a_dry_run_says_the_same_and_writes_nothing(swarm):
    swarm.call("memory_write", agent="studio", file="a.md", text="mine\n")
    before = swarm.dump()
    done = take(swarm, file("a.md", "theirs\n"), file("b.md", "x"), existing="merge", mode="dry_run")
    assert ([i["what"] for i in done["items"]], done["saved"]) == (["merged", "new"], False)
    assert done["items"][0]["rev"] is None
    assert done["items"][0]["bytes"] == len("mine\ntheirs\n")
    with pytest.raises(Refused):
        take(swarm, file("a.md", "theirs\n"), mode="dry_run")
    with pytest.raises(Refused):
        take(swarm, file("../x", "x"), mode="dry_run")
    assert swarm.dump() == before


@pytest.mark.parametrize(
    ("path", "data"),
    [("../x.md", "x"), ("a/b/c/d/e.md", "x"), (".hidden", "x"), ("MEMORY.md", "x" * (FIRST_FILE_BYTES + 1))],
)
def test_one_file_that_may_not_stand_there_refuses_all(swarm, path, data):
    with pytest.raises(Refused):
        take(swarm, file("good.md", "x"), file(path, data))
    assert swarm.call("memory_list", agent="studio")["items"] == []
    assert swarm.rows("SELECT * FROM audit WHERE act = 'memory_import'") == []


def test_a_merge_that_would_be_too_long_refuses_all(swarm):
    swarm.call(
        "memory_write",
        agent="studio",
        file="MEMORY.md",
        text=f"{HEADING}\n\n{'x' * (FIRST_FILE_BYTES - 60)}\n",
    )
    before = swarm.dump()
    with pytest.raises(Refused, match=r"memory full: MEMORY\.md has"):
        take(swarm, file("b.md", "x"), file("MEMORY.md", f"{HEADING}\n\n{TOLD}", log=True), existing="merge")
    assert swarm.dump() == before


@pytest.mark.parametrize(
    "files",
    [None, "x", [1], [{}], [{"path": "a.md"}], [{"path": "a.md", "text": "\ud800"}], [{"path": "a.md", "base64": "?"}], [{"path": 1, "base64": ""}],
     [{"path": "a.md", "base64": ""}] * 2, [{"path": f"{n}.md", "base64": ""} for n in range(10_001)]],
)  # fmt: skip
def test_what_is_no_list_of_files_is_told(swarm, files):
    with pytest.raises(BadInput):
        swarm.call("memory_import", agent="studio", files=files)
    with pytest.raises(BadInput):
        take(swarm, existing="somehow")


def test_only_operators_import_and_export_and_only_into_agents_that_are_there(swarm):
    with pytest.raises(Refused):
        swarm.call("memory_import", as_="studio", agent="studio", files=[])
    with pytest.raises(Refused):
        swarm.call("memory_export", as_="studio", agent="studio")
    with pytest.raises(NotFound):
        swarm.call("memory_import", agent="nobody", files=[file("a.md", "x")])
    swarm.remove("garage")
    with pytest.raises(NotFound):
        swarm.call("memory_import", agent="garage", files=[file("a.md", "x")])


async def test_a_session_can_do_neither(swarm):
    async def script(part):
        assert "for operators only" in await part.refused("memory_import", agent="studio", files=[])
        assert "for operators" in await part.refused("memory_export", agent="studio")

    await swarm.run("studio", script)


def test_a_persons_edit_that_nobody_has_taken_in_yet_counts_as_there(swarm):
    swarm.call("memory_write", agent="studio", file="a.md", text="one\n")
    swarm.file("studio", "a.md").write_text("by hand\n")
    with pytest.raises(Refused):
        take(swarm, file("a.md", "one\n"))
    take(swarm, file("a.md", "two\n"), existing="merge")
    assert swarm.text("studio", "a.md") == "by hand\ntwo\n"


def test_an_export_has_every_file_to_the_byte(swarm):
    swarm.call("memory_write", agent="studio", file="a.md", text="x\r\n")
    swarm.file("studio", "raw.bin").write_bytes(b"\xff\x00")
    swarm.call("memory_write", agent="studio", file="archive/history_2026-01-01_00-00-00.md", text="old\n")
    swarm.store.folders.settle("studio")
    rows = {r["path"]: r for r in swarm.call("memory_export", agent="studio")["items"]}
    assert rows["a.md"]["text"] == "x\r\n"
    assert rows["archive/history_2026-01-01_00-00-00.md"]["text"] == "old\n"
    assert (rows["raw.bin"]["text"], base64.b64decode(rows["raw.bin"]["base64"])) == (None, b"\xff\x00")


@pytest.mark.slow
def test_a_full_folder_comes_in_one_transaction(swarm):
    files = [file(f"notes/{n}.md", f"note {n}\n" * 100) for n in range(999)]
    take(swarm, file("MEMORY.md", "index\n"), *files)
    assert len(swarm.call("memory_list", agent="studio")["items"]) == 1000
    assert len({row["at"] for row in swarm.rows("SELECT at FROM audit WHERE act = 'memory_import'")}) == 1
    with pytest.raises(Refused, match="may have 1000 files"):
        take(swarm, file("one-more.md", "x"))
