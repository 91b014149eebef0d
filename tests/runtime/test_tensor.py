"""Tensor parallelism inside stages: a column- and a row-parallel layer, their backward in two parts, two pipelines."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from poise.pipeline import make
from poise.runtime import Pipeline
from poise.runtime.decoder import cross_entropy, cut, decoder
from poise.runtime.norm import clip
from poise.runtime.tensor import TensorPeers
from tests.runtime.pool import Pool
from tests.runtime.truth import SIZE, alone, batch

WIDTH, STAGES, MICROBATCHES = 8, 2, 4


class ToShards(torch.autograd.Function):
    """The same to all shards; gradients of all shards are summed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        gradient = gradient.contiguous().clone()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


class FromShards(torch.autograd.Function):
    """The sum over shards; its gradient goes to all."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return gradient, None


class Sharded(nn.Module):
    """Linear, GELU, Linear with its residual; the first cut by rows of its weight, the second by columns."""

    def __init__(self, up: Tensor, down: Tensor, group: Any) -> None:
        super().__init__()
        part, parts = dist.get_rank(group), dist.get_world_size(group)
        self.group = group
        self.norm = nn.LayerNorm(WIDTH, dtype=torch.float64)
        self.up = nn.Parameter(up.chunk(parts, 0)[part].clone())
        self.down = nn.Parameter(down.chunk(parts, 1)[part].clone())

    def forward(self, x: Tensor) -> Tensor:
        inner = nn.functional.gelu(ToShards.apply(self.norm(x), self.group) @ self.up.T)  # type: ignore[no-untyped-call]
        found: Tensor = x + FromShards.apply(inner @ self.down.T, self.group)  # type: ignore[no-untyped-call]
        return found


def _weights() -> list[tuple[Tensor, Tensor]]:
    draw = torch.Generator().manual_seed(1)

    def one(rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns, generator=draw, dtype=torch.float64) / 4

    return [(one(4 * WIDTH, WIDTH), one(WIDTH, 4 * WIDTH)) for _ in range(STAGES)]


def _batch() -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(2)
    inputs = torch.randn(MICROBATCHES, 3, WIDTH, generator=draw, dtype=torch.float64)
    return inputs, torch.randn(inputs.shape, generator=draw, dtype=torch.float64)


def _loss(y: Tensor, target: Tensor) -> Tensor:
    return ((y - target) ** 2).mean()


def _run(_: None) -> list[tuple[int, int, list[Tensor]]]:
    """Ranks 0 and 2 are one pipeline, 1 and 3 the other; 0 and 1 share stage 0, 2 and 3 stage 1."""
    rank = dist.get_rank()
    across = dist.new_group([rank % 2, rank % 2 + 2], use_local_synchronization=True)
    beside = dist.new_group([rank // 2 * 2, rank // 2 * 2 + 1], use_local_synchronization=True)
    stage = rank // 2
    modules = {stage: Sharded(*_weights()[stage], beside)}
    Pipeline(make("zb_h1", STAGES, MICROBATCHES), modules, _loss, group=across).step(*_batch())
    gradients = [weight.grad for weight in modules[stage].parameters() if weight.grad is not None]
    return [(stage, dist.get_rank(beside), gradients)]


def test_shards_have_their_parts_of_the_gradients(pool: Pool) -> None:
    weights = [(up.requires_grad_(), down.requires_grad_()) for up, down in _weights()]
    norms = [nn.LayerNorm(WIDTH, dtype=torch.float64) for _ in range(STAGES)]
    x, target = _batch()
    for (up, down), norm in zip(weights, norms, strict=True):
        x = x + nn.functional.gelu(norm(x) @ up.T) @ down.T
    _loss(x, target).backward()
    for results in pool.run(_run, None):
        for stage, part, (up, down, scale, shift) in results:
            wanted = [weights[stage][0].grad, weights[stage][1].grad, norms[stage].weight.grad, norms[stage].bias.grad]
            assert all(each is not None for each in wanted)
            parts = [wanted[0].chunk(2, 0)[part], wanted[1].chunk(2, 1)[part], *wanted[2:]]  # type: ignore[union-attr]
            for found, true in zip((up, down, scale, shift), parts, strict=True):
                assert float((found - true).abs().max()) < 1e-10


def _decoder(name: str) -> tuple[float, float, int, dict[str, Tensor]]:
    """Loss, norm of all gradients, part and gradients of a decoder of which two ranks share each stage."""
    rank = dist.get_rank()
    across = dist.new_group([rank % 2, rank % 2 + 2], use_local_synchronization=True)
    beside = TensorPeers(dist.new_group([rank // 2 * 2, rank // 2 * 2 + 1], use_local_synchronization=True))
    schedule = make(name, STAGES, MICROBATCHES)
    parts = decoder(SIZE, dtype=torch.float64, beside=beside)
    names = {id(each): name for name, each in nn.Sequential(*parts).named_parameters()}
    pipeline = Pipeline(schedule, cut(parts, schedule.stages), cross_entropy, group=across)
    outcome = pipeline.step(*batch(MICROBATCHES))
    modules = [stage.module for stage in pipeline.stages.values()]
    gradients = {
        names[id(weight)]: weight.grad.clone()
        for module in modules for weight in module.parameters() if weight.grad is not None
    }  # fmt: skip
    return sum(pipeline.losses(outcome)) / MICROBATCHES, clip(pipeline, modules, 0.1, beside), beside.part, gradients


CUTS = {"qkv.weight": (0, 3), "qkv.bias": (0, 3), "up.weight": (0, 1), "up.bias": (0, 1), "down.weight": (1, 1)}
"""Of a weight the dimension that is cut, and how many tensors lie behind one another in it; else it is whole."""


def _part(name: str, gradient: Tensor, part: int) -> Tensor:
    last = ".".join(name.split(".")[-2:])
    whole = last not in CUTS and not (last == "out.weight" and gradient.shape[0] == SIZE.hidden)
    by, times = CUTS.get(last, (1, 1))
    return gradient if whole else torch.cat([each.chunk(2, by)[part] for each in gradient.chunk(times, by)], by)


@pytest.mark.parametrize("name", ["zb_h1", "zb_v", "one_f_one_b"])
def test_a_decoder_in_parts_has_the_gradients_of_the_whole(pool: Pool, name: str) -> None:
    loss, wanted = alone(make(name, STAGES, MICROBATCHES))
    norm = torch.stack([each.square().sum() for each in wanted.values()]).sum().sqrt().item()
    seen: set[str] = set()
    for results, measured, part, gradients in pool.run(_decoder, name):
        assert abs(results - loss) < 1e-10 and abs(measured - norm) < 1e-10
        seen |= gradients.keys()
        for each, found in gradients.items():
            assert float((found - _part(each, wanted[each], part)).abs().max()) < 1e-10, each
    assert seen == wanted.keys()
