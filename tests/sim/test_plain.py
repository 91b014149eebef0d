"""The quick ways through a plain world give what the batcher asked each time gives, and the step-by-step reference."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings

import poise.core.control.state as state
import poise.core.engine.lane as lane
from poise.core.records.records import Run
from poise.core.records.trace import Trace
from tests.depth import examples
from tests.sim.cases import Case, cases
from tests.sim.plain import Called, plain_cases
from tests.sim.test_exact import assert_equal

STATS = ("busy", "prompting", "steps", "batches", "prompt_tokens", "decode_tokens", "peak_blocks", "up_until")


def assert_same(one: Run, other: Run) -> None:
    """All that comes of two runs, the number of held batches included."""
    assert_equal(one, other)
    for ours, theirs in zip(one.replicas, other.replicas, strict=True):
        assert [getattr(ours, name) for name in STATS] == [getattr(theirs, name) for name in STATS]
    assert (one.ended_at, one.offered, one.refusals) == (other.ended_at, other.offered, other.refusals)


def called(case: Case) -> Case:
    """The same world under a batcher that promises nothing."""
    return replace(case, batcher=partial(Called, long_prefill=case.long_prefill))


def test_plain_worlds_equal_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    count = {"worlds": 0, "filled": 0, "called": 0, "direct": 0, "preempted": 0}

    def counted(*arguments: Any) -> bool:
        filled = original(*arguments)
        count["filled" if filled else "called"] += 1
        return filled

    original = lane.fill
    monkeypatch.setattr(lane, "fill", counted)

    @given(plain_cases())
    @settings(max_examples=150)
    def check(case: Case) -> None:
        count["worlds"] += 1
        world = case.build(one_step=False, check=False)
        count["direct"] += world.direct
        plain = world.simulate()
        count["preempted"] += sum(plain.records.preemptions)
        fast, general, slow = Trace(), Trace(), Trace()
        traced = case.build(one_step=False, check=len(case.roles) < 5, trace=fast).simulate()
        assert_same(plain, traced)
        assert_same(plain, called(case).build(one_step=False, check=False, trace=general).simulate())
        reference = case.build(one_step=True, check=False, trace=slow).simulate()
        assert_equal(plain, reference)
        assert (plain.ended_at, plain.refusals) == (reference.ended_at, reference.refusals)
        assert fast.lines == general.lines == slow.lines

    check()
    assert count["direct"] == count["worlds"], "no event is made that nobody sees"
    assert count["filled"] > 2 * count["called"] > 0, "most steps with prompts are to be plain ones"
    assert count["preempted"] > count["worlds"] / 10, "and room is to be short now and then"


@pytest.mark.deep
@given(cases())
@settings(max_examples=examples(100))
def test_counts_kept_in_order_change_nothing(case: Case) -> None:
    """Where replicas come, go and pair up, as in small worlds that keep the order of `requests` all the same."""
    one, other = Trace(), Trace()
    looked = case.build(one_step=False, check=False, trace=one).simulate()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "WIDE", 1)
        kept = case.build(one_step=False, check=False, trace=other).simulate()
    assert_same(looked, kept)
    assert one.lines == other.lines
