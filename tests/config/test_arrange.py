"""Places in the tree after a reload: lost parents, cycles, and that no history gives anyone a right by accident."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmd.config.check import Checked, FileCheck
from swarmd.config.document import read_document
from swarmd.config.load import InForce, reconcile
from swarmd.config.scan import FolderState
from swarmd.core.agent import Agent
from swarmd.core.tree import Tree
from tests.config.kit import family, good, parents, sentences


def gone(folder, *names):
    """Remove files, and let their absence come of age. The look after that is the test's."""
    for name in names:
        folder.remove(name)
    folder.load(now=100.0)


# Parents


def test_an_unknown_parent_is_told_with_the_one_that_may_be_meant(folder):
    folder.write("studio", good())
    folder.write("polybreak", good("studoi"))
    reload = folder.load()
    assert reload.out == ("polybreak",)
    assert sentences(reload) == [
        "agents.d/polybreak.toml:1: parent: no agent is named 'studoi' (did you mean 'studio'?)"
    ]


def test_an_unknown_parent_is_told_also_of_a_file_with_other_errors(folder):
    folder.write("studio", good())
    folder.write("polybreak", good("studoi", "timout = 1\n"))
    assert len(folder.load().problems) == 2


def test_children_of_a_bad_parent_keep_their_place(folder):
    family(folder)
    folder.write("mid", "x = ")
    folder.write("leaf", good("mid", "description = 'edited'\n"))
    reload = folder.load()
    assert reload.changed == ("leaf",)
    assert reload.tree.above("leaf") == ["mid", "root"]


def test_new_children_of_a_parent_that_was_never_good_are_out_with_it(folder):
    folder.write("root", "x = ")
    folder.write("mid", good("root"))
    folder.write("leaf", good("mid"))
    folder.write("other", good())
    reload = folder.load()
    assert (list(reload.agents), reload.out) == (["other"], ("leaf", "mid", "root"))
    assert sentences(reload)[0] == (
        "agents.d/leaf.toml:1: parent: 'mid' is not in force, since its own file has problems"
    )


def test_children_of_a_removed_parent_stay_below_those_who_stood_above_it(folder):
    family(folder)
    gone(folder, "mid")
    reload = folder.load(now=110.0)
    assert (reload.removed, reload.changed) == (("mid",), ("leaf",))
    leaf = reload.agents["leaf"]
    assert (leaf.parent, leaf.gone_parent) == ("root", "mid")
    assert reload.tree.above("leaf") == ["root"]
    assert str(reload.problems[0]) == (
        "agents.d/leaf.toml:1: parent: no agent is named 'mid' any more; leaf keeps its place below 'root', "
        "and its reports go to no agent"
    )
    again = folder.load(now=111.0)
    assert not again.is_change
    assert len(again.problems) == 1


def test_children_of_a_removed_root_become_roots_that_remember_it(folder):
    family(folder)
    gone(folder, "root", "mid")
    leaf = folder.load(now=110.0).agents["leaf"]
    assert (leaf.parent, leaf.gone_parent) == (None, "mid")


def test_a_lost_child_may_be_edited_and_keeps_its_place(folder):
    family(folder)
    gone(folder, "mid")
    folder.load(now=110.0)
    folder.write("leaf", good("mid", "enabled = false\n"))
    leaf = folder.load(now=111.0).agents["leaf"]
    assert (leaf.enabled, leaf.parent, leaf.gone_parent) == (False, "root", "mid")


def test_a_lost_child_moves_with_what_is_left_above_it(folder):
    family(folder)
    folder.write("top", good())
    gone(folder, "mid")
    folder.load(now=110.0)
    folder.write("root", good("top"))
    assert folder.load(now=111.0).tree.above("leaf") == ["root", "top"]


def test_a_parent_that_comes_back_gets_its_children_back(folder):
    family(folder)
    gone(folder, "mid")
    folder.load(now=110.0)
    folder.write("mid", good())
    reload = folder.load(now=111.0)
    assert (reload.agents["leaf"].parent, reload.agents["leaf"].gone_parent) == ("mid", None)
    assert reload.problems == ()


