"""A queue planned by its prefixes."""

from __future__ import annotations

import pytest

from poise.policies.batch.batch_llm import BatchLlm
from poise.testing import a_lane, a_request


def order(*requests: object, batcher: BatchLlm | None = None) -> list[int]:
    lane = a_lane(waiting=requests)  # type: ignore[arg-type]
    return [sequence.id for sequence in (batcher or BatchLlm())._ready(lane)]


def test_requests_of_a_prefix_go_together() -> None:
    shared = [a_request(id=number, ids=(7 + number % 2,), ends=(64,), prompt_tokens=100) for number in range(4)]
    assert order(*shared) == [0, 2, 1, 3]


def test_the_prefix_that_saves_most_makes_the_group() -> None:
    """All three share 16 tokens, which saves 32; two of them share 64, which saves 64."""
    requests = [
        a_request(id=0, ids=(1, 2), ends=(16, 64), prompt_tokens=100),
        a_request(id=1, ids=(1,), ends=(16,), prompt_tokens=100),
        a_request(id=2, ids=(1, 2), ends=(16, 64), prompt_tokens=100),
    ]
    assert order(*requests) == [0, 2, 1]


def test_groups_with_much_to_decode_go_first() -> None:
    requests = [a_request(id=number, ids=(), prompt_tokens=100, predicted_tokens=number * 10) for number in (1, 3, 2)]
    assert order(*requests) == [3, 2, 1]


def test_a_newcomer_changes_the_plan() -> None:
    batcher = BatchLlm()
    requests = [a_request(id=number, ids=(number,), ends=(64,), prompt_tokens=100) for number in range(3)]
    assert order(*requests, batcher=batcher) == [0, 1, 2]
    assert order(*requests, a_request(id=3, ids=(0,), ends=(64,), prompt_tokens=100), batcher=batcher) == [0, 3, 1, 2]


def test_parameters() -> None:
    with pytest.raises(ValueError, match="give 1 or more"):
        BatchLlm(outputs=0)
