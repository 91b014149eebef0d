"""SGLang's batches in given situations, by the arithmetic of its admission."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from poise.core.action import ALL, NONE, UNTIL_CHANGE, UNTIL_HEAD, Batch, Entry
from poise.core.request import RequestView
from poise.core.spec import Engine
from poise.policies.batch.sglang import SGLang
from poise.policies.kit.new_tokens import CLIP, DECAY_STEPS, INIT, LEAST, NewTokenRatio
from poise.testing import a_lane, a_request, check_batcher

ONE = Engine(token_budget=100, block_tokens=1, prefix_caching=False)


def limited(*sizes: tuple[int, int], first: int = 0) -> list[RequestView]:
    return [a_request(id=first + row, prompt_tokens=p, max_tokens=limit) for row, (p, limit) in enumerate(sizes)]


def test_decodes_wait_and_one_prompt_is_cut() -> None:
    lane = a_lane(waiting=limited((40, 5), (50, 5), (60, 5)), decoding=[(limited((8, 9), first=9)[0], 1)], engine=ONE)
    assert SGLang().batch(lane) == Batch((Entry(0, 40), Entry(1, 50), Entry(2, 10)), NONE)
    assert SGLang(mixed=True).batch(lane) == Batch((Entry(0, 40), Entry(1, 50), Entry(2, 9)), ALL)


def test_whole_prompts_end_at_the_most_prompt_tokens() -> None:
    lane = a_lane(waiting=limited((90, 5), (50, 5)), engine=ONE)
    whole = SGLang(chunked=False, max_prefill=120)
    assert whole.batch(lane).entries == (Entry(0, 90),)
    assert SGLang(chunked=False, max_prefill=60).batch(lane).entries == (Entry(0, 90),), "the first one may be larger"
    assert SGLang(chunked=False, max_prefill=141).batch(lane).entries == (Entry(0, 90), Entry(1, 50))


@pytest.mark.parametrize("spare", [0, 1])
def test_a_request_needs_its_prompt_its_output_and_a_page(spare: int) -> None:
    """A running request may make 99 tokens more; 0.7 of them are kept, all of them if the end token is ignored."""
    for ratio, settings in ((0.7, {}), (1.0, {"ignore_eos": True})):
        blocks = 10 + int(99 * ratio + 0.999) + (30 + 20 + 1) + spare
        running = limited((10, 100), first=5)[0]
        lane = a_lane(waiting=limited((30, 20)), decoding=[(running, 1)], engine=Engine(block_tokens=1), blocks=blocks)
        batch = SGLang(**settings).batch(lane)  # type: ignore[arg-type]
        fits = 99 * ratio + 51 < blocks - 10
        assert batch == (Batch((Entry(0, 30),), NONE) if fits else Batch((), ALL, UNTIL_HEAD))


def test_after_one_that_found_no_room_none_is_tried_until_one_leaves() -> None:
    batcher = SGLang()
    running = [(each, 1) for each in limited((10, 40), (10, 40), first=5)]
    waiting = limited((30, 60))
    lane = a_lane(waiting=waiting, decoding=running, engine=Engine(block_tokens=1), blocks=150)
    assert batcher.batch(lane) == Batch((), ALL, UNTIL_HEAD)
    lane.replica.pool.resize(1000)
    assert batcher.batch(lane) == Batch((), ALL, UNTIL_HEAD), "not before one leaves"
    alone = a_lane(waiting=waiting, decoding=running[:1], engine=Engine(block_tokens=1), blocks=1150)
    assert batcher.batch(alone).entries == (Entry(0, 30),)


def test_decodes_go_on_where_there_is_no_prompt() -> None:
    assert SGLang().batch(a_lane(decoding=[(a_request(id=1), 1)])) == Batch((), ALL, UNTIL_CHANGE)


def test_the_ratio_falls_to_its_least_and_begins_anew() -> None:
    ratio = NewTokenRatio(1.0)
    assert ratio.current == INIT
    ratio.follow(DECAY_STEPS // 2, idle=False)
    assert ratio.current == pytest.approx(INIT * (1 + LEAST) / 2)
    ratio.follow(10 * DECAY_STEPS, idle=False)
    assert ratio.current == pytest.approx(INIT * LEAST)
    ratio.follow(10 * DECAY_STEPS + 1, idle=True)
    assert ratio.current == INIT
    assert NewTokenRatio(9.0).current == 1.0


def test_after_a_retraction_it_is_what_the_rest_have_made_and_some_steps() -> None:
    ratio = NewTokenRatio(1.0)
    lane = a_lane(decoding=[(each, 30) for each in limited((10, 200), (10, 300), first=5)])
    ratio.estimate(lane)
    assert ratio.current == pytest.approx((30 + 30 + 2 * 20) / (200 + 300 + 1))


def test_without_a_limit_so_much_of_an_output_is_expected() -> None:
    lane = a_lane(waiting=[a_request(id=0, prompt_tokens=10)], engine=Engine(block_tokens=1), blocks=CLIP + 12)
    assert SGLang().batch(lane).entries == (Entry(0, 10),)


@pytest.mark.parametrize("order, first", [("fcfs", 0), ("lof", 1), ("priority", 2)])
def test_orders(order: str, first: int) -> None:
    waiting = [
        a_request(id=row, prompt_tokens=8, max_tokens=limit, priority=priority)
        for row, (limit, priority) in enumerate([(5, 4), (9, 3), (7, 1)])
    ]
    assert SGLang(order=order, prefills=1).batch(a_lane(waiting=waiting)).entries == (Entry(first, 8),)


@pytest.mark.parametrize("wrong", [{"order": "dfs"}, {"conservativeness": 0.0}, {"recv_interval": 0}])
def test_refuses_wrong_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=str(next(iter(wrong)))):
        SGLang(**wrong)


@pytest.mark.parametrize("settings", [{}, {"mixed": True}, {"ignore_eos": True}, {"order": "lpm"}])
def test_is_a_batcher(settings: dict[str, Any]) -> None:
    check_batcher(partial(SGLang, **settings), cases=40)