def test_a_lost_child_that_names_a_new_parent_moves_there(folder):
    family(folder)
    gone(folder, "mid")
    folder.load(now=110.0)
    folder.write("leaf", good("root"))
    reload = folder.load(now=111.0)
    assert (reload.agents["leaf"].parent, reload.agents["leaf"].gone_parent) == ("root", None)
    assert reload.problems == ()


def test_an_edit_that_names_an_unknown_parent_is_a_bad_edit(folder):
    family(folder)
    folder.write("leaf", good("nobody", "enabled = false\n"))
    reload = folder.load()
    assert (reload.kept, reload.is_change) == (("leaf",), False)
    assert reload.agents["leaf"].enabled


def test_a_lost_child_whose_own_file_is_bad_keeps_its_place_too(folder):
    family(folder)
    folder.write("leaf", "x = ")
    folder.load()
    gone(folder, "mid")
    leaf = folder.load(now=110.0).agents["leaf"]
    assert (leaf.parent, leaf.gone_parent) == ("root", "mid")


def test_a_parent_that_is_absent_for_a_moment_is_still_the_parent(folder):
    family(folder)
    folder.remove("mid")
    reload = folder.load(now=100.0)
    assert reload.problems == ()
    assert reload.tree.above("leaf") == ["mid", "root"]


# Cycles


def test_files_that_close_a_cycle_are_refused_with_its_path_and_the_rest_stands(folder):
    folder.write("a", good("b"))
    folder.write("b", good("c"))
    folder.write("c", good("a"))
    folder.write("below", good("a"))
    folder.write("other", good())
    reload = folder.load()
    assert list(reload.agents) == ["other"]
    assert sentences(reload) == [
        "agents.d/a.toml:1: parent: closes a cycle: a -> b -> c -> a",
        "agents.d/b.toml:1: parent: closes a cycle: b -> c -> a -> b",
        "agents.d/below.toml:1: parent: 'a' is not in force, since its own file has problems",
        "agents.d/c.toml:1: parent: closes a cycle: c -> a -> b -> c",
    ]


def test_an_edit_that_closes_a_cycle_is_refused_and_the_old_tree_stands(folder):
    before = family(folder)
    folder.write("root", good("leaf", "description = 'x'\n"))
    reload = folder.load()
    assert reload.agents == before.agents
    assert reload.kept == ("root",)
    assert sentences(reload) == ["agents.d/root.toml:1: parent: closes a cycle: root -> leaf -> mid -> root"]


def test_two_edits_that_close_a_cycle_together_are_both_refused(folder):
    folder.write("a", good())
    folder.write("b", good())
    folder.load()
    folder.write("a", good("b"))
    folder.write("b", good("a"))
    reload = folder.load()
    assert parents(reload) == {"a": None, "b": None}
    assert reload.kept == ("a", "b")


def test_who_hangs_below_a_new_cycle_member_by_a_kept_place_does_not_close_it(folder):
    family(folder)
    gone(folder, "mid")
    folder.load(now=110.0)
    folder.write("root", good("leaf"))
    reload = folder.load(now=111.0)
    assert reload.tree.above("leaf") == ["root"]
    assert reload.kept == ("root",)


def test_a_parent_that_comes_back_below_its_own_child_is_refused(folder):
    family(folder)
    gone(folder, "mid")
    folder.load(now=110.0)
    folder.write("mid", good("leaf"))
    reload = folder.load(now=111.0)
    assert "mid" not in reload.agents
    assert reload.tree.above("leaf") == ["root"]


# What refers to others


def test_reading_the_memory_of_nobody_is_a_warning_and_loads(folder):
    folder.write("a", good(more="[memory]\nreads = ['bob', 'bobb']\n"))
    folder.write("bob", good())
    reload = folder.load()
    assert "a" in reload.agents
    assert sentences(reload) == [
        "agents.d/a.toml:4: warning: memory.reads[1]: no agent is named 'bobb' (did you mean 'bob'?)"
    ]


