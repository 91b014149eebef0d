"""The policies of an engine, as vLLM's additional configuration names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from poise.core.errors import UserError
from poise.core.estimate import Chunk, StepShape
from poise.core.units import SECOND
from poise.cost.fitted import Fitted, save_fitted
from poise.policies.batch.chunked import Chunked
from poise.policies.batch.prefill_first import PrefillFirst
from poise.policies.preempt.last_admitted import LastAdmitted
from poise.policies.queue.priority import Priority
from poise.scenario.serve.inside import policies


def test_what_is_not_named_is_as_in_vllm() -> None:
    found, step = policies({})
    assert (found.batcher, found.preempt, found.queue, found.cache, step) == (
        Chunked(),
        LastAdmitted(),
        None,
        None,
        None,
    )
    assert policies({"batcher": None}) == policies({})


def test_policies_are_named_as_in_a_scenario() -> None:
    found, _ = policies({"batcher": {"prefill_first": {"tokens": 512}}, "queue": "priority"})
    assert found.batcher == PrefillFirst(tokens=512)
    assert isinstance(found.queue, Priority)


def test_a_cost_is_a_file_of_calibration(tmp_path: Path) -> None:
    save_fitted(Fitted(0.01, 0.001, 0.0, 0.002, 0.0001), tmp_path / "cost.json")
    _, step = policies({"cost": str(tmp_path / "cost.json")})
    assert step is not None
    piece = step(StepShape(3, (Chunk(10, 0),), 1.0))
    assert (piece.base, piece.per_kv) == (26 * SECOND // 1000, SECOND // 10_000)
    with pytest.raises(UserError, match="give a file that `poise calibrate` wrote"):
        policies({"cost": str(tmp_path / "none.json")})


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ("chunked", "'chunked' is not a mapping; give {SLOT: NAME}"),
        ({"router": "pull"}, "'router' is not a policy of an engine; it may name queue, batcher, preempt, cache, cost"),
        ({"batcher": ["chunked"]}, "batcher: ['chunked'] names no policy"),
        ({"batcher": "chunky"}, "policies.batcher: 'chunky' is no batcher; did you mean chunked"),
        ({"batcher": {"chunked": {"token": 5}}}, "unknown parameter 'token'; did you mean tokens"),
    ],
)
def test_what_names_no_policy_is_refused(chosen: Any, message: str) -> None:
    with pytest.raises(UserError) as caught:
        policies(chosen)
    assert message in str(caught.value)
