"""Who stands above and below whom, also where files would make a circle."""

from hypothesis import given
from hypothesis import strategies as st

from tests.core.worlds import FAMILY, tree_of

NAMES = ("a", "b", "c", "d", "e", "f")
PARENTS = st.fixed_dictionaries({name: st.sampled_from((None, *NAMES, "gone")) for name in NAMES})


def test_above_is_nearest_first_and_below_has_parents_before_children():
    tree = tree_of(**FAMILY)
    assert tree.above("game") == ["studio", "house"]
    assert tree.below("house") == ["garage", "studio", "art", "game"]
    assert tree.children("studio") == ["art", "game"]
    assert tree.children(None) == ["house", "stranger"]
    assert tree.depth("game") == 2


def test_below_is_strict_and_within_is_not():
    tree = tree_of(**FAMILY)
    assert tree.is_below("game", "house")
    assert not tree.is_below("house", "house")
    assert tree.is_within("house", "house")
    assert not tree.is_below("house", "game")
    assert not tree.is_below("stranger", "house")
    assert not tree.is_below("garage", "studio")


def test_a_name_that_is_not_in_force_is_below_nobody_and_above_nobody():
    tree = tree_of(**FAMILY)
    assert not tree.is_below("nobody", "house")
    assert not tree.is_below("game", "nobody")
    assert tree.parent("nobody") is None
    assert tree.below("nobody") == []


def test_a_parent_that_is_not_in_force_makes_a_root():
    tree = tree_of(a="gone", b="a")
    assert tree.parent("a") is None
    assert tree.children(None) == ["a"]
    assert tree.above("b") == ["a"]


def test_a_circle_grants_nobody_anything():
    tree = tree_of(a="c", b="a", c="b", tail="a", own="own")
    for one in "abc":
        assert tree.above(one) == []
        assert not any(tree.is_below(one, other) for other in "abc")
    assert tree.above("tail") == ["a"]
    assert tree.above("own") == []


def test_a_chain_of_ten_thousand_is_built_at_once():
    tree = tree_of(**{f"n{i}": f"n{i - 1}" if i else None for i in range(10_000)})
    assert tree.depth("n9999") == 9999
    assert len(tree.below("n0")) == 9999


@given(parents=PARENTS)
def test_above_and_below_say_the_same_whatever_the_files_say(parents):
    tree = tree_of(**parents)
    for one in NAMES:
        assert set(tree.below(one)) == {other for other in NAMES if tree.is_below(other, one)}
        assert one not in tree.above(one)
        for other in NAMES:
            assert not (tree.is_below(one, other) and tree.is_below(other, one))
    roots = tree.children(None)
    assert sorted([*roots, *(name for root in roots for name in tree.below(root))]) == sorted(NAMES)
