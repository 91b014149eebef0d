"""Trees of shared prefixes: equal ids, equal beginnings, popular groups first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import ScenarioError
from poise.workload import poisson, shared_prefixes, uniform
from tests.workload.trees import extents


@given(st.integers(1, 30), st.integers(1, 4), st.floats(0, 2), st.integers(0, 99))
def test_prompts_are_prefix_and_tail(groups: int, depth: int, zipf: float, seed: int) -> None:
    base = poisson(5.0, requests=40, prompt_tokens=uniform(1, 50), seed=seed)
    made = shared_prefixes(base, groups=groups, prefix_tokens=uniform(10, 90), zipf=zipf, depth=depth, seed=seed)
    made.check()
    parents: dict[int, int] = {}
    for row in range(len(made)):
        path = extents(made, row)
        assert len(path) == depth
        assert made.prompt[row] - path[-1][1] == base.prompt[row]
        for (parent, _), (child, _) in zip([(-1, 0), *path], path, strict=False):
            assert parents.setdefault(child, parent) == parent
    assert len({extents(made, row)[-1][0] for row in range(len(made))}) <= groups


def test_popularity_follows_zipf() -> None:
    made = shared_prefixes(poisson(5.0, requests=30_000), groups=4, prefix_tokens=10, zipf=1.0)
    assert made.prefixes is not None
    shares = np.bincount(made.prefixes.ids) / 30_000
    expected = 1 / np.arange(1, 5)
    assert shares == pytest.approx(expected / expected.sum(), rel=0.05)


def test_levels_widen_from_the_root() -> None:
    made = shared_prefixes(poisson(5.0, requests=3000), groups=27, prefix_tokens=300, zipf=0.0, depth=3)
    levels = [{extents(made, row)[level][0] for row in range(len(made))} for level in range(3)]
    assert [len(level) for level in levels] == [3, 9, 27]
    assert extents(made, 0)[-1][1] == 300


def test_one_group_at_every_depth() -> None:
    made = shared_prefixes(poisson(5.0, requests=20), groups=1, prefix_tokens=90, depth=3).check()
    assert all(extents(made, row) == [(0, 30), (1, 60), (2, 90)] for row in range(20))


def test_wrong_arguments() -> None:
    base = poisson(1.0, requests=5)
    with pytest.raises(ScenarioError, match="groups is 0"):
        shared_prefixes(base, groups=0, prefix_tokens=10)
    with pytest.raises(ScenarioError, match="depth is 0"):
        shared_prefixes(base, groups=2, prefix_tokens=10, depth=0)
    with pytest.raises(ScenarioError, match="exponent is -1"):
        shared_prefixes(base, groups=2, prefix_tokens=10, zipf=-1)
    with pytest.raises(ScenarioError, match="already has prefixes"):
        shared_prefixes(shared_prefixes(base, groups=2, prefix_tokens=10), groups=2, prefix_tokens=10)
    with pytest.raises(ScenarioError, match="is the most"):
        shared_prefixes(base, groups=1, prefix_tokens=2**31 - 2)
