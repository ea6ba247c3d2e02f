"""`swarmd skill` on a real store, and a real program in its sandbox that reads a skill, runs its script, grows one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_real_store import document, swarmd

SKILL = "---\nname: pdf\ndescription: Reads PDF files.\n---\nUse scripts/read.sh.\n"
OWN = "---\nname: tidy\ndescription: How the desk is tidied.\n---\nSweep.\n"
PROGRAM = """#!/bin/sh
set -e
swarmd skill list | grep -q pdf
swarmd skill show pdf > shown
grep -q 'Use scripts/read.sh' shown
folder=$(sed -n 's/^folder: //p' shown)
swarmd skill show pdf scripts/read.sh | cmp - "$folder/scripts/read.sh"
swarmd ctx set read "$("$folder/scripts/read.sh")"
if echo x 2>/dev/null > "$folder/scripts/new.sh"; then swarmd ctx set wrote "$folder"; fi
mkdir -p "$SWARMD_MEMORY/skills/tidy"
cp "$OWN" "$SWARMD_MEMORY/skills/tidy/SKILL.md"
"""


@pytest.fixture
def here():
    Path("agents.d/skills/pdf/scripts").mkdir(parents=True)
    Path(".swarmd").mkdir(mode=0o700)
    Path("agents.d/skills/pdf/SKILL.md").write_text(SKILL)
    Path("agents.d/skills/pdf/scripts/read.sh").write_text("#!/bin/sh\necho read\n")
    Path("agents.d/own.md").write_text(OWN)
    Path("agents.d/act.sh").write_text(PROGRAM)
    for program in ("agents.d/act.sh", "agents.d/skills/pdf/scripts/read.sh"):
        Path(program).chmod(0o755)
    own = Path("agents.d/own.md").absolute()
    Path("agents.d/studio.toml").write_text(
        'system_prompt = "You watch."\nskills = ["skills"]\n'
        f'runner = {{ kind = "command", command = ["./act.sh"], env = {{ OWN = "{own}" }} }}\n'
    )


def test_a_program_reads_a_skill_runs_its_script_and_grows_its_own(here):
    session = document("run", "studio")
    assert session["outcome"] == "committed", session["reason"]
    assert swarmd("ctx", "get", "studio", "read").stdout == "read"
    assert [one["key"] for one in document("ctx", "list", "studio")["items"]] == ["read"], (
        "it could write there"
    )
    prompt = swarmd("prompt", "studio").stdout
    assert "skill pdf (the operator's) = Reads PDF files.\n" in prompt
    assert "skill tidy (your own) = How the desk is tidied.\n" in prompt


def test_a_person_lists_and_reads_them(here):
    swarmd("memory", "write", "studio", "skills/tidy/SKILL.md", "--", OWN)
    folder = Path("agents.d/skills/pdf").absolute()
    rows = [line.split(maxsplit=2) for line in swarmd("skill", "list", "studio").stdout.splitlines()[1:]]
    assert [row[:2] for row in rows] == [["pdf", "operator"], ["tidy", "own"]]
    assert "Reads PDF files." in rows[0][2]
    assert str(folder) in rows[0][2]
    assert swarmd("skill", "show", "studio", "pdf").stdout == (
        f"{SKILL}\nfolder: {folder}\nfile: scripts/read.sh (20 bytes)\n"
    )
    assert swarmd("skill", "show", "studio", "pdf", "scripts/read.sh").stdout == "#!/bin/sh\necho read\n"
    assert swarmd("skill", "show", "studio", "tidy").stdout == OWN
    assert json.loads(swarmd("skill", "show", "studio", "tidy", "--json").stdout)["whose"] == "own"
    assert "has no skill 'none'" in swarmd("skill", "show", "studio", "none", status=4).stderr
    assert "is no file of a skill" in swarmd("skill", "show", "studio", "pdf", "../../x", status=3).stderr
    for skill in ("pdf", "tidy"):
        told = swarmd("skill", "show", "studio", skill, "etc/passwd", status=4).stderr
        assert f"; swarmd skill show studio {skill} lists those that it has" in told
    assert "swarmd skill list studio" in swarmd("skill", "show", "studio", "none", status=4).stderr
    assert "missing argument NAME" in swarmd("skill", "show", "studio", status=2).stderr


def test_check_names_a_bad_one_and_is_content_otherwise(here):
    assert swarmd("check").stdout == "1 file, no problems\n"
    Path("agents.d/skills/pdf/SKILL.md").write_text("Use it.\n")
    ran = swarmd("check").stdout
    assert "agents.d/studio.toml:2: warning: skills[0]:" in ran
    assert "skills/pdf is no skill: it has no front matter" in ran
