"""Batches composed one step ahead: who arrives while a step runs misses the next one too."""

from __future__ import annotations

from poise.core.action import ALL, ONE_STEP, UNTIL_CHANGE, UNTIL_HEAD, Batch, Entry
from poise.core.spec import Engine
from poise.policies.batch.asynchronous import Asynchronous
from poise.policies.batch.chunked import Chunked
from poise.testing import a_lane, check_batcher
from tests.policies.batch.test_chunked import decoding, prompts


def test_an_engine_without_work_takes_requests_at_once() -> None:
    lane = a_lane(waiting=prompts(40, 50))
    assert Asynchronous().batch(lane) == Chunked().batch(lane) == Batch((Entry(0, 40), Entry(1, 50)))


def test_a_busy_engine_takes_them_a_step_later() -> None:
    batcher, lane = Asynchronous(), a_lane(waiting=prompts(40, 50), decoding=decoding(3))
    assert batcher.batch(lane) == Batch((), ALL, ONE_STEP)
    late = a_lane(waiting=prompts(40, 50, 60), decoding=decoding(3))
    assert batcher.batch(late).entries == (Entry(0, 40), Entry(1, 50)), "the third came during this step"
    assert batcher.batch(a_lane(waiting=prompts(60, first=2), decoding=decoding(5))).entries == (Entry(2, 60),)


def test_running_prompts_do_not_wait() -> None:
    running = [(request, 30) for request in prompts(80, first=7)]
    lane = a_lane(waiting=prompts(40), prefilling=running)
    assert Asynchronous().batch(lane).entries == (Entry(7, 50),)


def test_decodes_alone_are_held_and_so_is_a_head_that_finds_no_room() -> None:
    assert Asynchronous().batch(a_lane(decoding=decoding(3))) == Batch((), ALL, UNTIL_CHANGE)
    batcher, engine = Asynchronous(), Engine(max_sequences=4)
    full = a_lane(waiting=prompts(5), decoding=decoding(4), engine=engine)
    assert batcher.batch(full) == Batch((), ALL, ONE_STEP), "not known to be blocked yet"
    assert batcher.batch(full) == Batch((), ALL, UNTIL_HEAD)
    freed = a_lane(waiting=prompts(5, 6), decoding=decoding(2), engine=engine)
    assert batcher.batch(freed).entries == (Entry(0, 5), Entry(1, 6)), "behind a blocked head nobody is new"


def test_it_keeps_every_rule_of_a_batcher() -> None:
    check_batcher(Asynchronous, seed=1)
    check_batcher(Asynchronous, seed=2)
