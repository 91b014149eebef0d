"""A histogram of sizes keeps every request, its rate and its mean lengths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.core.placement import Bucket
from poise.workload.sizes import demand, places_of

lengths = st.lists(st.tuples(st.integers(1, 200_000), st.integers(1, 9000)), min_size=1, max_size=40)


@given(lengths, st.floats(0.01, 100))
def test_buckets_share_the_rate_and_keep_mean_lengths(sizes: list[tuple[int, int]], rate: float) -> None:
    prompt, output = np.array(sizes).T
    found = demand(prompt, output, rate)
    assert found.rate == pytest.approx(rate)
    mean = sum(bucket.rate * bucket.prompt_tokens for bucket in found.buckets) / rate
    assert prompt.mean() - 1e-6 <= mean <= prompt.mean() + 1 + 1e-6, "rounded up"
    assert len(found.buckets) == len(set(places_of(prompt, output)))


def test_an_edge_belongs_to_the_bucket_that_it_ends() -> None:
    found = demand(np.array([10, 11, 20, 21]), np.array([1, 1, 1, 1]), 4.0, prompts=(10, 20), outputs=(5,))
    assert found.buckets == (Bucket(10, 1, 1.0), Bucket(16, 1, 2.0), Bucket(21, 1, 1.0))


def test_edges_ascend() -> None:
    with pytest.raises(UserError, match=r"prompts: edges \(20, 10\) do not ascend"):
        demand(np.array([1]), np.array([1]), 1.0, prompts=(20, 10))
