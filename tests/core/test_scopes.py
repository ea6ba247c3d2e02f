"""Whose folders a session may read and write: rules over generated trees, against a model made of the manual's words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmd.core.agent import Agent, MemoryRules, SharedFolder
from swarmd.core.authority import may_read_memory, may_read_session, refusal
from swarmd.core.changes import AppendMemory, WriteMemory, change_from_json, change_to_json
from swarmd.core.owners import (
    agent_of_owner,
    is_about,
    owner_problem,
    renamed,
    shared_name,
    shared_owner,
    subject_of,
    subject_owner,
    subject_problem,
)
from swarmd.core.tree import Tree
from swarmd.core.world import Actor
from tests.core.worlds import OPERATOR, DictWorld, ask, commit, decisions, session_of

NAMES = ("a", "b", "c", "d", "e")
FOLDERS = ("team", "rules", "a")  # one has the name of an agent
SUBJECTS = ("alice", "bob", "alice@example.com", "a")
PATHS = ("MEMORY.md", "archive/old.md", "policies/x.md")


@st.composite
def trees(draw):
    """Agents below each other by their order, with shared folders and others' memories to read."""
    agents = {}
    for number, name in enumerate(NAMES):
        above = draw(st.sampled_from([None, *NAMES[:number]]))
        folders = draw(st.lists(st.sampled_from(FOLDERS), unique=True))
        shared = tuple(SharedFolder(name=each, write=draw(st.booleans())) for each in folders)
        reads = tuple(draw(st.lists(st.sampled_from((*NAMES, "nobody")), unique=True, max_size=2)))
        rules = MemoryRules(shared=shared, reads=reads, read_only=("policies/**",))
        agents[name] = Agent(name=name, parent=above, memory=rules)
    return Tree(agents)


OWNERS = (
    *NAMES,
    "nobody",
    *map(shared_owner, (*FOLDERS, "nothing")),
    *(subject_owner(name, subject) for name in ("a", "b", "e") for subject in SUBJECTS),
)
actors = st.builds(
    lambda name, subject: Actor(by=f"{name}#1", agent=name, session=1, subject=subject),
    st.sampled_from(NAMES),
    st.sampled_from((None, *SUBJECTS)),
)


def reads(tree: Tree, actor: Actor, owner: str) -> bool:
    me = tree.agents[actor.agent]
    if owner.startswith("@"):
        return any(f"@{folder.name}" == owner for folder in me.memory.shared)
    if "@" in owner:
        return actor.subject is not None and owner == f"{me.name}@{actor.subject}"
    chain = [owner]
    while chain[-1] in tree.agents and tree.agents[chain[-1]].parent is not None:
        chain.append(tree.agents[chain[-1]].parent)
    return owner == me.name or me.name in chain[1:] or (owner in me.memory.reads and owner in tree.agents)


def writes(tree: Tree, actor: Actor, owner: str, path: str) -> bool:
    me = tree.agents[actor.agent]
    if path.startswith("archive/"):
        return False
    if owner.startswith("@"):
        return any(f"@{folder.name}" == owner and folder.write for folder in me.memory.shared)
    own = me.name if actor.subject is None else f"{me.name}@{actor.subject}"
    return owner == own and not path.startswith("policies/")


@given(trees(), actors, st.sampled_from(OWNERS))
def test_a_session_reads_its_own_what_is_below_what_its_file_lists_and_no_more(tree, actor, owner):
    assert (may_read_memory(actor, owner, tree) is None) == reads(tree, actor, owner)


@given(trees(), actors, st.sampled_from(OWNERS), st.sampled_from(PATHS), st.booleans())
def test_a_session_writes_its_own_and_shared_folders_with_write(tree, actor, owner, path, append):
    change = (
        AppendMemory(agent=owner, path=path, text="x")
        if append
        else WriteMemory(agent=owner, path=path, data=b"x")
    )
    world = DictWorld(tree)
    assert (refusal(actor, change, world) is None) == writes(tree, actor, owner, path)
    assert refusal(OPERATOR, change, world) is None


@given(trees(), actors, st.sampled_from(FOLDERS))
def test_a_folder_that_is_not_ours_and_one_that_is_not_there_get_the_same_words(tree, actor, folder):
    me = tree.agents[actor.agent]
    if me.memory.shares(folder) is not None:
        return
    theirs, nobodys = (may_read_memory(actor, shared_owner(name), tree) for name in (folder, "nothing"))
    assert theirs.replace(repr(folder), "X") == nobodys.replace("'nothing'", "X")
    changes = [WriteMemory(agent=shared_owner(name), path="f", data=b"") for name in (folder, "nothing")]
    said = [refusal(actor, change, DictWorld(tree)) for change in changes]
    assert said[0].replace(repr(folder), "X") == said[1].replace("'nothing'", "X")


@given(trees(), actors, st.sampled_from(NAMES), st.sampled_from((None, *SUBJECTS)))
def test_what_a_session_about_a_subject_said_is_seen_by_sessions_about_it_alone(tree, actor, agent, subject):
    seen = may_read_session(actor, agent, subject, tree) is None
    if subject is not None:
        assert seen == ((agent, subject) == (actor.agent, actor.subject))
    else:
        assert seen == tree.is_within(agent, actor.agent)


