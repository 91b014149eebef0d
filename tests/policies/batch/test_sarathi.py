"""Stall-free batches under a budget that is found."""

from __future__ import annotations

import pytest

from poise.core.action import ALL, NONE
from poise.core.spec import Engine
from poise.policies.batch.chunked import Chunked
from poise.policies.batch.sarathi import Sarathi
from poise.testing import a_lane
from poise.testing.cost import LinearCost
from tests.policies.batch.test_chunked import decoding, prompts

COST = LinearCost(step_s=0.01, prompt_s=1e-4, kv_s=1e-7)


def test_the_budget_is_the_largest_whose_step_is_in_time() -> None:
    """10 ms, 12.8 ms for the decodes' KV, and 0.1 ms a prompt token: 772 tokens beside 32 decodes are in time."""
    lane = a_lane(cost=COST, engine=Engine(token_budget=8192))
    batcher = Sarathi(tbt_s=0.1, decodes=32, context=4000)
    assert batcher.profiled(lane) == 768
    assert Sarathi(tbt_s=0.1, decodes=32, context=4000, tile=1).profiled(lane) == 772 + 32
    assert Sarathi(tbt_s=0.001).profiled(lane) == 128
    assert Sarathi(tbt_s=9.0).profiled(lane) == 8192


def test_it_is_chunked_under_that_budget() -> None:
    lane = a_lane(waiting=prompts(900, 50), decoding=decoding(10), cost=COST)
    assert Sarathi(decodes=32, context=4000).batch(lane) == Chunked(768).batch(lane)


def test_prompts_and_decodes_take_turns_where_they_do_not_mix() -> None:
    batcher = Sarathi(64, mixed=False)
    lane = a_lane(waiting=prompts(900), decoding=decoding(10))
    assert [batcher.batch(lane).decode for _ in range(3)] == [NONE, ALL, NONE]


def test_parameters() -> None:
    with pytest.raises(ValueError, match="tbt_s is above 0"):
        Sarathi(tbt_s=0.0)
