"""Prompts before decodes, on lanes in a given situation."""

from __future__ import annotations

import pytest

from poise.core.action import ALL, NONE, ONE_STEP, UNTIL_CHANGE, UNTIL_HEAD, Batch, Entry
from poise.core.spec import Engine
from poise.policies.batch.prefill_first import PrefillFirst
from poise.testing import a_lane, check_batcher
from tests.policies.batch.test_chunked import decoding, prompts


def test_decodes_wait_while_prompts_are_computed() -> None:
    lane = a_lane(waiting=prompts(40, 50, 60), decoding=decoding(10), engine=Engine(token_budget=100))
    assert PrefillFirst().batch(lane) == Batch((Entry(0, 40), Entry(1, 50), Entry(2, 10)), NONE)


def test_running_prompts_go_before_waiting_ones() -> None:
    running = [(request, 30) for request in prompts(80, first=7)]
    lane = a_lane(waiting=prompts(40), prefilling=running, engine=Engine(token_budget=60))
    assert PrefillFirst().batch(lane).entries == (Entry(7, 50), Entry(0, 10))


def test_what_another_replica_computed_is_decoded_beside_the_others() -> None:
    """All but the last token of such a prompt is there; a prompt beside it is still computed alone."""
    handed_over = [(request, 79) for request in prompts(80, 80, first=7)]
    lane = a_lane(prefilling=handed_over, decoding=decoding(4))
    assert PrefillFirst().batch(lane) == Batch((Entry(7, 1), Entry(8, 1)), ALL)
    half = [(request, 40) for request in prompts(80, first=9)]
    lane = a_lane(prefilling=[*handed_over, *half], decoding=decoding(4))
    assert PrefillFirst().batch(lane).decode == NONE
    lane = a_lane(waiting=prompts(30), prefilling=handed_over, decoding=decoding(4))
    assert PrefillFirst().batch(lane) == Batch((Entry(7, 1), Entry(8, 1), Entry(0, 30)), NONE)


def test_decodes_go_on_where_no_prompt_can() -> None:
    assert PrefillFirst().batch(a_lane(decoding=decoding(3))) == Batch((), ALL, UNTIL_CHANGE)
    full = a_lane(waiting=prompts(5), decoding=decoding(4), engine=Engine(max_sequences=4))
    assert PrefillFirst().batch(full) == Batch((), ALL, UNTIL_HEAD)
    blocked = a_lane(waiting=prompts(64, 1), decoding=decoding(1), blocks=5)
    assert PrefillFirst().batch(blocked) == Batch((), ALL, UNTIL_HEAD)


def test_the_queue_is_read_once_in_so_many_decode_steps() -> None:
    """SGLang's --scheduler-recv-interval: at multiples of it, and at once after a step with prompts."""
    batcher = PrefillFirst(recv_interval=3)
    lane = a_lane(waiting=prompts(40), decoding=decoding(2))
    assert batcher.batch(lane).entries == (Entry(0, 40),), "the first look is at once"
    assert batcher.batch(lane).entries, "no decode step since"
    for _ in range(2):
        lane.group.step += 1
        assert batcher.batch(lane) == Batch((), ALL, ONE_STEP)
    lane.group.step += 1
    assert batcher.batch(lane).entries == (Entry(0, 40),)


def test_reads_at_once_where_nothing_decodes_and_goes_on_with_running_prompts() -> None:
    batcher = PrefillFirst(recv_interval=100)
    running = [(request, 30) for request in prompts(80, first=7)]
    lane = a_lane(waiting=prompts(8), prefilling=running, decoding=decoding(1))
    lane.group.step += 1
    assert batcher.batch(lane).entries == (Entry(7, 50),)
    idle = a_lane(waiting=prompts(8))
    idle.group.step += 1
    assert batcher.batch(idle).entries == (Entry(0, 8),)


def test_they_are_batchers() -> None:
    check_batcher(PrefillFirst, seed=3)
    check_batcher(lambda: PrefillFirst(recv_interval=4), seed=3)
    with pytest.raises(ValueError, match="recv_interval 0 is below 1"):
        PrefillFirst(recv_interval=0)
