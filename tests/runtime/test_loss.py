"""The loss is that of the tokens, the loss scale follows GradScaler, and only matrices decay."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from poise.pipeline import make
from poise.runtime import Pipeline
from poise.runtime.groups import groups
from poise.runtime.loss import IGNORED, TokenLoss
from poise.runtime.norm import norms
from poise.runtime.scale import LossScale
from tests.runtime.pool import Pool

MICROBATCHES = 4


def model() -> list[nn.Module]:
    torch.manual_seed(2)
    return [nn.Sequential(nn.Linear(8, 8), nn.Tanh()).double(), nn.Linear(8, 5).double()]


def rows() -> tuple[Tensor, Tensor]:
    """Sixteen rows, half for each replica, with targets in a third of the places at most."""
    draw = torch.Generator().manual_seed(4)
    target = torch.randint(5, (16, 6), generator=draw)
    kept = torch.rand(16, 6, generator=draw) < torch.arange(16)[:, None] / 45
    return torch.randn(16, 6, 8, dtype=torch.float64, generator=draw), target.masked_fill(~kept, IGNORED)


def trained() -> tuple[float, list[tuple[int, Tensor]], float, float]:
    """Two replicas of two stages: the loss of this one's half, gradients with their place in the model, and norms."""
    place = torch.distributed.get_rank()
    replica, rank = divmod(place, 2)
    group = [torch.distributed.new_group([0, 1]), torch.distributed.new_group([2, 3])][replica]
    side = [torch.distributed.new_group([0, 2]), torch.distributed.new_group([1, 3])][rank]
    loss = TokenLoss(2 * MICROBATCHES, side)
    modules = model()
    pipeline = Pipeline(make("zb_h1", 2, MICROBATCHES), modules, loss, group=group, data=side)
    inputs, target = (each.chunk(2)[replica] for each in rows())
    loss.begin(target)
    loss.scale = 4.0
    outcome = pipeline.step(inputs, target)
    found = norms(pipeline, scale=4.0)
    mean = sum(pipeline.losses(outcome)) / MICROBATCHES / loss.scale
    return mean, [(rank, w.grad) for w in modules[rank].parameters() if w.grad is not None], found.l2, found.l1


def test_loss_gradients_and_norms_are_those_of_all_tokens_at_once(pool: Pool) -> None:
    whole = model()
    inputs, target = rows()
    logits = nn.Sequential(*whole)(inputs)
    loss = functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=IGNORED)
    loss.backward()
    true = [[w.grad for w in part.parameters() if w.grad is not None] for part in whole]
    flat = torch.cat([each.flatten() for part in true for each in part])
    found = pool.run(trained)
    assert (found[0][0] + found[2][0]) / 2 == pytest.approx(loss.item(), abs=1e-12)
    for _, gradients, l2, l1 in found:
        assert l2 == pytest.approx(flat.norm().item()) and l1 == pytest.approx(flat.abs().sum().item())
        for (rank, gradient), expected in zip(gradients, true[gradients[0][0]], strict=True):
            assert torch.allclose(gradient, 4 * expected, atol=1e-12), rank


def test_a_step_without_targets_has_a_loss_of_zero() -> None:
    loss = TokenLoss(1)
    target = torch.full((2, 3), IGNORED)
    loss.begin(target)
    assert loss.tokens == 0 and loss(torch.randn(2, 3, 5), target).item() == 0


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 5))
def test_the_scale_is_that_of_grad_scaler(finite: list[bool], interval: int) -> None:
    ours = LossScale(interval=interval)
    theirs = torch.amp.GradScaler("cpu", growth_interval=interval)
    weight = nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    for good in finite:
        value = weight.item()
        weight.grad = theirs.scale(torch.tensor(1.0 if good else math.inf))
        theirs.step(optimizer)
        theirs.update()
        assert ours.update(1.0 if good else math.nan) == (weight.item() != value)
        assert ours.scale == theirs.get_scale()


def test_vectors_do_not_decay() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3))
    matrices, vectors = groups(module.parameters(), 0.1)
    assert [w.dim() for w in matrices["params"]] == [2] and matrices["weight_decay"] == 0.1
    assert [w.dim() for w in vectors["params"]] == [1, 1, 1] and vectors["weight_decay"] == 0
    assert len(groups(nn.LayerNorm(3).parameters(), 0.1)) == 1
