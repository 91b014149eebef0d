"""Prompts gathered: held while decodes run, until enough wait or time is up."""

from __future__ import annotations

import pytest

from poise.core.action import ALL, ONE_STEP, Batch, Entry
from poise.core.spec import Engine
from poise.policies.batch.chunked import Chunked
from poise.policies.batch.gathered import Gathered
from poise.testing import a_lane, check_batcher
from poise.testing.rule import RuleBroken
from tests.policies.batch.test_chunked import decoding, prompts

HELD = Batch((), ALL, ONE_STEP)


def test_without_parameters_it_is_chunked() -> None:
    lane = a_lane(waiting=prompts(40, 50), decoding=decoding(10), engine=Engine(token_budget=60))
    assert Gathered().batch(lane) == Chunked().batch(lane)


def test_a_prompt_waits_for_so_many_decode_steps() -> None:
    gathered = Gathered(timeout_iters=3, ranks=2)
    lane = a_lane(waiting=prompts(40), decoding=decoding(10))
    for _ in range(3):
        assert gathered.batch(lane) == HELD
        lane.group.step += 1
    assert gathered.batch(lane).entries == (Entry(0, 40),)
    assert gathered.batch(lane) == HELD, "the next wait begins anew"


def test_every_rank_wants_a_prompt() -> None:
    """Two ranks have one each after three prompts in the mean: 2 · (1 + 1/2)."""
    gathered = Gathered(timeout_iters=100, ranks=2)
    assert gathered.batch(a_lane(waiting=prompts(8, 8), decoding=decoding(1))) == HELD
    assert len(gathered.batch(a_lane(waiting=prompts(8, 8, 8), decoding=decoding(1))).entries) == 3


def test_a_part_of_the_budget_ends_the_wait() -> None:
    gathered = Gathered(timeout_iters=100, max_tokens_ratio=0.8)
    engine = Engine(token_budget=100)
    assert gathered.batch(a_lane(waiting=prompts(35, 34), decoding=decoding(10), engine=engine)) == HELD
    assert gathered.batch(a_lane(waiting=prompts(35, 35), decoding=decoding(10), engine=engine)).entries


def test_nothing_is_held_where_nothing_decodes_or_a_prompt_is_under_way() -> None:
    gathered = Gathered(timeout_iters=100, ranks=8)
    assert gathered.batch(a_lane(waiting=prompts(8))).entries == (Entry(0, 8),)
    running = [(request, 30) for request in prompts(80, first=7)]
    assert gathered.batch(a_lane(waiting=prompts(8), prefilling=running, decoding=decoding(1))).entries


def test_it_is_a_batcher() -> None:
    check_batcher(lambda: Gathered(timeout_iters=5, ranks=3, max_tokens_ratio=0.5), seed=2)


def test_a_hold_that_is_too_long_would_be_found() -> None:
    class Forgetful(Gathered):
        def batch(self, lane):  # type: ignore[no-untyped-def]
            batch = Gathered.batch(self, lane)
            return batch._replace(hold=2) if batch == HELD else batch

    with pytest.raises(RuleBroken, match="holds a batch longer"):
        check_batcher(lambda: Forgetful(timeout_iters=5, ranks=3), seed=2)


@pytest.mark.parametrize("given", [{"timeout_iters": -1}, {"ranks": 0}, {"max_tokens_ratio": 1.5}])
def test_parameters(given: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="timeout_iters is 0 or more"):
        Gathered(**given)  # type: ignore[arg-type]
