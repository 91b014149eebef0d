"""Chunks as large as a token's time allows, by relative slack."""

from __future__ import annotations

import pytest

from poise.core.estimate import Chunk
from poise.core.spec import Engine
from poise.core.units import ps
from poise.policies.batch.medha import Medha
from poise.testing import a_lane, a_request
from poise.testing.cost import LinearCost
from tests.policies.batch.test_chunked import decoding, prompts

COST = LinearCost(step_s=0.01, prompt_s=1e-4)
ENGINE = Engine(token_budget=10_000)


def test_a_chunk_is_the_largest_that_is_in_time() -> None:
    lane = a_lane(waiting=prompts(5000), decoding=decoding(4), cost=COST, engine=ENGINE)
    (entry,) = Medha(tbt_s=0.05, least=1).batch(lane).entries
    assert entry.tokens == 400
    (entry,) = Medha(tbt_s=0.05, least=32).batch(lane).entries
    assert 400 - 32 < entry.tokens <= 400
    assert lane.predict((Chunk(entry.tokens, 0),)) <= ps(0.05)


def test_some_chunk_goes_even_where_none_is_in_time() -> None:
    lane = a_lane(waiting=prompts(5000), decoding=decoding(4), cost=COST, engine=ENGINE)
    assert [entry.tokens for entry in Medha(tbt_s=0.005).batch(lane).entries] == [32]


def two(now: float = 0.0) -> list:  # type: ignore[type-arg]
    """A long prompt of 10 s due in 16 s and a short one of 0.5 s due in 1 s: 0.6 and 1.0 of relative slack."""
    return [
        a_request(id=0, prompt_tokens=100_000, ids=(), deadline_at=ps(16.001)),
        a_request(id=1, prompt_tokens=5000, ids=(), arrived_at=0, deadline_at=ps(1.01)),
    ]


@pytest.mark.parametrize(("rank", "first"), [("lars", 0), ("lrs", 1), ("edf", 1), ("fcfs", 0)])
def test_relative_slack_lets_the_short_one_wait(rank: str, first: int) -> None:
    lane = a_lane(waiting=two(), cost=COST, engine=ENGINE, blocks=10_000)
    batcher = Medha(tbt_s=0.05, rank=rank, long_tokens=0)  # type: ignore[arg-type]
    assert batcher.batch(lane).entries[0].request == first


def test_a_long_prompt_leaves_a_part_of_the_step_to_short_ones() -> None:
    """It yields half of the 40 ms: 0.6 of slack is capped."""
    lane = a_lane(waiting=two(), cost=COST, engine=ENGINE, blocks=10_000)
    entries = Medha(tbt_s=0.05, least=1).batch(lane).entries
    assert [entry.request for entry in entries] == [0, 1]
    assert [entry.tokens for entry in entries] == [200, 200]


def test_one_long_prompt_at_a_time() -> None:
    lane = a_lane(waiting=prompts(9000, 9000), cost=COST, engine=ENGINE)
    assert [entry.request for entry in Medha(tbt_s=0.05).batch(lane).entries] == [0]


@pytest.mark.parametrize("given", [{"tbt_s": 0.0}, {"least": 0}, {"most_yield": 1.0}, {"rank": "sjf"}])
def test_parameters(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"tbt_s and ttft_s are above 0|most_yield lies in"):
        Medha(**given)  # type: ignore[arg-type]
