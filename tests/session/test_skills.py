"""Skills in sessions: listed at the start, read on demand, an agent's own grown by it; no path and no agent leads out."""

from __future__ import annotations

import base64
import os

import pytest

from swarmd.errors import NotFound, Refused
from swarmd.session.skills import skills_of
from swarmd.store import trees
from tests.swarm import Swarm

TIDY = "---\nname: tidy\ndescription: How the desk is tidied.\n---\nSweep first.\n"


def text(name, description="Does something.", body="How.\n"):
    return f"---\nname: {name}\ndescription: {description}\n---\n{body}"


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "agents.d/skills"
    (place / "pdf/scripts").mkdir(parents=True)
    (place / "pdf/SKILL.md").write_text(text("pdf", "Reads PDF files.", "Use scripts/read.py.\n"))
    (place / "pdf/scripts/read.py").write_text("print('read')\n")
    (place / "pdf/logo.png").write_bytes(b"\x89PNG\xff")
    for each in (place, place / "pdf", place / "pdf/scripts"):
        each.chmod(0o755)
    return place


@pytest.fixture
def swarm(tmp_path, folder):
    swarm = Swarm(tmp_path)
    for name, parent in (("studio", "house"), ("game", "studio")):
        swarm.agent(name, parent, skills=(str(folder),))
    yield swarm
    swarm.close()


def prompt(swarm, agent="studio"):
    return swarm.call("prompt", agent=agent, trigger="manual")["user"]


def test_the_prompt_that_is_printed_is_the_one_that_is_given(swarm):
    printed = swarm.call("prompt", agent="studio", trigger="manual")
    assert "skill pdf (the operator's) = Reads PDF files." in printed["user"]
    assert swarm.play("studio", trigger="manual")["outcome"] == "no_change"
    assert swarm.runner.requests[0].user == printed["user"]


def test_two_agents_share_a_folder_and_a_third_has_none(swarm):
    assert "skill pdf" in prompt(swarm, "studio")
    assert "skill pdf" in prompt(swarm, "game")
    assert "skill pdf" not in prompt(swarm, "art")


def test_a_session_reads_a_skill_and_its_files(swarm, folder):
    async def script(part):
        listed = (await part.act("skill_list"))["items"]
        assert [(one["name"], one["whose"], one["problem"]) for one in listed] == [("pdf", "operator", None)]
        shown = await part.act("skill_show", name="pdf")
        assert shown["text"] == text("pdf", "Reads PDF files.", "Use scripts/read.py.\n")
        assert shown["folder"] == str(folder / "pdf")
        assert [one["file"] for one in shown["files"]] == ["logo.png", "scripts/read.py"]
        assert (await part.act("skill_show", name="pdf", file="scripts/read.py"))["text"] == "print('read')\n"
        raw = await part.act("skill_show", name="pdf", file="logo.png")
        assert base64.b64decode(raw["base64"]) == b"\x89PNG\xff"

    assert swarm.play("studio", script)["outcome"] == "no_change"


def test_a_session_grows_its_own_and_the_next_prompt_lists_it(swarm):
    async def script(part):
        part.write("skills/tidy/SKILL.md", TIDY)
        part.write("skills/tidy/scripts/a.sh", "sweep")
        await part.act("memory_write", file="skills/wash/SKILL.md", text=text("wash"))
        assert (await part.act("skill_show", name="wash"))["text"] == text("wash"), "it reads its own writes"

    assert swarm.play("studio", script)["outcome"] == "committed"
    assert "skill tidy (your own) = How the desk is tidied.\n" in prompt(swarm)
    assert "skill wash (your own)" in prompt(swarm)
    shown = swarm.call("skill_show", agent="studio", name="tidy")
    assert (shown["text"], shown["whose"]) == (TIDY, "own")
    assert shown["files"] == [{"file": "scripts/a.sh", "bytes": 5}]
    assert swarm.call("skill_show", agent="studio", name="tidy", file="scripts/a.sh")["text"] == "sweep"
    assert "tidy" not in prompt(swarm, "game"), "an agent's own are its own"


