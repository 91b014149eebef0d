"""Cohorts of prompts, group of layers by group of layers."""

from __future__ import annotations

import pytest

from poise.core.action import ALL, UNTIL_CHANGE, Batch, Entry
from poise.core.spec import Engine
from poise.policies.batch.layered_prefill import LayeredPrefill
from poise.testing import a_lane
from tests.policies.batch.test_chunked import decoding, prompts


@pytest.mark.parametrize(
    ("groups", "ladder"), [(16, [1, 2, 4, 8, 16]), (24, [1, 2, 4, 8, 24]), (12, [1, 2, 4, 6, 12]), (4, [1, 2, 4, 4, 4])]
)
def test_groups_double_with_the_tokens(groups: int, ladder: list[int]) -> None:
    """The authors' ladders, at 512, 1024, 2048, 4096 tokens and more."""
    batcher = LayeredPrefill(groups)
    assert [batcher.cut(tokens) for tokens in (512, 1024, 2048, 4096, 4097)] == ladder


def test_a_cohort_passes_a_group_in_each_step_beside_all_decodes() -> None:
    lane = a_lane(waiting=prompts(1000, 1000), decoding=decoding(3), layers=48, engine=Engine(token_budget=8192))
    batcher = LayeredPrefill()
    assert batcher.batch(lane) == Batch((Entry(0, 1000, 0, 12), Entry(1, 1000, 0, 12)), ALL)


def test_no_request_joins_before_the_last_group() -> None:
    engine = Engine(token_budget=8192)
    lane = a_lane(
        waiting=prompts(9), prefilling=[(each, 0) for each in prompts(2000, first=7)], layers=10, engine=engine
    )
    batcher = LayeredPrefill(groups=4)
    assert batcher.batch(lane) == Batch((Entry(7, 2000, 0, 2), Entry(0, 9, 0, 2)))
    lane.prefilling[0].layer, lane.prefilling[0].chunk = 5, 2000
    assert batcher.batch(lane) == Batch((Entry(7, 2000, 5, 7),))


def test_a_cohort_is_cut_at_the_budget() -> None:
    lane = a_lane(waiting=prompts(600, 600, 600), engine=Engine(token_budget=1000), layers=4)
    assert LayeredPrefill().batch(lane).entries == (Entry(0, 600, 0, 2), Entry(1, 400, 0, 2))


def test_decodes_alone_are_held() -> None:
    assert LayeredPrefill().batch(a_lane(decoding=decoding(3))) == Batch((), ALL, UNTIL_CHANGE)


@pytest.mark.parametrize("given", [{"groups": 0}, {"tokens": 0}, {"budget": -1}])
def test_parameters(given: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="groups and tokens are 1 or more"):
        LayeredPrefill(**given)
