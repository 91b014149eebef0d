"""A Program executed by threads of this process, a rank each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from torch import Tensor, nn

from poise.core.errors import ScheduleError
from poise.pipeline.lower import program_of
from poise.pipeline.schedule import Schedule
from poise.program import Program
from poise.program.passes import data_parallel, tied
from poise.program.passes.buckets import FIRST, MIB
from poise.program.task import rank_of
from poise.runtime.models.cut import Tie
from poise.runtime.program.handle import Payload
from poise.runtime.program.inproc import InProcess, run_threads
from poise.runtime.program.interpreter import Interpreter, Ran
from poise.runtime.program.output import OutputShard
from poise.runtime.program.stages import StageKernels, cut
from poise.runtime.replicas import size_of
from poise.runtime.stage import LossFn, Stage
from poise.runtime.ties import Ties


@dataclass
class Executed:
    """What a step leaves: for each rank its modules, with gradients, its losses, and what ran."""

    modules: list[dict[int, nn.Module]] = field(default_factory=list)
    shards: list[nn.Linear] = field(default_factory=list)
    """Of the output layer, by rank."""
    losses: dict[int, Tensor] = field(default_factory=dict)
    ran: list[list[Ran]] = field(default_factory=list)
    sent_bytes: int = 0


def run_in_process(
    schedule: Schedule, stages: Sequence[nn.Module], inputs: Tensor, target: Tensor, loss_fn: LossFn, *,
    outputs: Sequence[nn.Linear] = (), replicas: int = 1, bucket_mb: float = 25.0,
    ties: Sequence[Tie] = (), edit: Callable[[Program], Program] = lambda program: program,
) -> Executed:  # fmt: skip
    """Prove `schedule` and run it once, each rank as a thread with copies of its stages; all in one process.

    `outputs` are the shards of the output layer, for schedules with vocabulary passes. The batch is shared out to
    `replicas` of the schedule, whose gradients are summed in buckets of `bucket_mb` MiB: copy r of rank k is rank
    k + r·ranks, its microbatch b is number b + r·microbatches. `ties` are weights that are in several stages. `edit`
    makes another Program of that of the schedule, as `side_by_side` does.
    """
    if len(stages) != schedule.stages:
        raise ScheduleError(f"stages: {len(stages)} modules for {schedule.stages} stages; give one for each stage")
    program = edit(_program(schedule, stages, outputs, replicas, bucket_mb, ties))
    program.prove()
    size, count = len(schedule.ranks), schedule.microbatches * replicas
    parts, targets = cut(inputs, count, "inputs"), cut(target, count, "target")

    def main(transport: InProcess) -> tuple[dict[int, Stage], OutputShard | None, list[Ran], int]:
        rank, last = transport.rank, schedule.stages - 1
        replica, place = divmod(rank, size)
        made = {
            stage: Stage(stage, deepcopy(stages[stage]), loss_fn if stage == last and not outputs else None,
                         watched="copy" in program.kinds)
            for stage, homes in enumerate(schedule.homes) if place in homes
        }  # fmt: skip
        root = schedule.homes[-1][0] + replica * size
        shard = (
            OutputShard(deepcopy(outputs[place]), transport, root, schedule.barriers, place) if outputs else None
        )  # fmt: skip
        kernels = StageKernels(transport, made, shard, Ties(ties, {each: stage.module for each, stage in made.items()}))
        kernels.begin(targets)
        ran: list[Ran] = []
        interpreter = Interpreter(program, rank, kernels.table, transport.changed, note=ran.append)
        interpreter.run(_given(program, rank, parts))
        return made, shard, ran, transport.room.bytes

    found = run_threads(program.ranks, main)
    stages_found = [stage for made, *_ in found for stage in made.values()]
    losses = {batch: loss for stage in stages_found for batch, loss in stage.losses.items()}
    return Executed(
        [{number: stage.module for number, stage in made.items()} for made, *_ in found],
        [shard.layer for _, shard, *_ in found if shard is not None],
        losses, [ran for *_, ran, _ in found], max(sent for *_, sent in found),
    )  # fmt: skip


def _program(
    schedule: Schedule, stages: Sequence[nn.Module], outputs: Sequence[nn.Linear], replicas: int, bucket_mb: float,
    ties: Sequence[Tie],
) -> Program:  # fmt: skip
    program = tied(program_of(schedule), [list(tie.places) for tie in ties])
    if replicas == 1:
        return program
    shared = Ties(ties, dict(enumerate(stages)))
    bytes = [size_of(stage.parameters(), shared.all) for stage in stages]
    others = {f"out{number}": size_of(shard.parameters()) for number, shard in enumerate(outputs)}
    others |= {f"tied{number}": shared.bytes(number) for number in range(len(ties))}
    cap = bucket_mb * MIB
    return data_parallel(program, replicas, bytes, others=others, cap=cap, first=min(FIRST, cap))


def _given(program: Program, rank: int, parts: Sequence[Tensor]) -> dict[str, Payload]:
    """What a rank is given: microbatches, by their contents, and signs for all else."""
    found: dict[str, Payload] = {}
    for name, content in program.given.items():
        if rank_of(name) == rank:
            atom = content.only or ("",)
            found[name] = (parts[int(str(atom[1]))].clone(),) if atom[0] == "x" else None
    return found