@given(st.sampled_from(OWNERS))
def test_an_owner_is_of_one_kind(owner):
    assert owner_problem(owner) is None
    kinds = [shared_name(owner) is not None, subject_of(owner) is not None, agent_of_owner(owner) == owner]
    assert kinds.count(True) == 1


subjects = st.from_regex(r"[a-z0-9][a-z0-9_.+@-]{0,62}", fullmatch=True).filter(lambda text: ".." not in text)


@given(st.sampled_from(NAMES), subjects, subjects)
def test_agent_and_subject_come_back_out_of_an_owner_and_renaming_moves_its_own_alone(agent, subject, other):
    owner = subject_owner(agent, subject)
    assert (agent_of_owner(owner), subject_of(owner), shared_name(owner)) == (agent, subject, None)
    assert renamed(owner, agent, "z") == f"z@{subject}"
    stranger = f"{agent}x"
    assert renamed(subject_owner(stranger, other), agent, "z") == subject_owner(stranger, other)
    assert not is_about(shared_owner(agent), agent)


@pytest.mark.parametrize(
    "subject", ["", "Alice", "../up", "a..b", "a/b", ".hidden", "-x", "a" * 64, "a b", "\u00e4", "a\n"]
)
def test_what_cannot_be_a_folders_name_is_no_subject(subject):
    assert subject_problem(subject)


def test_the_sentence_about_a_bad_subject_says_every_rule():
    rules = ("1 to 63", "a-z, 0-9 and _ . + @ -", "starts with a letter or digit", "no two dots in a row")
    for subject in ("a..b", "-x", "a b"):
        assert [rule for rule in rules if rule not in str(subject_problem(subject))] == []


# -- writing ------------------------------------------------------------------------------------------------


def sharing() -> DictWorld:
    world = DictWorld()
    both = MemoryRules(shared=(SharedFolder(name="team", write=True),))
    for name in ("game", "art"):
        world.with_agent(name, memory=both)
    return world


def write(owner: str, text: str, base: int = 0, base_hash: str | None = None) -> WriteMemory:
    return WriteMemory(agent=owner, path="MEMORY.md", data=text.encode(), base=base, base_hash=base_hash)


def head(world: DictWorld, owner: str = "@team") -> str:
    return world.heads[owner, "MEMORY.md"].data.decode()


def test_two_agents_that_write_one_shared_file_at_once_keep_the_lines_of_both():
    world = sharing()
    world.put_file("@team", "MEMORY.md", "one\ntwo\n", rev=1)
    assert decisions(commit(world, session_of("game", 1), write("@team", "game\none\ntwo\n", 1))) == ["done"]
    assert decisions(commit(world, session_of("art", 2), write("@team", "one\ntwo\nart\n", 1))) == ["done"]
    assert head(world) == "game\none\ntwo\nart\n"


def test_lines_that_collide_stay_as_they_are_in_the_file_and_the_others_are_a_conflict():
    world = sharing()
    world.put_file("@team", "MEMORY.md", "one\n", rev=1)
    commit(world, session_of("game", 1), write("@team", "game\n", 1))
    folded = commit(world, session_of("art", 2), write("@team", "art\n", 1))
    (effect,) = folded.effects
    assert head(world) == "game\n"
    assert [(c.ours, c.theirs) for c in effect.conflicts] == [("art\n", "game\n")]


def test_a_text_made_from_an_earlier_one_of_the_same_change_set_is_merged_with_what_others_wrote():
    """The first is merged, so that it is no revision; the second was made from it all the same."""
    from swarmd.core.digests import digest

    world = sharing()
    world.put_file("@team", "MEMORY.md", "one\n", rev=1)
    commit(world, session_of("game", 1), write("@team", "game\none\n", 1))
    first = "one\nart 1\n"
    changes = [
        write("@team", first, 1),
        write("@team", first + "art 2\n", -1, digest(first.encode())),
        AppendMemory(agent="@team", path="MEMORY.md", text="art 3"),
    ]
    again = [change_from_json(change_to_json(change)) for change in changes]
    folded = commit(world, session_of("art", 2), *again)
    assert decisions(folded) == ["done"] * 3
    assert head(world) == "game\none\nart 1\nart 2\nart 3\n"
    assert not any(effect.conflicts for effect in folded.effects)


def test_an_operator_writes_any_folder_of_those_in_force_and_no_other():
    world = sharing()
    for owner in ("@team", "game", "game@alice"):
        assert ask(world, OPERATOR, write(owner, "x")).decision == "done"
    for owner in ("@nothing", "nobody", "nobody@alice"):
        verdict = ask(world, OPERATOR, write(owner, "x"))
        assert (verdict.decision, verdict.kind) == ("refused", "not_found")
    assert ask(world, OPERATOR, write("game@../x", "x")).decision == "refused"


def test_the_room_of_a_shared_folder_is_its_own():
    world = sharing()
    world.put_file("game", "big.md", b"x" * (16 * 1024 * 1024))
    assert ask(world, session_of("game"), write("@team", "x")).decision == "done"
    assert ask(world, session_of("game"), write("game", "x")).decision == "refused"
