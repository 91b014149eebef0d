"""Short prompts and long ones in batches of their own."""

from __future__ import annotations

import pytest

from poise.core.action import ALL, UNTIL_CHANGE, Batch, Entry
from poise.core.units import ps
from poise.policies.batch.laps import Laps
from poise.testing import a_lane
from poise.testing.cost import LinearCost
from tests.policies.batch.test_chunked import decoding, prompts

COST = LinearCost(step_s=0.01, prompt_s=1e-4)


def at(batcher: Laps, seconds: float, *lengths: int) -> Batch:
    return batcher.compose(a_lane(waiting=prompts(*lengths), cost=COST, now=ps(seconds)))


def test_the_boundary_is_where_twice_the_tokens_take_half_as_long_again() -> None:
    """10 ms and 0.1 ms a token: 128 tokens take 22.8 ms, 256 take 35.6."""
    assert Laps().boundary(a_lane(cost=COST)) == 128
    assert Laps(short_tokens=99).boundary(a_lane(cost=COST)) == 99


def test_short_prompts_are_gathered_for_a_window() -> None:
    assert at(Laps(window_s=0.007), 0.0, 50, 60) == Batch((), ALL, UNTIL_CHANGE, wake_at=ps(0.007))
    assert at(Laps(window_s=0.007), 0.007, 50, 60).entries == (Entry(0, 50), Entry(1, 60))


def test_enough_of_them_go_at_once() -> None:
    assert len(at(Laps(depth=2), 0.0, 50, 60).entries) == 2


def test_a_deadline_ends_the_wait() -> None:
    assert at(Laps(window_s=1.0, ttft_s=0.3, margin_s=0.1), 0.2, 50).entries


def test_the_classes_take_turns() -> None:
    batcher = Laps(depth=1)
    assert [entry.request for entry in at(batcher, 0.0, 500, 50, 600, 60).entries] == [1, 3]
    assert [entry.request for entry in at(batcher, 0.0, 500, 50, 600, 60).entries] == [0]
    assert [entry.request for entry in at(batcher, 0.0, 500, 50, 600, 60).entries] == [1, 3]


def test_a_long_prompt_goes_while_short_ones_are_gathered() -> None:
    assert [entry.request for entry in at(Laps(), 0.0, 50, 500).entries] == [1]


def test_prompts_under_way_go_on() -> None:
    lane = a_lane(waiting=prompts(50), prefilling=[(each, 100) for each in prompts(400, first=7)], cost=COST)
    assert Laps().compose(lane).entries == (Entry(7, 300),)
    assert Laps().compose(a_lane(decoding=decoding(2))) == Batch((), ALL, UNTIL_CHANGE)


@pytest.mark.parametrize("given", [{"knee": 1.0}, {"depth": 0}, {"window_s": -1.0}])
def test_parameters(given: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"knee lies in|are 0 or more"):
        Laps(**given)  # type: ignore[arg-type]
