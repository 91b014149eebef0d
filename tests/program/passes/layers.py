"""Steps of one device that trains a model layer by layer: each layer is a stage."""

from __future__ import annotations

from poise.pipeline import B, F, Schedule
from poise.pipeline.lower import program_of
from poise.program import Program, Task

FORWARD_S, BACKWARD_S = 2.0, 4.0


def layers(count: int, microbatches: int = 1) -> Program:
    """All layers forward, then all of them backward, for one microbatch after the other."""
    row = []
    for batch in range(microbatches):
        row += [F(layer, batch) for layer in range(count)] + [B(layer, batch) for layer in reversed(range(count))]
    return program_of(Schedule.of([row]))


def seconds(task: Task) -> float:
    """Of a computation; others take none besides their bytes."""
    return {"F": FORWARD_S, "B": BACKWARD_S}.get(task.kind, 0.0)
