"""Models in a pipeline have the loss and all gradients of one process, tied weights and packed documents included."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from poise.core.errors import ScheduleError
from tests.runtime.models.configs import CONFIGS
from tests.runtime.models.truth import alone, made, piped
from tests.runtime.pool import Pool

FAST = [
    ("llama, tied, biases, llama3", "zb_h1"), ("qwen3_moe", "one_f_one_b"), ("deepseek_v2_lite", "zb_h1"),
    ("gpt2", "chimera"),
]  # fmt: skip
SLOW = [(name, schedule) for name in CONFIGS for schedule in ("one_f_one_b", "zb_h1", "chimera")]


def check(pool: Pool, config: dict[str, Any], schedule: str, change: str = "") -> None:
    loss, gradients = alone(config)
    flat = torch.cat([each.flatten() for each in gradients.values()])
    seen = set()
    for found, parts, norms in pool.run(piped, config, schedule, change):
        assert found == pytest.approx(loss, abs=1e-10)
        assert norms == pytest.approx((flat.norm().item(), flat.abs().sum().item()), rel=1e-10)
        for weight, copies in parts.items():
            seen.add(weight)
            assert all(float((each - gradients[weight]).abs().max()) < 1e-10 for each in copies), weight
    assert seen == set(gradients)


@pytest.mark.parametrize(("name", "schedule"), FAST)
def test_gradients_are_those_of_one_process(pool: Pool, name: str, schedule: str) -> None:
    check(pool, CONFIGS[name], schedule)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "schedule"), SLOW)
def test_gradients_of_every_family(pool: Pool, name: str, schedule: str) -> None:
    check(pool, CONFIGS[name], schedule)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["qwen2", "qwen3_moe"])
def test_tied_weights_in_a_wave(pool: Pool, name: str) -> None:
    """Eight stages: the first and the last are on one rank."""
    check(pool, {**CONFIGS[name], "num_hidden_layers": 4}, "zb_v")


@pytest.mark.parametrize("change", ["recompute", pytest.param("compile", marks=pytest.mark.slow)])
def test_checkpointed_and_compiled_segments_have_the_same_gradients(pool: Pool, change: str) -> None:
    check(pool, CONFIGS["llama, tied, biases, llama3"], "zb_h1", change)


def test_too_many_stages_are_refused() -> None:
    with pytest.raises(ScheduleError, match=r"the model has 6 segments, the schedule 7 stages; give a larger model"):
        made(CONFIGS["llama"], 7)
