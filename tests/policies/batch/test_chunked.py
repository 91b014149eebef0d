"""vLLM v1's batch on lanes in a given situation: decodes, running prompts, then admissions under one budget."""

from __future__ import annotations

import pytest

from poise.core.action import ALL, ONE_STEP, UNTIL_CHANGE, UNTIL_HEAD, Batch, Entry
from poise.core.spec import Engine, Lane
from poise.policies.batch.chunked import Chunked
from poise.testing import a_lane, a_request, check_batcher


def prompts(*lengths: int, first: int = 0) -> list:  # type: ignore[type-arg]
    """Waiting requests of these lengths, without identity."""
    return [a_request(id=first + place, prompt_tokens=length, ids=()) for place, length in enumerate(lengths)]


def decoding(count: int) -> list:  # type: ignore[type-arg]
    return [(a_request(id=100 + number, prompt_tokens=16, ids=()), 1) for number in range(count)]


def test_decodes_alone_are_held_until_something_changes() -> None:
    assert Chunked().batch(a_lane(decoding=decoding(3))) == Batch((), ALL, UNTIL_CHANGE)


def test_prompts_share_what_decodes_leave_of_the_budget() -> None:
    lane = a_lane(waiting=prompts(40, 50, 60), decoding=decoding(10), engine=Engine(token_budget=100))
    assert Chunked().batch(lane) == Batch((Entry(0, 40), Entry(1, 50)), ALL, ONE_STEP)
    lane = a_lane(waiting=prompts(40, 55, 60), decoding=decoding(10), engine=Engine(token_budget=100))
    assert Chunked().batch(lane).entries == (Entry(0, 40), Entry(1, 50)), "the last one in is cut"


def test_running_prompts_go_before_waiting_ones() -> None:
    running = [(request, 30) for request in prompts(80, first=7)]
    lane = a_lane(waiting=prompts(40), prefilling=running, engine=Engine(token_budget=60))
    assert Chunked().batch(lane).entries == (Entry(7, 50), Entry(0, 10))


def test_a_long_prompt_is_capped_in_each_step() -> None:
    running = [(request, 16) for request in prompts(80, first=7)]
    lane = a_lane(waiting=prompts(40, 5), prefilling=running, engine=Engine(token_budget=100))
    assert Chunked(long_prefill=20).batch(lane).entries == (Entry(7, 20), Entry(0, 20), Entry(1, 5))


def test_a_prompt_has_no_more_tokens_in_a_step_than_its_data_rank() -> None:
    lane = a_lane(waiting=prompts(40, 5), engine=Engine(token_budget=100, rank_budget=25))
    assert Chunked().batch(lane).entries == (Entry(0, 25), Entry(1, 5))
    assert Chunked(long_prefill=20).batch(lane).entries == (Entry(0, 20), Entry(1, 5))


def test_no_more_sequences_than_allowed() -> None:
    lane = a_lane(waiting=prompts(5, 5, 5), decoding=decoding(2), engine=Engine(max_sequences=4))
    assert Chunked().batch(lane).entries == (Entry(0, 5), Entry(1, 5))
    full = a_lane(waiting=prompts(5), decoding=decoding(4), engine=Engine(max_sequences=4))
    assert Chunked().batch(full) == Batch((), ALL, UNTIL_HEAD), "held until another heads the queue"


def test_the_first_that_does_not_fit_stops_the_scan() -> None:
    lane = a_lane(waiting=prompts(16, 64, 1), blocks=4)
    assert Chunked().batch(lane).entries == (Entry(0, 16),)
    blocked = a_lane(waiting=prompts(64, 1), decoding=decoding(1), blocks=5)
    assert Chunked().batch(blocked) == Batch((), ALL, UNTIL_HEAD)


@pytest.mark.parametrize(("reserve", "entries"), [(True, ()), (False, (Entry(0, 32),))])
def test_a_whole_prompt_is_reserved_or_only_its_chunk(reserve: bool, entries: tuple[Entry, ...]) -> None:
    lane = a_lane(waiting=prompts(80), blocks=4, engine=Engine(token_budget=32, reserve_prompt=reserve))
    assert Chunked().batch(lane).entries == entries


def test_cached_tokens_are_not_computed_again() -> None:
    first = a_request(id=1, prompt_tokens=64, ids=(9,))
    lane = a_lane(waiting=[first._replace(id=2, prompt_tokens=100)], decoding=[(first, 1)])
    assert Chunked().batch(lane).entries == (Entry(2, 36),)


def test_a_step_that_had_to_preempt_admits_no_request() -> None:
    lane = a_lane(waiting=prompts(16), decoding=decoding(1))
    lane.preempted = True
    assert Chunked().batch(lane) == Batch((), ALL, ONE_STEP)


def test_a_decode_lane_admits_no_prompt() -> None:
    engine = Engine(lanes=(Lane("d", False, True, 0.5), Lane("p", True, False, 0.5)))
    lane = a_lane(waiting=prompts(16), decoding=decoding(1), engine=engine)
    assert (lane.spec.name, Chunked().batch(lane)) == ("d", Batch((), ALL, UNTIL_CHANGE))


def test_it_is_a_batcher() -> None:
    check_batcher(Chunked, seed=1)
