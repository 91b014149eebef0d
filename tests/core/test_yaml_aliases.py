"""What shared lists and mappings write out to is counted without writing it out."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.core.yaml_aliases import MOST_VALUES, refuse_explosion, written_out

TREES = st.recursive(
    st.none() | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=4),
    max_leaves=30,
)


def plain(tree: Any) -> int:
    """The values of a tree, one by one."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    return 1 + sum(map(plain, tree)) if isinstance(tree, list) else 1


@given(TREES)
def test_a_tree_written_out_has_as_many_values_as_one_meets(tree: Any) -> None:
    assert written_out(tree) == plain(tree)
    assert written_out([tree, {"a": tree}]) == 2 + 2 * plain(tree)


def test_lists_of_lists_grow_as_powers() -> None:
    tree: list[Any] = [None]
    for _ in range(40):
        tree = [tree] * 10
    assert written_out(tree) == 2 * 10**40 + (10**40 - 1) // 9


def test_a_list_that_holds_itself_has_no_end() -> None:
    tree: list[Any] = [1]
    tree.append({"a": tree})
    assert written_out(tree) == inf


def test_only_what_aliases_add_is_refused() -> None:
    refuse_explosion([None] * (MOST_VALUES - 1), "", "f.yaml")
    refuse_explosion([None] * (2 * MOST_VALUES), "- \n" * 2 * MOST_VALUES, "f.yaml")
    with pytest.raises(UserError, match=r"^f.yaml: its aliases .* write out to 100,001 values; at most 100,000"):
        refuse_explosion([None] * MOST_VALUES, "", "f.yaml")
