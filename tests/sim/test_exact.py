"""The fast path equals the step-by-step reference to the picosecond, and everything balances after every event."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings

from poise.core.records import Run
from poise.core.trace import Trace
from tests.sim.cases import Case, cases

COLUMNS = (
    "arrived_at", "dispatched_at", "first_token_at", "ended_at", "status", "replica", "decode_replica", "prompt_tokens",
    "output_tokens", "cached_tokens", "preemptions", "migrations", "retries",
)  # fmt: skip


def assert_equal(fast: Run, slow: Run) -> None:
    for name in COLUMNS:
        assert getattr(fast.records, name) == getattr(slow.records, name), name
    for ours, theirs in zip(fast.replicas, slow.replicas, strict=True):
        for name in ("busy", "steps", "prompt_tokens", "decode_tokens"):
            assert getattr(ours, name) == getattr(theirs, name), name


def compare(case: Case) -> None:
    fast, slow = Trace(), Trace()
    assert_equal(case.build(one_step=False, trace=fast).simulate(), case.build(one_step=True, trace=slow).simulate())
    for ours, theirs in zip(fast.lines, slow.lines, strict=True):
        assert ours == theirs


@given(cases())
@settings(max_examples=400)
def test_fast_path_equals_reference(case: Case) -> None:
    compare(case)


@pytest.mark.slow
@given(cases())
@settings(max_examples=int(os.environ.get("POISE_EXAMPLES", "10000")))
def test_fast_path_equals_reference_on_many(case: Case) -> None:
    compare(case)
