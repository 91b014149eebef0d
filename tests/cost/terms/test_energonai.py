"""What padding and waiting stages add, and that nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Engine, Pool
from poise.cost import Roofline, kv_blocks
from poise.cost.terms.energonai import EnergonAI, flow_s, padded

POOL = Pool(model("opt-30b"), device("A100"), tensor=2, pipeline=2)
INNER = Roofline().build(POOL)


def test_padding_costs_what_equal_lengths_would() -> None:
    chunks = (Chunk(64, 0), Chunk(512, 0), Chunk(128, 0))
    found = EnergonAI(padding=True).around(INNER, POOL).step(StepShape(4, chunks))
    assert found == INNER.step(StepShape(4, (Chunk(512, 0),) * 3)) and padded(chunks)[0].tokens == 512
    equal = StepShape(0, (Chunk(512, 0),) * 3)
    assert EnergonAI(padding=True).around(INNER, POOL).step(equal) == INNER.step(equal)


def test_waiting_stages_send_twice_as_long() -> None:
    shape = StepShape(64, (Chunk(512, 0),))
    base = INNER.step(shape).base
    waiting = EnergonAI(blocking=True).around(INNER, POOL).step(shape).base
    sends = base - Roofline(far_s=0.0, collective_s=0.0, link=1e9).build(POOL).step(shape).base
    assert 0 < waiting - base < sends  # which are all-reduces too
    single = replace(POOL, pipeline=1)
    inner = Roofline().build(single)
    assert EnergonAI(blocking=True).around(inner, single).step(shape) == inner.step(shape)


def test_without_both_it_is_the_inner_one() -> None:
    assert EnergonAI().around(INNER, POOL) is INNER
    assert EnergonAI(padding=True).around(INNER, POOL).step(StepShape(8)) == INNER.step(StepShape(8))


@given(st.lists(st.tuples(st.floats(0.1, 9.0), st.floats(0.0, 1.0)), min_size=1, max_size=20), st.integers(1, 6))
def test_flows_of_batches(batches: list[tuple[float, float]], stages: int) -> None:
    """Waiting is never shorter, and no flow is below its busiest stage or one batch's way; one stage waits for none."""
    steps, sends = ([each[place] for each in batches] for place in (0, 1))
    free, held = (flow_s(steps, sends, stages, blocking=blocking) for blocking in (False, True))
    assert sum(steps) <= free + 1e-9 and stages * steps[0] + (stages - 1) * sends[0] <= free + 1e-9
    assert free <= held + 1e-9
    if stages == 1:
        assert free == held == pytest.approx(sum(steps))


def test_equal_batches_wait_for_their_sends_alone() -> None:
    """n batches through p stages: n − 1 more intervals of a step, or of a step with the sends before and after it."""
    assert flow_s([2.0] * 10, [0.5] * 10, 4, blocking=False) == pytest.approx(4 * 2 + 3 * 0.5 + 9 * 2)
    assert flow_s([2.0] * 10, [0.5] * 10, 4, blocking=True) == pytest.approx(4 * 2 + 3 * 0.5 + 9 * (2 + 2 * 0.5))


def test_pooled_weights_leave_room_and_are_fetched_as_long_as_they_are() -> None:
    pool = Pool(model("opt-30b"), device("A100"))
    inner, term = Roofline().build(pool), EnergonAI(pooled=0.5)
    assert term.fetched(pool) == pytest.approx(0.5 * 2 * 29.6e9, rel=0.02)
    assert kv_blocks(term.held(pool)) > 2 * kv_blocks(pool)
    few, many = StepShape(1), StepShape(0, (Chunk(8192, 0),))
    peer, host = term.around(inner, pool), EnergonAI(pooled=0.5, host=True).around(inner, pool)
    assert host.step(few).base > peer.step(few).base > inner.step(few).base
    assert peer.step(many) == inner.step(many)
    assert EnergonAI(pooled=0.5).held(replace(pool, engine=Engine(kv_blocks=10))).engine.kv_blocks > 10
    with pytest.raises(ScenarioError, match=r"pooled 1.5 is no part of a device's layers; give 0 up to 1"):
        EnergonAI(pooled=1.5)
    bare = replace(pool, device=replace(device("A100"), host_bw=0.0))
    with pytest.raises(ScenarioError, match="states no link to its host; give host_gb_s"):
        EnergonAI(pooled=0.5, host=True).around(inner, bare)


@pytest.mark.parametrize("term", [EnergonAI(True, False), EnergonAI(False, True)])
def test_it_says_what_it_is(term: EnergonAI) -> None:
    assert term.around(INNER, POOL).describe()["energonai"] == {"padding": term.padding, "blocking": term.blocking}