def test_reading_the_memory_of_nobody_is_told_also_of_a_file_with_other_errors(folder):
    folder.write("a", good(more="timout = 1\n[memory]\nreads = ['bobb', 5, 'a']\n"))
    folder.write("bob", good())
    assert (
        "agents.d/a.toml:5: warning: memory.reads[0]: no agent is named 'bobb' (did you mean 'bob'?)"
        in sentences(folder.load())
    )


# Random histories

NAMES = ["a", "b", "c", "d", "e"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "break", "remove", "wait"]),
        st.sampled_from(NAMES),
        st.sampled_from([None, *NAMES, "x"]),
    ),
    max_size=25,
)


class History:
    """A folder as values alone, so that thousands of histories can be tried."""

    def __init__(self) -> None:
        self.files: dict[str, Agent | None] = {}
        self.in_force: dict[str, InForce] = {}
        self.now = 0.0

    def look(self):
        checks = {
            name: FileCheck(
                name=name, document=read_document(name, b""), agent=agent, parent=agent and agent.parent
            )
            for name, agent in self.files.items()
        }
        checked = Checked(folder=FolderState(kind="present"), files=checks)
        reload = reconcile(self.in_force, checked, now=self.now)
        self.in_force = {
            name: InForce(agent=agent, absent_since=reload.absent.get(name))
            for name, agent in reload.agents.items()
        }
        return reload


def authority(tree: Tree) -> set[tuple[str, str]]:
    return {(above, name) for name in tree for above in tree.above(name)}


def reports(tree: Tree) -> set[tuple[str, str | None]]:
    return {(name, agent.parent) for name, agent in tree.agents.items() if agent.gone_parent is None}


@given(STEPS)
def test_no_history_makes_a_cycle_or_gives_a_right_that_no_file_asks_for(steps):
    history = History()
    history.files["z"] = Agent(name="z")  # so that the folder is never empty
    last = history.look()
    for number, (step, name, parent) in enumerate(steps):
        before = last.tree
        if step == "write":
            history.files[name] = Agent(name=name, parent=parent, description=str(number))
        elif step == "break":
            history.files[name] = None
        elif step == "remove":
            history.files.pop(name, None)
        history.now += 20.0 if step == "wait" else 1.0
        reload = history.look()
        tree = reload.tree
        for one, agent in tree.agents.items():
            assert one not in tree.above(one)
            assert agent.parent is None or agent.parent in tree
            file = history.files.get(one)
            asked = file is not None and agent.parent == file.parent and agent.gone_parent is None
            known = before.agent(one)
            came_back = known is not None and known.gone_parent == agent.parent
            assert asked or came_back or agent.parent is None or agent.parent in before.above(one)
        if step != "write" and not last.kept and not last.out:
            # Nothing was waiting for its turn: then a removal and a bad edit give nobody anything.
            assert authority(tree) <= authority(before)
            assert reports(tree) <= reports(before)
            assert all(tree.above(one) == [up for up in before.above(one) if up in tree] for one in tree)
        last = reload


@given(STEPS)
def test_a_second_look_at_the_same_files_changes_nothing(steps):
    history = History()
    for step, name, parent in steps:
        if step == "write":
            history.files[name] = Agent(name=name, parent=parent)
        elif step == "break":
            history.files[name] = None
        else:
            history.files.pop(name, None)
        history.now += 20.0
        history.look()
        assert not history.look().is_change


# Size


def chain(count: int) -> dict[str, Agent]:
    return {f"a{n:04}": Agent(name=f"a{n:04}", parent=f"a{n + 1:04}") for n in range(count)}


@pytest.mark.parametrize("last", [None, "a0000", "nobody"])
def test_a_chain_of_a_thousand_is_arranged_however_it_ends(last):
    history = History()
    history.files = dict(chain(1000))
    history.files["a0999"] = Agent(name="a0999", parent=last)
    reload = history.look()
    assert len(reload.agents) == (1000 if last is None else 0)
