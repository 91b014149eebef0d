"""Replicas of a pipeline, their gradients summed in buckets beside the computations: those of one process."""

from __future__ import annotations

from copy import deepcopy

import pytest

from poise.pipeline import B, F, Schedule, make, names

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from poise.runtime import Pipeline  # noqa: E402
from poise.runtime.models.cut import Tie  # noqa: E402
from poise.runtime.norm import clip  # noqa: E402
from poise.runtime.program.run import run_in_process  # noqa: E402
from tests.runtime import test_in_process as one_pipeline  # noqa: E402
from tests.runtime.pool import Pool  # noqa: E402

EXACT = 1e-10
RANKS, MICROBATCHES = 2, 4
FLUSHED = [name for name in names() if make(name, RANKS, MICROBATCHES).updates == "flush"]
QUICK = {"one_f_one_b", "zb_h1", "chimera", "zb_v", "vocab_1"}
quickly = [each if each in QUICK else pytest.param(each, marks=pytest.mark.slow) for each in FLUSHED]


def uneven(y: Tensor, target: Tensor) -> Tensor:
    """Microbatches weigh as much as they have targets above 0, in some none."""
    kept = (target > target.mean() * 3) & (target > 0)
    return ((y - target).square() * kept).sum() / 10


def alone(
    schedule: Schedule, stages: list[nn.Module], shards: list[nn.Linear], x: Tensor, y: Tensor, count: int
) -> tuple[list[nn.Module], Tensor]:
    """Stages with gradients and the gradient of the output layer, of one process that sees all microbatches."""
    stages = deepcopy(stages)
    whole = torch.cat([shard.weight.detach() for shard in shards or [nn.Linear(1, 1)]]).requires_grad_()
    for at, (inputs, target) in enumerate(zip(x.chunk(count), y.chunk(count), strict=True)):
        for stage in schedule.paths[at % schedule.microbatches] if schedule.paths else range(schedule.stages):
            inputs = stages[stage](inputs)
        if shards:
            loss = nn.functional.cross_entropy((inputs @ whole.T).flatten(0, 1), target.flatten())
        else:
            loss = uneven(inputs, target)
        (loss / count).backward()
    return stages, whole if whole.grad is None else whole.grad


