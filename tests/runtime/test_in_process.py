"""Every schedule as a Program, its ranks as threads of one process: the gradients are those of a model without one."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import pytest

from poise.core.errors import RankError, ScheduleError
from poise.pipeline import make, names
from poise.pipeline.lower import program_of
from poise.program import Lane, Program
from poise.program.passes import side_by_side

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from poise.pipeline import Schedule  # noqa: E402
from poise.runtime.program.run import Executed, run_in_process  # noqa: E402

RANKS, MICROBATCHES, WIDTH = 4, 8, 16
ROWS = 6
"""Words of the vocabulary on each rank."""


def stages_of(schedule: Schedule) -> list[nn.Module]:
    torch.manual_seed(0)
    return [
        nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH)).double()
        for _ in range(schedule.stages)
    ]


def shards_of(schedule: Schedule) -> list[nn.Linear]:
    return [nn.Linear(WIDTH, ROWS, bias=False).double() for _ in range(RANKS if schedule.barriers else 0)]


def batch(schedule: Schedule) -> tuple[Tensor, Tensor]:
    x = torch.randn(2 * MICROBATCHES, 3, WIDTH, dtype=torch.float64)
    if schedule.barriers:
        return x, torch.randint(RANKS * ROWS, x.shape[:2])
    return x, torch.randn_like(x)


def alone(
    schedule: Schedule, stages: list[nn.Module], shards: list[nn.Linear], x: Tensor, y: Tensor
) -> tuple[list[nn.Module], Tensor, float]:
    """Stages with gradients, the gradient of the output layer, and the loss, of one process."""
    stages = deepcopy(stages)
    whole = torch.cat([shard.weight.detach() for shard in shards or [nn.Linear(1, 1)]]).requires_grad_()
    losses = []
    for at, (inputs, target) in enumerate(zip(x.chunk(MICROBATCHES), y.chunk(MICROBATCHES), strict=True)):
        for stage in schedule.paths[at] if schedule.paths else range(schedule.stages):
            inputs = stages[stage](inputs)
        losses.append(
            nn.functional.cross_entropy((inputs @ whole.T).flatten(0, 1), target.flatten())
            if shards
            else nn.functional.mse_loss(inputs, target)
        )
    loss = torch.stack(losses).mean()
    loss.backward()
    return stages, whole.grad if whole.grad is not None else whole, loss.item()


def run(
    name: str, edit: Callable[[Program], Program] = lambda program: program
) -> tuple[Schedule, Executed, list[nn.Module], list[nn.Linear], Tensor, float]:
    schedule = make(name, RANKS, MICROBATCHES)
    stages, shards, (x, y) = stages_of(schedule), shards_of(schedule), batch(schedule)
    truth, whole, loss = alone(schedule, stages, shards, x, y)
    return (
        schedule,
        run_in_process(schedule, stages, x, y, nn.functional.mse_loss, outputs=shards, edit=edit),
        truth,
        shards,
        whole,
        loss,
    )


@pytest.mark.parametrize("name", [name for name in names() if make(name, RANKS, MICROBATCHES).updates == "flush"])
def test_gradients_are_those_of_one_process(name: str) -> None:
    same(*run(name))


def same(
    schedule: Schedule, found: Executed, truth: list[nn.Module], shards: list[nn.Linear], whole: Tensor, loss: float
) -> None:
    """The gradients and the loss of a run are those of one process."""
    assert sum(float(each) for each in found.losses.values()) / MICROBATCHES == pytest.approx(loss, abs=1e-12)
    for rank, modules in enumerate(found.modules):
        assert set(modules) == {stage for stage, homes in enumerate(schedule.homes) if rank in homes}
        for stage, module in modules.items():
            for own, true in zip(module.parameters(), truth[stage].parameters(), strict=True):
                assert own.grad is not None and true.grad is not None
                torch.testing.assert_close(own.grad, true.grad, rtol=0, atol=1e-14)
    if shards:
        gradient = torch.cat([shard.weight.grad for shard in found.shards if shard.weight.grad is not None])
        torch.testing.assert_close(gradient, whole, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", ["dualpipe", "dualpipe_v", "one_f_one_b", "zb_h1", "vocab_2"])
def test_pairs_side_by_side_have_the_same_gradients(name: str) -> None:
    """Backwards of pairs run in a thread beside the forwards: in the order of their lane, begun and ended with it."""
    schedule, found, *rest = run(name, side_by_side)
    same(schedule, found, *rest)
    program, count = side_by_side(program_of(schedule)), 0
    for rank, ran in enumerate(found.ran):
        row = program.rows.get(Lane(rank, "compute 1"), ())
        assert [each.task for each in ran if each.task.lane == "compute 1"] == list(row)
        ends = {value: each.end for each in ran for value in each.task.writes}
        starts = {each.task: each.start for each in ran}
        pairs = [task for task in row if task.kind in ("B", "I")]
        count += len(pairs)
        assert all(ends[value] <= starts[task] for task in pairs for value in task.reads if value in ends)
    assert count


@pytest.mark.parametrize("name", ["zb_v", "chimera", "po_f", "vocab_2"])
def test_tasks_run_in_the_order_of_their_lanes_and_behind_what_they_read(name: str) -> None:
    schedule, found, *_ = run(name)
    program = program_of(schedule)
    for rank, ran in enumerate(found.ran):
        ends = {value: each.end for each in ran for value in each.task.writes}
        for lane, row in program.rows.items():
            if lane.rank == rank:
                assert [each.task for each in ran if each.task.lane == lane.name] == list(row)
        for each in ran:
            assert all(ends[value] <= each.end for value in each.task.reads if value in ends)
            if each.task.lane == "compute":
                assert all(ends[value] <= each.start for value in each.task.reads if value in ends)


def test_messages_carry_what_the_stages_hand_on() -> None:
    schedule, found, *_ = run("one_f_one_b")
    messages = program_of(schedule).prove().messages
    assert messages == 2 * (RANKS - 1) * MICROBATCHES
    assert found.sent_bytes == messages * 2 * 3 * WIDTH * 8


def test_a_rank_that_fails_ends_all_and_is_named() -> None:
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise ValueError("no such weight")

    schedule = make("one_f_one_b", RANKS, MICROBATCHES)
    stages = stages_of(schedule)
    stages[2] = Broken()
    with pytest.raises(RankError, match="rank 2 failed: ValueError: no such weight"):
        run_in_process(schedule, stages, *batch(schedule), nn.functional.mse_loss)


def test_as_many_modules_as_stages_are_needed() -> None:
    layers = [nn.Linear(2, 2) for _ in range(3)]
    with pytest.raises(ScheduleError, match="stages: 3 modules for 4 stages; give one for each stage"):
        run_in_process(make("zb_v", 2, 4), layers, torch.ones(4, 2), torch.zeros(4, 2), nn.functional.mse_loss)
