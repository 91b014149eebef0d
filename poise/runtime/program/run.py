"""A Program executed by threads of this process, a rank each."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from torch import Tensor, nn

from poise.pipeline.lower import program_of
from poise.pipeline.schedule import Schedule
from poise.runtime.program.handle import Payload
from poise.runtime.program.inproc import InProcess, run_threads
from poise.runtime.program.interpreter import Interpreter, Ran
from poise.runtime.program.output import OutputShard
from poise.runtime.program.stages import StageKernels, cut
from poise.runtime.stage import LossFn, Stage


@dataclass
class Executed:
    """What a step leaves: for each rank its modules, with gradients, its losses, and what ran."""

    modules: list[dict[int, nn.Module]] = field(default_factory=list)
    losses: dict[int, Tensor] = field(default_factory=dict)
    ran: list[list[Ran]] = field(default_factory=list)
    sent_bytes: int = 0


def run_in_process(
    schedule: Schedule, stages: Sequence[nn.Module], inputs: Tensor, target: Tensor, loss_fn: LossFn, *,
    outputs: Sequence[nn.Linear] = (),
) -> Executed:  # fmt: skip
    """Prove `schedule` and run it once, each rank as a thread with copies of its stages; all in one process.

    `outputs` are the shards of the output layer, for schedules with vocabulary passes.
    """
    program = program_of(schedule)
    program.prove()
    parts, targets = cut(inputs, schedule.microbatches, "inputs"), cut(target, schedule.microbatches, "target")
    own = [_own(schedule, rank) for rank in range(len(schedule.ranks))]

    def main(transport: InProcess) -> tuple[dict[int, Stage], list[Ran], int]:
        rank = transport.rank
        last = schedule.stages - 1
        made = {
            stage: Stage(stage, deepcopy(stages[stage]), loss_fn if stage == last and not outputs else None,
                         watched="copy" in program.kinds)
            for stage in own[rank]
        }  # fmt: skip
        shard = OutputShard(outputs[rank], transport, schedule.homes[-1][0], schedule.barriers) if outputs else None
        kernels = StageKernels(transport, made, shard)
        kernels.begin(targets)
        ran: list[Ran] = []
        given: dict[str, Payload] = {f"in.{number}@{rank}": (part.clone(),) for number, part in enumerate(parts)}
        given |= {name: None for name in program.given if name not in given and name.endswith(f"@{rank}")}
        interpreter = Interpreter(program, rank, kernels.table, transport.changed, note=ran.append)
        interpreter.run(given)
        return made, ran, transport.room.bytes

    found = run_threads(len(schedule.ranks), main)
    stages_found = [stage for made, _, _ in found for stage in made.values()]
    losses = {batch: loss for stage in stages_found for batch, loss in stage.losses.items()}
    return Executed(
        [{number: stage.module for number, stage in made.items()} for made, _, _ in found],
        losses, [ran for _, ran, _ in found], max(sent for _, _, sent in found),
    )  # fmt: skip


def _own(schedule: Schedule, rank: int) -> list[int]:
    return [stage for stage, homes in enumerate(schedule.homes) if rank in homes]
