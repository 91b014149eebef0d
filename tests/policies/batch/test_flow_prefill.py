"""Prompts by slack, in passes that are left between layers."""

from __future__ import annotations

import pytest

from poise.core.action import NONE, Batch, Entry
from poise.core.spec import Engine
from poise.core.units import ps
from poise.policies.batch.flow_prefill import FlowPrefill
from poise.testing import a_lane, a_request
from poise.testing.cost import LinearCost
from tests.policies.batch.test_chunked import decoding, prompts

COST = LinearCost(step_s=0.0, prompt_s=0.001, layers=8)
ENGINE = Engine(token_budget=10_000)


def due(*pairs: tuple[int, float]) -> list:  # type: ignore[type-arg]
    """Waiting prompts of so many tokens, due at so many seconds."""
    return [
        a_request(id=number, prompt_tokens=tokens, ids=(), deadline_at=ps(at))
        for number, (tokens, at) in enumerate(pairs)
    ]


def seeds(batcher: FlowPrefill, *pairs: tuple[int, float], now: float = 0.0) -> list[int]:
    lane = a_lane(waiting=due(*pairs), cost=COST, engine=ENGINE, layers=8, now=ps(now))
    return [entry.request for entry in batcher.batch(lane).entries]


def test_the_least_slack_goes_first() -> None:
    """0 may wait 4 s, 1 may wait 2 s, and both are in time in one pass of 3 s; the deadline says otherwise."""
    assert seeds(FlowPrefill(), (1000, 5.0), (4000, 6.0)) == [1, 0]
    assert seeds(FlowPrefill(rank="deadline"), (1000, 5.0), (4000, 6.0)) == [0, 1]


def test_what_cannot_be_in_time_any_more_waits_behind_the_others() -> None:
    assert seeds(FlowPrefill(), (4000, 3.0), (1000, 2.0)) == [1]
    assert seeds(FlowPrefill(), (4000, 3.0), (1000, 9.0)) == [1, 0], "both are done before 9 s"


def test_no_request_joins_that_would_make_a_member_late() -> None:
    assert seeds(FlowPrefill(), (1000, 1.5), (400, 3.0), (400, 4.0)) == [0, 1]


def test_a_pass_is_left_unless_decodes_are_in_it() -> None:
    lane = a_lane(waiting=prompts(100), cost=COST, engine=ENGINE)
    assert FlowPrefill().batch(lane) == Batch((Entry(0, 100),), NONE, leave=True)
    lane = a_lane(waiting=prompts(100), decoding=decoding(2), cost=COST, engine=ENGINE)
    assert FlowPrefill().batch(lane) == Batch((Entry(0, 100),))


def test_what_was_left_goes_on_from_its_layer_alone() -> None:
    """At 8 s the one that was left has 0.5 s to go and is due in 1 s; the newcomer is due later."""
    running = [(a_request(id=7, prompt_tokens=1000, ids=(), deadline_at=ps(9.0)), 0)]
    lane = a_lane(waiting=due((100, 30.0)), prefilling=running, cost=COST, engine=ENGINE, layers=8, now=ps(8.0))
    lane.prefilling[0].layer, lane.prefilling[0].chunk = 4, 1000
    assert FlowPrefill().batch(lane) == Batch((Entry(7, 1000, 4, 8),), NONE, leave=True)


def test_wrong_predictions_change_the_order() -> None:
    """By one time for all the long prompt seems to have the more slack."""
    assert seeds(FlowPrefill(constant_s=0.1), (1000, 5.0), (4000, 6.0)) == [0, 1]
    orders = {tuple(seeds(FlowPrefill(sigma=2.0), (1000, 5.0 + at), (4000, 7.9 + at))) for at in (0.0, 0.1, 1.0)}
    assert orders - {(1, 0)}


@pytest.mark.parametrize("given", [{"ttft_s": 0.0}, {"chunk": -1}, {"rank": "fifo"}])
def test_parameters(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="ttft_s is above 0"):
        FlowPrefill(**given)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be 0 or more"):
        FlowPrefill(sigma=-1.0)
