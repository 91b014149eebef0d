"""Stages that a pipeline would train wrongly, or cannot run, are refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from poise.core.errors import ScheduleError
from poise.pipeline import make
from poise.runtime import Pipeline
from poise.runtime.given import check_tied
from tests.runtime.pool import Pool


def tied() -> list[nn.Module]:
    """Four stages, the first and the last of which share a weight, as an embedding and a head do."""
    layers = [nn.Linear(4, 4, bias=False) for _ in range(4)]
    layers[3].weight = layers[0].weight
    return [nn.Sequential(layer, nn.Tanh()) for layer in layers]


def test_a_weight_in_two_stages_is_refused() -> None:
    with pytest.raises(ScheduleError, match=r"^stage 0 and stage 3 share the weight 0.weight \(0.weight\)"):
        check_tied(tied())
    stages = tied()
    with pytest.raises(ScheduleError, match="stage 1 and stage 7 share"):
        check_tied({1: stages[0], 7: stages[3]})
    layer = nn.Linear(4, 4)
    other = nn.Linear(4, 4)
    other.weight = nn.Parameter(layer.weight.data)  # another object with the same values in memory
    with pytest.raises(ScheduleError, match="stage 0 and the output layer share the weight weight"):
        check_tied([layer], other)


def test_a_weight_used_twice_in_one_stage_is_none_of_two() -> None:
    layer = nn.Linear(4, 4)
    check_tied([nn.Sequential(layer, nn.Tanh(), layer), nn.Linear(4, 4)])
    whole = torch.zeros(2, 4, 4)  # parts of one buffer are weights of their own
    parts = [nn.Linear(4, 4, bias=False) for _ in range(2)]
    for part, values in zip(parts, whole, strict=True):
        part.weight = nn.Parameter(values)
    check_tied(parts)
    check_tied([nn.Linear(4, 4, device="meta"), nn.Linear(4, 4, device="meta")])


def refused(stages: list[nn.Module]) -> str:
    """What a pipeline says of them."""
    try:
        Pipeline(make("one_f_one_b", 4, 4), stages, nn.functional.mse_loss)
    except ScheduleError as error:
        return str(error)
    return ""


def test_a_pipeline_refuses_them_on_every_rank(pool: Pool) -> None:
    assert all("stage 0 and stage 3 share" in expected for expected in pool.run(refused, tied()))
