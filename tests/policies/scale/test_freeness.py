"""One replica at a time, once the mean freeness has been outside the band for long enough."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.units import SECOND
from poise.policies.scale.freeness import Freeness
from poise.testing import a_chance, a_cluster, a_pool, a_replica

replicas = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 3200), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=5
)


def step(policy: Freeness, at_s: int, columns: list[tuple[int, int, int, int]], **pool: Any) -> int:
    """By how much it changes one pool of serving replicas: free blocks, queued tokens, running and waiting of each."""
    rows = [
        a_replica(free_blocks=free, queued_tokens=queued, running=running, waiting=waiting)
        for free, queued, running, waiting in columns
    ]
    view = a_cluster(
        *rows, a_replica(), now=at_s * SECOND, needs=policy.needs,
        pools=[a_pool(*range(len(columns)), wanted=5, **pool)],
    )  # fmt: skip
    (answer,) = policy.scale(view, a_chance())
    return answer.replicas - 5


@given(replicas)
def test_without_a_wait_it_is_the_band(columns: list[tuple[int, int, int, int]]) -> None:
    each = [(free - queued / 16) / max(1, running + waiting) for free, queued, running, waiting in columns]
    mean = sum(each) / len(each)
    if min(abs(mean - 10), abs(mean - 60)) > 1e-6:
        assert step(Freeness(hold_s=0), 1, columns) == (1 if mean < 10 else -1 if mean > 60 else 0)


CROWDED, BALANCED, FREE = [(50, 0, 10, 0)], [(300, 0, 10, 0)], [(700, 0, 10, 0)]


def test_a_side_must_last_and_one_change_begins_the_next_wait() -> None:
    policy = Freeness(hold_s=10)
    assert [step(policy, at, CROWDED) for at in range(25)] == [1 if at in (10, 20) else 0 for at in range(25)]
    assert [step(policy, at, FREE) for at in range(25, 37)] == [-1 if at == 35 else 0 for at in range(25, 37)]


def test_a_moment_within_the_band_or_on_its_other_side_begins_anew() -> None:
    for between in (BALANCED, FREE):
        policy = Freeness(hold_s=10)
        assert [step(policy, at, between if at == 9 else CROWDED) for at in range(20)] == [0] * 20
        assert step(policy, 20, CROWDED) == 1


def test_a_pool_of_none_grows_when_a_request_waits() -> None:
    policy = Freeness(hold_s=0)
    for wanted, held, replicas_then in ((0, 1, 1), (0, 0, 0), (1, 1, 1)):
        view = a_cluster(a_replica(), needs=policy.needs, pools=[a_pool(wanted=wanted, held=held)])
        (answer,) = policy.scale(view, a_chance())
        assert answer.replicas == replicas_then


@pytest.mark.parametrize("parameters", [{"up": 60.0}, {"hold_s": -1.0}, {"period_s": 0.0}, {"block_tokens": 0}])
def test_parameters_that_make_no_sense(parameters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="give"):
        Freeness(**parameters)
