"""Prompts before decodes, on lanes in a given situation."""

from __future__ import annotations

from poise.core.action import ALL, NONE, UNTIL_CHANGE, UNTIL_HEAD, Batch, Entry
from poise.core.spec import Engine
from poise.policies.batch.prefill_first import PrefillFirst
from poise.testing import a_lane
from tests.policies.batch.test_chunked import decoding, prompts


def test_decodes_wait_while_prompts_are_computed() -> None:
    lane = a_lane(waiting=prompts(40, 50, 60), decoding=decoding(10), engine=Engine(token_budget=100))
    assert PrefillFirst().compose(lane) == Batch((Entry(0, 40), Entry(1, 50), Entry(2, 10)), NONE)


def test_running_prompts_go_before_waiting_ones() -> None:
    running = [(request, 30) for request in prompts(80, first=7)]
    lane = a_lane(waiting=prompts(40), prefilling=running, engine=Engine(token_budget=60))
    assert PrefillFirst().compose(lane).entries == (Entry(7, 50), Entry(0, 10))


def test_decodes_go_on_where_no_prompt_can() -> None:
    assert PrefillFirst().compose(a_lane(decoding=decoding(3))) == Batch((), ALL, UNTIL_CHANGE)
    full = a_lane(waiting=prompts(5), decoding=decoding(4), engine=Engine(max_sequences=4))
    assert PrefillFirst().compose(full) == Batch((), ALL, UNTIL_HEAD)
    blocked = a_lane(waiting=prompts(64, 1), decoding=decoding(1), blocks=5)
    assert PrefillFirst().compose(blocked) == Batch((), ALL, UNTIL_HEAD)