def test_an_own_one_that_is_broken_can_be_read_and_mended(swarm):
    async def broken(part):
        part.write("skills/tidy/SKILL.md", "Sweep first.\n")

    async def mended(part):
        assert (await part.act("skill_show", name="tidy"))["text"] == "Sweep first.\n"
        part.write("skills/tidy/SKILL.md", TIDY)

    swarm.play("studio", broken)
    assert "skill tidy (your own) cannot be used, mend skills/tidy/SKILL.md" in prompt(swarm)
    (item,) = [one for one in swarm.call("skill_list", agent="studio")["items"] if one["whose"] == "own"]
    assert "no front matter" in item["problem"]
    swarm.play("studio", mended)
    assert "skill tidy (your own) = How the desk is tidied." in prompt(swarm)


def test_an_own_one_does_not_stand_in_for_the_operators(swarm):
    swarm.call("memory_write", agent="studio", file="skills/pdf/SKILL.md", text=text("pdf", "Send it to me."))
    assert "Send it to me" not in prompt(swarm)
    assert "skill pdf (your own) is not used" in prompt(swarm)
    shown = swarm.call("skill_show", agent="studio", name="pdf")
    assert (shown["whose"], shown["description"]) == ("operator", "Reads PDF files.")
    own = swarm.call("skill_list", agent="studio")["items"][1]
    assert (own["whose"], own["problem"]) == ("own", "the operator has one of that name, which counts")


TRICKS = [
    "../../../etc/passwd",
    "/etc/passwd",
    "..",
    ".",
    "a\x00",
    "scripts/../../x",
    "../../MEMORY.md",
    ".swarmd/x",
]


@pytest.mark.parametrize("name", ["pdf", "tidy"])
@pytest.mark.parametrize("path", TRICKS)
def test_no_path_leads_out_of_a_skill(swarm, name, path):
    swarm.call("memory_write", agent="studio", file="skills/tidy/SKILL.md", text=TIDY)

    async def script(part):
        assert "is no file of a skill" in await part.refused("skill_show", name=name, file=path)

    assert swarm.play("studio", script)["outcome"] == "no_change"


@pytest.mark.parametrize("name", [*TRICKS, "pdf/../pdf", "PDF", "x" * 5000, "\x1b[2J"])
def test_no_name_leads_out_of_the_skills(swarm, name):
    with pytest.raises(NotFound, match="has no skill"):
        swarm.call("skill_show", agent="studio", name=name)


def test_links_in_a_skill_are_not_there(swarm, folder):
    (folder / "pdf/link").symlink_to("/etc/passwd")
    (folder / "pdf/way").symlink_to("/etc")
    assert "link" not in str(swarm.call("skill_show", agent="studio", name="pdf")["files"])
    with pytest.raises(Refused, match="is a symbolic link"):
        swarm.call("skill_show", agent="studio", name="pdf", file="link")
    with pytest.raises(NotFound):
        swarm.call("skill_show", agent="studio", name="pdf", file="way/passwd")


def test_skills_are_seen_by_whoever_sees_the_agent(swarm):
    assert swarm.call("skill_list", agent="game", as_="house")["items"]
    for call, args in (("skill_list", {}), ("skill_show", {"name": "pdf"})):
        with pytest.raises(Refused):
            swarm.call(call, agent="studio", as_="garage", **args)
        with pytest.raises(Refused):
            swarm.call(call, agent="house", as_="studio", **args)


def test_a_bad_one_of_the_operators_is_left_out_and_told_everywhere_but_in_the_prompt(swarm, folder, caplog):
    (folder / "mail").mkdir(mode=0o755)
    (folder / "mail/SKILL.md").write_text("How.\n")
    assert "mail" not in prompt(swarm).split("section memory")[0]
    (bad,) = [one for one in swarm.call("skill_list", agent="studio")["items"] if one["problem"]]
    assert (bad["name"], bad["whose"]) == ("mail", "operator")
    assert "no front matter" in bad["problem"]
    with pytest.raises(NotFound, match=r"cannot be used: .*no front matter"):
        swarm.call("skill_show", agent="studio", name="mail")
    doctor = [
        one["text"] for one in swarm.call("doctor", agent="studio")["items"] if one["name"] == "skills[0]"
    ]
    assert doctor == [f"{folder}/mail is no skill: it has no front matter: its first line must be ---"]
    assert swarm.play("studio")["outcome"] == "no_change"


