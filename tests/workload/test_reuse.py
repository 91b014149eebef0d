"""The reachable hit rate against a cache that compares tokens one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import TraceError
from poise.workload import poisson, sessions, shared_prefixes, uniform
from tests.workload.trees import Tokens, Told, predecessors, prefix_trees, slow_hit_rate, unique


@given(prefix_trees(), st.integers(1, 50))
def test_equals_the_slow_cache(told: Told, block_tokens: int) -> None:
    fast = told.workload.reachable_hit_rate(block_tokens)
    assert fast == pytest.approx(slow_hit_rate(told, block_tokens), abs=1e-12)


@given(st.integers(0, 1000), st.integers(1, 40))
def test_sessions_equal_the_slow_cache(seed: int, block_tokens: int) -> None:
    """The tokens are put together from the meaning of a session, not from its ids."""
    starts = poisson(1.0, requests=4, prompt_tokens=uniform(1, 20), output_tokens=uniform(1, 9), seed=seed)
    workload = sessions(starts, turns=uniform(1, 4), think_s=1, user_tokens=uniform(1, 9), seed=seed)
    prompts: list[Tokens] = []
    outputs: list[Tokens] = []
    for row in range(len(workload)):
        before: Tokens = ()
        for earlier in predecessors(workload, row):
            before = prompts[earlier] + outputs[earlier]
        prompts.append(before + unique(("user", row), int(workload.prompt[row]) - len(before)))
        outputs.append(unique(("answer", row), int(workload.output[row])))
    slow = slow_hit_rate(Told(workload, prompts, outputs), block_tokens)
    assert workload.reachable_hit_rate(block_tokens) == pytest.approx(slow, abs=1e-12)


def test_without_identity_nothing_is_found() -> None:
    assert poisson(1.0, requests=10).reachable_hit_rate() == 0.0


def test_one_prefix_for_all_is_missed_once() -> None:
    base = poisson(1.0, requests=10, prompt_tokens=16)
    workload = shared_prefixes(base, groups=1, prefix_tokens=48)
    assert workload.reachable_hit_rate(16) == pytest.approx(9 * 3 / (10 * 4))


def test_a_prefix_that_ends_inside_a_block_counts_its_whole_blocks() -> None:
    base = poisson(1.0, requests=2, prompt_tokens=64)
    workload = shared_prefixes(base, groups=1, prefix_tokens=63)
    assert workload.reachable_hit_rate(16) == pytest.approx(3 / 16)


def test_ids_may_be_as_large_as_they_like() -> None:
    workload = shared_prefixes(poisson(1.0, requests=3), groups=1, prefix_tokens=512)
    before = workload.reachable_hit_rate(16)
    assert workload.prefixes is not None
    workload.prefixes.ids = workload.prefixes.ids + np.int64(2**60)
    assert workload.reachable_hit_rate(16) == before > 0


def test_a_block_has_a_token() -> None:
    with pytest.raises(TraceError, match="block_tokens is 0"):
        poisson(1.0, requests=3).reachable_hit_rate(0)
