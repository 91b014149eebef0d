"""Post-validated steps leave the weights of synchronous clipping, whoever has the large gradient."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from poise.pipeline import make
from poise.runtime import Pipeline
from poise.runtime.late import LateNorm
from poise.runtime.norm import clip, scale
from tests.runtime.cases import RANKS
from tests.runtime.pool import Pool

STEPS = 4
MOST = 1.0


def _loss(y: Tensor, target: Tensor) -> Tensor:
    return ((y - target) ** 2).mean()


def _train(late: bool, where: int, by: float) -> tuple[list[Tensor], int]:
    """Gradients of the stage `where` are multiplied by `by` in the third step."""
    torch.manual_seed(5)
    modules = [nn.Sequential(nn.Linear(6, 6), nn.Tanh()).double() for _ in range(RANKS)]
    pipeline = Pipeline(make("zb_h2", RANKS, 8), modules, _loss)
    parts = {str(number): stage.module for number, stage in pipeline.stages.items()}
    optimizers = {name: torch.optim.AdamW(part.parameters(), lr=0.05) for name, part in parts.items()}
    norm = LateNorm(pipeline, parts, optimizers, MOST)
    for step in range(STEPS):
        draw = torch.Generator().manual_seed(step)
        norm.settle()
        pipeline.step(*(torch.randn(8, 6, generator=draw, dtype=torch.float64) for _ in range(2)))
        for number, stage in pipeline.stages.items():
            scale(stage.module.parameters(), by if step == 2 and number == where else 0.01)
        if late:
            norm.step()
        elif math.isfinite(clip(pipeline, parts.values(), MOST)):
            for optimizer in optimizers.values():
                optimizer.step()
    norm.settle()
    return [weight.detach() for part in parts.values() for weight in part.parameters()], norm.corrected


@pytest.mark.parametrize(
    ("where", "by", "corrected"),
    [
        (3, 1e4, [1, 1, 1, 0]),
        pytest.param(0, 1e4, [1, 1, 1, 0], marks=pytest.mark.slow),
        (2, math.nan, [1, 1, 0, 0]),
        pytest.param(1, 0.01, [0, 0, 0, 0], marks=pytest.mark.slow),
    ],
)
def test_the_weights_are_those_of_synchronous_clipping(pool: Pool, where: int, by: float, corrected: list[int]) -> None:
    true = pool.run(partial(_train, False), where, by)
    found = pool.run(partial(_train, True), where, by)
    for (mine, _), (theirs, _) in zip(found, true, strict=True):
        for one, two in zip(mine, theirs, strict=True):
            assert torch.allclose(one, two, rtol=0, atol=1e-12)
    assert [times > 0 for _, times in found] == [times > 0 for times in corrected]
