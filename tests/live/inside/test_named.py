"""The policies of an engine, as vLLM's additional configuration names them."""

from __future__ import annotations

from typing import Any

import pytest

from poise.core.errors import UserError
from poise.policies.batch.chunked import Chunked
from poise.policies.batch.prefill_first import PrefillFirst
from poise.policies.preempt.last_admitted import LastAdmitted
from poise.policies.queue.priority import Priority
from poise.scenario.serve.inside import policies


def test_what_is_not_named_is_as_in_vllm() -> None:
    assert policies({}) == {"batcher": Chunked(), "preempt": LastAdmitted()}
    assert policies({"batcher": None}) == policies({})


def test_policies_are_named_as_in_a_scenario() -> None:
    found = policies({"batcher": {"prefill_first": {"tokens": 512}}, "queue": "priority"})
    assert found["batcher"] == PrefillFirst(tokens=512)
    assert isinstance(found["queue"], Priority)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("chunked", "'chunked' is no mapping; give {SLOT: NAME}"),
        ({"router": "pull"}, "'router' is no policy of an engine; it may name batcher, queue, preempt, cache"),
        ({"batcher": ["chunked"]}, "batcher: ['chunked'] names no policy"),
        ({"batcher": "chunky"}, "policies.batcher: 'chunky' is no batcher; did you mean chunked"),
        ({"batcher": {"chunked": {"token": 5}}}, "unknown parameter 'token'; did you mean tokens"),
    ],
)
def test_what_names_no_policy_is_refused(told: Any, said: str) -> None:
    with pytest.raises(UserError) as caught:
        policies(told)
    assert said in str(caught.value)
