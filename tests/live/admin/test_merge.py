"""Changes applied to what was before give what is now, whatever either is."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from poise.live.admin.merge import merge, patch

names = st.sampled_from(["a", "b", "c", "__proto__", ""])
leaves = st.integers() | st.text(max_size=3) | st.booleans() | st.lists(st.integers() | st.none(), max_size=2)
trees = st.recursive(st.dictionaries(names, leaves), lambda inner: st.dictionaries(names, inner | leaves), max_leaves=8)


@given(trees, trees)
def test_a_patch_makes_the_later_of_the_earlier(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert merge(before, patch(before, after)) == after


@given(trees)
def test_what_has_not_changed_needs_no_patch(tree: dict[str, Any]) -> None:
    assert patch(tree, tree) == {}


def test_only_what_changed_is_in_a_patch() -> None:
    before = {"engines": {"0": {"sent": 1, "state": "serving"}, "1": {"sent": 5}}, "gone": 1}
    after = {"engines": {"0": {"sent": 2, "state": "serving"}, "1": {"sent": 5}}}
    assert patch(before, after) == {"engines": {"0": {"sent": 2}}, "gone": None}
