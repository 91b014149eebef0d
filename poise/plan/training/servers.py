"""Orders servers for a layout by their measured bandwidths (`pipette.py` searches)."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from poise.core.chance import Chance
from poise.core.errors import ScenarioError
from poise.cost.training import Job, Prediction
from poise.cost.training.stages import stages_of
from poise.plan.training.pipette import Matrix, Placement, Work, place

GBIT = 1e9 / 8
"""Bytes/s of a Gbit/s."""

CURE = "give a square of Gbit/s, a row for each server, as in 0,100 for the first of two"


@dataclass(frozen=True, slots=True)
class Ordered:
    """Servers by name, all replicas of the first stage, then of the next, and seconds of a step so and as in the file.

    Ranks are counted in this order by Megatron-LM and torchtitan: the pipeline is the outermost degree.
    """

    servers: tuple[str, ...]
    seconds: float
    given_s: float


def read_bandwidths(path: Path) -> tuple[tuple[str, ...], Matrix]:
    """Names of servers and bytes/s between every two, from a CSV; a first row of names may stand above the numbers."""
    try:
        rows = [row for row in csv.reader(path.read_text(encoding="utf-8").splitlines()) if row]
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: cannot be read ({error}); {CURE}") from None
    names = tuple(cell.strip() for cell in rows.pop(0)) if rows and not _number(rows[0][0]) else ()
    names = names or tuple(f"server {at}" for at in range(len(rows)))
    for at, row in enumerate(rows):
        bad = next((cell for cell in row if not _number(cell)), None)
        if bad is not None or len(row) != len(rows):
            fault = f"{bad!r} is not a number" if bad is not None else f"{len(row)} values for {len(rows)} servers"
            raise ScenarioError(f"{path}: row {at + 1}: {fault}; {CURE}")
    if len(names) != len(rows) or not rows:
        raise ScenarioError(f"{path}: {len(names)} names for {len(rows)} rows; {CURE}")
    return names, [[float(cell) * GBIT for cell in row] for row in rows]


def ordered(job: Job, best: Prediction, names: tuple[str, ...], bandwidth: Matrix) -> Ordered:
    """The best order that annealing finds. A server holds one stage, of one replica or of several side by side.

    ScenarioError where the layout cuts servers otherwise, or the file has another number of them.
    """
    layout, inside = best.layout, job.inside
    group = layout.tensor * layout.context
    beside, left = divmod(inside, group)
    if left or job.devices % inside or layout.data % max(1, beside):
        raise ScenarioError(
            f"--bandwidths: {best.layout.label()} does not fill servers of {inside} devices with one stage each; "
            f"search with --tensor {inside}, say"
        )
    servers = job.devices // inside
    if len(names) != servers:
        raise ScenarioError(
            f"--bandwidths: {len(names)} servers for {job.devices} devices in servers of {inside}: {servers}"
        )
    stages = stages_of(job, layout)
    message = 2.0 * layout.micro_batch * job.sequence * job.model.hidden * beside
    work = Work(
        layout.pipeline, layout.data // beside, layout.microbatches(job), stages.busiest, message * layout.chunks,
        best.classes["gradients"] * inside,
    )  # fmt: skip
    found: Placement = place(work, bandwidth, Chance(0))
    by_stage = [at for stage in range(work.stages) for at in found.order[stage :: work.stages]]
    return Ordered(tuple(names[at] for at in by_stage), found.seconds, found.naive_s)


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
