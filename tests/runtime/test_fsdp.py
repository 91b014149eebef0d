"""Sharded weights under every schedule: gathered, freed and reduced where the schedule says; gradients are exact."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest

from poise.core.errors import ProgramError
from poise.pipeline import B, F, Kind, Op, Schedule, make, names
from poise.pipeline.gathered import gathered
from poise.pipeline.lower import program_of

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402

from poise.runtime import Pipeline  # noqa: E402
from tests.runtime.pool import Pool  # noqa: E402

PIPELINE, MICROBATCHES, WIDTH = 2, 4, 8
FLUSHED = [
    name for name in names() if name not in ("pipedream", "pipelined_backprop", "vocab_1", "vocab_2", "zb_exact")
]
QUICK = {"one_f_one_b", "zb_h1", "zb_v", "interleaved"}
_MESH: list[DeviceMesh] = []


def mesh() -> DeviceMesh:
    """Two data ranks of a pipeline of two; made once in each process."""
    if not _MESH:
        _MESH.append(init_device_mesh("cpu", (2, PIPELINE), mesh_dim_names=("data", "pipeline")))
    return _MESH[0]


def layers(stages: int) -> list[nn.Module]:
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH)).double() for _ in range(stages)]


def batch(data: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(data)
    x, y = (torch.randn(2 * MICROBATCHES, WIDTH, generator=draw, dtype=torch.float64) for _ in range(2))
    return x, y


def alone(schedule: Schedule) -> list[nn.Module]:
    """One process that sees the batches of both data ranks."""
    stages = layers(schedule.stages)
    for data in range(2):
        for at, (x, y) in enumerate(zip(*(each.chunk(MICROBATCHES) for each in batch(data)), strict=True)):
            for stage in schedule.paths[at] if schedule.paths else range(schedule.stages):
                x = stages[stage](x)
            (nn.functional.mse_loss(x, y) / MICROBATCHES / 2).backward()
    return stages


def error(schedule: Schedule, reshard: bool, wrap_parts: bool, steps: int) -> float:
    """The largest difference of a gradient from one process; the last of several steps counts."""
    whole = mesh()
    group, data = whole["pipeline"].get_group(), whole["data"]
    stages = deepcopy(layers(schedule.stages))
    own = [stage for stage, homes in enumerate(schedule.homes) if group.rank() in homes]
    for stage in own:
        if wrap_parts:
            fully_shard(stages[stage][0], mesh=data)  # type: ignore[index]
        fully_shard(stages[stage], mesh=data)
    plan = gathered(schedule, reshard=reshard)
    pipeline = Pipeline(plan, {stage: stages[stage] for stage in own}, nn.functional.mse_loss, group=group)
    for _ in range(steps):
        pipeline.step(*batch(data.get_local_rank()))
    truth = alone(schedule)
    pairs = [pair for stage in own for pair in zip(stages[stage].parameters(), truth[stage].parameters(), strict=True)]
    grads = [(ours.grad.full_tensor(), true.grad) for ours, true in pairs if true.grad is not None]  # type: ignore[union-attr,operator]
    return max(float((ours - true).abs().max()) for ours, true in grads)


@pytest.mark.parametrize(
    "name", [each if each in QUICK else pytest.param(each, marks=pytest.mark.slow) for each in FLUSHED]
)
def test_gradients_are_those_of_one_process(pool: Pool, name: str) -> None:
    schedule = make(name, PIPELINE, MICROBATCHES)
    for reshard, wrap_parts, steps in ((True, True, 2), (False, False, 1)):
        assert max(pool.run(error, schedule, reshard, wrap_parts, steps)) < 1e-12


def test_weights_must_be_whole_where_they_are_used() -> None:
    """The fault that PyTorch finds when it runs: gathered behind the forward, freed before the backward."""
    right = gathered(make("zb_h1", PIPELINE, MICROBATCHES))
    program_of(right).prove()
    row = [op for op in right.ranks[0] if op.kind is not Kind.UNSHARD]
    late = row.index(Op(0, Kind.F, 0)) + 1
    wrong = replace(right, ranks=((*row[:late], Op(0, Kind.UNSHARD, None), *row[late:]), *right.ranks[1:]))
    with pytest.raises(ProgramError, match=r"0F0 .* waits for copy full0#0;"):
        program_of(wrong).prove()
    freed = [op for op in right.ranks[0] if op.kind is not Kind.RESHARD]
    early = freed.index(Op(0, Kind.I, 0))
    wrong = replace(right, ranks=((*freed[:early], Op(0, Kind.RESHARD, None), *freed[early:]), *right.ranks[1:]))
    with pytest.raises(ProgramError, match=r"0I0 .* reads full0#1@0, which no task writes"):
        program_of(wrong).prove()


def replicated_error(schedule: Schedule) -> float:
    """Two replicas of weights that two processes share: the largest difference of a gradient from one process."""
    whole = mesh()
    place = torch.distributed.get_rank()
    alone_here = torch.distributed.new_group([place], use_local_synchronization=True)
    stages = deepcopy(layers(schedule.stages))
    for stage in stages:
        fully_shard(stage, mesh=whole["pipeline"])
    data = whole["data"].get_group()
    pipeline = Pipeline(schedule, stages, nn.functional.mse_loss, group=alone_here, data=data, bucket_mb=0.0)
    truth = layers(schedule.stages)
    for number in range(4):
        for x, y in zip(*(each.chunk(MICROBATCHES) for each in batch(number)), strict=True):
            (nn.functional.mse_loss(nn.Sequential(*truth)(x), y) / MICROBATCHES / 4).backward()
    for _ in range(2):
        pipeline.step(*batch(place))
    pairs = [
        pair
        for one, two in zip(stages, truth, strict=True)
        for pair in zip(one.parameters(), two.parameters(), strict=True)
    ]
    grads = [(ours.grad.full_tensor(), true.grad) for ours, true in pairs if true.grad is not None]  # type: ignore[union-attr,operator]
    return max(float((ours - true).abs().max()) for ours, true in grads)


def test_replicas_of_sharded_weights(pool: Pool) -> None:
    """Gradients are scattered among two processes, then summed with the other two."""
    row = [op for b in range(MICROBATCHES) for op in (F(0, b), F(1, b), B(1, b), B(0, b))]
    assert max(pool.run(replicated_error, Schedule.of([row]))) < 1e-12