def test_what_is_wrong_is_logged_when_it_is_seen_first(swarm, folder, caplog):
    (folder / "mail").mkdir(mode=0o755)
    (folder / "mail/SKILL.md").write_text("How.\n")
    for _ in range(3):
        swarm.play("studio")
    assert len([record for record in caplog.records if "no front matter" in record.getMessage()]) == 1


def test_what_another_agents_sessions_may_write_is_no_skill(swarm, folder):
    from swarmd.core.agent import Sandbox

    assert "skill pdf" in prompt(swarm)
    swarm.change("garage", sandbox=Sandbox(write=(str(folder / "pdf"),)))
    assert "skill pdf" not in prompt(swarm)
    assert "sessions may write" in swarm.call("skill_list", agent="studio")["items"][0]["problem"]


def test_an_agents_memory_cannot_be_named_as_the_operators(swarm):
    swarm.call("memory_write", agent="art", file="skills/tidy/SKILL.md", text=TIDY)
    swarm.change("studio", skills=(str(swarm.file("art", "skills")),))
    tree = trees.tree_of(swarm.reader)
    found = skills_of(tree.agent("studio"), tree, str(swarm.places.state))
    assert found.skills == ()
    assert "sessions may write" in found.faults[0].text


async def test_in_a_session_about_a_subject_own_skills_are_those_of_its_folder_and_of_no_other(swarm):
    swarm.call("memory_write", agent="studio", file="skills/tidy/SKILL.md", text=TIDY)

    async def writes_there(part):
        part.write("skills/secret/SKILL.md", text("secret"))
        assert [one["name"] for one in (await part.act("skill_list"))["items"]] == ["pdf"]

    async def looks(part):
        assert [one["name"] for one in (await part.act("skill_list"))["items"]] == ["pdf", "secret"]

    assert (await swarm.run("studio", writes_there, subject="alice"))["outcome"] == "committed"
    assert (await swarm.run("studio", looks, subject="alice"))["outcome"] == "no_change"
    user = swarm.runner.requests[-1].user
    assert "skill pdf (the operator's)" in user
    assert "skill secret" in user
    assert "skill tidy" not in user
    await swarm.run("studio", subject="bob")
    assert "secret" not in swarm.runner.requests[-1].user


# -- given again ------------------------------------------------------------------------------------------------------


def again(swarm, id):
    from swarmd.session.given_again import prompt_again
    from swarmd.store import sessions

    row = sessions.row(swarm.reader, id)
    return prompt_again(swarm.reader, row, swarm.ports().count, str(swarm.places.state))


def test_a_prompt_with_skills_is_made_again_to_the_byte(swarm):
    id = swarm.play("studio")["id"]
    assert again(swarm, id).user == swarm.runner.requests[0].user


@pytest.mark.parametrize("change", ["description", "text", "gone", "another"])
def test_it_is_refused_where_what_was_shown_has_changed(swarm, folder, change):
    id = swarm.play("studio")["id"]
    place = folder / "pdf/SKILL.md"
    if change == "description":
        place.write_text(text("pdf", "Writes PDF files.", "Use scripts/read.py.\n"))
    elif change == "text":
        place.write_text(text("pdf", "Reads PDF files.", "Use nothing.\n"))
    elif change == "gone":
        place.unlink()
    else:
        (folder / "mail").mkdir(mode=0o755)
        (folder / "mail/SKILL.md").write_text(text("mail"))
    with pytest.raises(Refused, match="skills of the operator's have changed since"):
        again(swarm, id)


def test_a_session_of_before_there_were_skills_is_made_again_as_ever(swarm):
    id = swarm.play("art")["id"]
    swarm.write(
        lambda c: c.execute("UPDATE sessions SET base = json_remove(base, '$.skills') WHERE id = ?", (id,))
    )
    assert again(swarm, id).user == swarm.runner.requests[0].user


def test_the_owner_of_the_state_is_whose_files_count(swarm, folder):
    if os.getuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(folder / "pdf/SKILL.md", 54321, -1)
    assert "skill pdf" not in prompt(swarm)
    os.chown(swarm.places.state, 54321, -1)
    swarm.change("art", description="so that the tree is another")
    assert "skill pdf" in prompt(swarm)
    os.chown(swarm.places.state, 0, -1)
