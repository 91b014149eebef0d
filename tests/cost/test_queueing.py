"""Closed forms of prefill queues against queues that are played through."""

from __future__ import annotations

import numpy as np
import pytest

from poise.cost.queueing import crossing_load, md1_ttft, pipelined_ttft, tensor_ttft

PROMPTS = 400_000


def played(service_s: float, rate: float) -> float:
    """The mean wait of a queue with Poisson arrivals and one length of service, by Lindley's recursion."""
    gaps = np.random.default_rng(7).exponential(1 / rate, PROMPTS)
    steps = np.cumsum(service_s - gaps[1:])
    waits = np.concatenate([[0.0], steps - np.minimum.accumulate(np.minimum(steps, 0.0))])
    return float(waits.mean())


@pytest.mark.parametrize("load", [0.3, 0.6, 0.9])
def test_all_three_within_two_per_cent(load: float) -> None:
    assert md1_ttft(1.0, load) == pytest.approx(1.0 + played(1.0, load), rel=0.02)
    assert pipelined_ttft(1.0, load) == pytest.approx(1.0 + played(0.5, load), rel=0.02), "a stage takes half as long"
    assert tensor_ttft(1.0, load, 1.6) == pytest.approx(1 / 1.6 + played(1 / 1.6, load), rel=0.02)


@pytest.mark.parametrize(("speedup", "load"), [(1.3, 0.61), (1.5, 0.94), (1.7, 1.26), (1.9, 1.63)])
def test_where_pipelines_overtake_tensors(speedup: float, load: float) -> None:
    found = crossing_load(speedup)
    assert found == pytest.approx(load, abs=0.01)
    assert tensor_ttft(1.0, found, speedup) == pytest.approx(pipelined_ttft(1.0, found), rel=1e-6)


def test_a_queue_that_is_full_never_ends() -> None:
    assert md1_ttft(1.0, 1.0) == pipelined_ttft(1.0, 2.0) == tensor_ttft(1.0, 1.5, 1.5) == float("inf")