def batch(schedule: Schedule, count: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(2 * count, 3, one_pipeline.WIDTH, generator=draw, dtype=torch.float64)
    if schedule.barriers:
        return x, torch.randint(RANKS * one_pipeline.ROWS, x.shape[:2], generator=draw)
    return x, torch.randn(x.shape, generator=draw, dtype=torch.float64)


def shards_of(schedule: Schedule) -> list[nn.Linear]:
    torch.manual_seed(1)
    rows = one_pipeline.ROWS
    return [nn.Linear(one_pipeline.WIDTH, rows, bias=False).double() for _ in range(RANKS * bool(schedule.barriers))]


@pytest.mark.parametrize("name", FLUSHED)
@pytest.mark.parametrize("bucket_mb", [0.0, 25.0])
def test_gradients_in_one_process(name: str, bucket_mb: float) -> None:
    """Three replicas as threads; with 0 MiB each stage is a bucket."""
    schedule, replicas = make(name, RANKS, MICROBATCHES), 3
    stages, shards = one_pipeline.stages_of(schedule), shards_of(schedule)
    x, y = batch(schedule, replicas * MICROBATCHES)
    found = run_in_process(schedule, stages, x, y, uneven, outputs=shards, replicas=replicas, bucket_mb=bucket_mb)
    truth, whole = alone(schedule, stages, shards, x, y, replicas * MICROBATCHES)
    assert sorted(found.losses) == list(range(replicas * MICROBATCHES))
    for modules in found.modules:
        for stage, module in modules.items():
            for own, true in zip(module.parameters(), truth[stage].parameters(), strict=True):
                assert own.grad is not None and true.grad is not None
                torch.testing.assert_close(own.grad, true.grad, rtol=0, atol=EXACT)
    for number, shard in enumerate(found.shards):
        torch.testing.assert_close(shard.weight.grad, whole.chunk(RANKS)[number % RANKS], rtol=0, atol=EXACT)


def error(schedule: Schedule, ranks: int, bucket_mb: float, most: float | None) -> float:
    """On one of four processes: the largest difference of a gradient, clipped to a norm, from one process."""
    world = torch.distributed.get_rank()
    replicas = 4 // ranks
    replica, rank = divmod(world, ranks)
    pipelines = [torch.distributed.new_group([r * ranks + k for k in range(ranks)]) for r in range(replicas)]
    sides = [torch.distributed.new_group([r * ranks + k for r in range(replicas)]) for k in range(ranks)]
    stages, shards = one_pipeline.stages_of(schedule), shards_of(schedule)
    x, y = batch(schedule, replicas * schedule.microbatches)
    truth, whole = alone(schedule, stages, shards, x, y, replicas * schedule.microbatches)
    output = deepcopy(shards[rank]) if shards else None
    pipeline = Pipeline(
        schedule, deepcopy(stages), uneven, group=pipelines[replica], data=sides[rank], output=output,
        bucket_mb=bucket_mb,
    )  # fmt: skip
    for _ in range(2):
        pipeline.step(x.chunk(replicas)[replica], y.chunk(replicas)[replica])
    pairs = [
        (own.grad, true.grad)
        for number, stage in pipeline.stages.items()
        for own, true in zip(stage.module.parameters(), truth[number].parameters(), strict=True)
    ]
    if output is not None:
        pairs.append((output.weight.grad, whole.chunk(ranks)[rank]))
    if most is not None:
        clip(pipeline, [stage.module for stage in pipeline.stages.values()], most)
        every = [each.grad for stage in truth for each in stage.parameters() if each.grad is not None]
        by = min(1.0, most / float(torch.cat([each.flatten() for each in every]).norm()))
        assert by < 1
        for each in every:
            each *= by
    return max(float((own - true).abs().max()) for own, true in pairs if own is not None and true is not None)


@pytest.mark.parametrize("name", quickly)
def test_gradients_of_processes(pool: Pool, name: str) -> None:
    schedule = make(name, RANKS, MICROBATCHES)
    most = None if schedule.barriers else 1e-3
    assert max(pool.run(error, schedule, RANKS, 25.0, None)) < EXACT
    assert max(pool.run(error, schedule, RANKS, 0.0, most)) < EXACT


def test_four_replicas_of_one_device_with_several_stages(pool: Pool) -> None:
    """Plain data parallelism: four layers, each a stage, whose gradients are summed while others are computed."""
    row = [op for b in range(2) for op in [*(F(s, b) for s in range(4)), *(B(s, b) for s in (3, 2, 1, 0))]]
    for bucket_mb in (0.0, 25.0):
        assert max(pool.run(error, Schedule.of([row]), 1, bucket_mb, 1e-3)) < EXACT


def test_a_negative_bucket_is_refused(pool: Pool) -> None:
    with pytest.raises(AssertionError, match="ScheduleError: bucket_mb: -1; give 0"):
        pool.run(error, make("gpipe", RANKS, 4), RANKS, -1.0, None)


def test_sums_run_beside_the_backwards_of_other_stages() -> None:
    """In the run as in the Program: the sum of stage 3 begins before the last backward of the step."""
    row = [*(F(stage, 0) for stage in range(4)), *(B(stage, 0) for stage in (3, 2, 1, 0))]
    schedule = Schedule.of([row])
    x, y = batch(schedule, 2)
    found = run_in_process(schedule, one_pipeline.stages_of(schedule), x, y, uneven, replicas=2, bucket_mb=0.0)
    for ran in found.ran:
        first = next(each for each in ran if each.task.lane == "sync")
        last = next(each for each in ran if str(each.task).startswith("0B"))
        assert first.start <= last.start


def test_tied_weights_of_replicas_have_one_gradient() -> None:
    """The first matrix is also the last one; on the wave both stages are on one rank."""
    for name in ("zb_h1", "chimera", "zb_v", "interleaved", "two_bp"):
        schedule, replicas = make(name, RANKS, MICROBATCHES), 2
        stages = one_pipeline.stages_of(schedule)
        last = schedule.stages - 1
        stages[last][2].weight.data.copy_(stages[0][0].weight.data)  # type: ignore[index, operator]
        tie = Tie("shared", {0: "0.weight", last: "2.weight"})
        x, y = batch(schedule, replicas * MICROBATCHES)
        found = run_in_process(schedule, stages, x, y, uneven, replicas=replicas, bucket_mb=0.0, ties=[tie])
        one = deepcopy(stages)
        one[last][2].weight = one[0][0].weight  # type: ignore[index]
        truth, _ = alone(schedule, one, [], x, y, replicas * MICROBATCHES)
        for modules in found.modules:
            for stage, module in modules.items():
                for own, true in zip(module.parameters(), truth[stage].parameters(), strict=True):
                    assert own.grad is not None and true.grad is not None
                    torch.testing.assert_close(own.grad, true.grad, rtol=0, atol=EXACT)


def tied_error() -> float:
    """The same on processes, a replica on two of them each; steps are repeated."""
    world = torch.distributed.get_rank()
    replica, rank = divmod(world, RANKS)
    pipelines = [torch.distributed.new_group([2 * r, 2 * r + 1]) for r in range(2)]
    sides = [torch.distributed.new_group([k, 2 + k]) for k in range(2)]
    schedule = make("zb_v", RANKS, MICROBATCHES)
    last = schedule.stages - 1
    stages = one_pipeline.stages_of(schedule)
    stages[last][2].weight.data.copy_(stages[1][0].weight.data)  # type: ignore[index, operator]
    tie = Tie("shared", {1: "0.weight", last: "2.weight"})
    x, y = batch(schedule, 2 * MICROBATCHES)
    one = deepcopy(stages)
    one[last][2].weight = one[1][0].weight  # type: ignore[index]
    truth, _ = alone(schedule, one, [], x, y, 2 * MICROBATCHES)
    pipeline = Pipeline(schedule, stages, uneven, group=pipelines[replica], data=sides[rank], ties=[tie])
    for _ in range(3):
        pipeline.step(x.chunk(2)[replica], y.chunk(2)[replica])
    return max(
        float((own.grad - true.grad).abs().max())  # type: ignore[operator]
        for number, stage in pipeline.stages.items()
        for own, true in zip(stage.module.parameters(), truth[number].parameters(), strict=True)
    )


def test_tied_weights_of_processes(pool: Pool) -> None:
    assert max(pool.run(tied_error)) < EXACT
