"""A strategy for each layer by dynamic programming over memory.

Galvatron (Miao et al., "Efficient transformer training over multiple GPUs using automatic parallelism", VLDB 2023,
section 4): f[l][v][s] = min over s' of f[l − 1][v − memory(l, s)][s'] + reshard(s', s) + time(l, s).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

from poise.core.errors import ScenarioError
from poise.cost.training import Job, Layout
from poise.cost.training.activations import layer_activation
from poise.cost.training.columns import columns
from poise.cost.training.figures import figures
from poise.cost.training.memory import weights
from poise.cost.training.step import evaluate

GRAIN = 64 << 20
"""Bytes of one unit of memory in the programme; a layer's bytes are rounded up."""
SHARDS = (2.0, 4.0, 12.0)
"""Bytes a weight of weights, gradients and states, by what ZeRO's stages shard last to first."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Choice:
    """The strategy of each layer: indices of strategies, seconds of a step's layers and bytes of them."""

    strategies: tuple[int, ...]
    seconds: float
    memory: float


def choose(time: Floats, memory: Floats, reshard: Floats, limit: float, grain: float = GRAIN) -> Choice:
    """The fastest strategies of `layers` × `strategies` times and bytes, with `reshard` seconds from one to the next.

    Exact but for memory being counted in units of `grain`, rounded up. ScenarioError where nothing fits.
    """
    layers, count = time.shape
    units = np.ceil(memory / grain).astype(int)
    room = int(limit // grain)
    least = int(units.min(axis=1).sum())
    if least > room:
        raise ScenarioError(
            f"layers need {least * grain / 2**30:.1f} GiB at least, of {limit / 2**30:.1f}; "
            "allow more sharding or recomputation"
        )
    best = np.full((room + 1, count), inf)
    for s in range(count):
        best[units[0, s] :, s] = time[0, s]
    origin = np.zeros((layers, room + 1, count), dtype=np.int16)
    for at in range(1, layers):
        through = best[:, :, None] + reshard[None]
        came, cost = through.argmin(axis=1), through.min(axis=1)
        best = np.full((room + 1, count), inf)
        for s in range(count):
            used = units[at, s]
            if used <= room:
                best[used:, s] = cost[: room + 1 - used, s] + time[at, s]
                origin[at, used:, s] = came[: room + 1 - used, s]
    return _traced(best[room], origin, units, memory, room)


def _traced(
    last: Floats, origin: npt.NDArray[np.int16], units: npt.NDArray[np.int64], memory: Floats, room: int
) -> Choice:
    strategy = int(last.argmin())
    found = [strategy]
    for at in range(len(units) - 1, 0, -1):
        before = int(origin[at, room, strategy])
        room -= int(units[at, strategy])
        strategy = before
        found.append(strategy)
    found.reverse()
    held = float(sum(memory[at, each] for at, each in enumerate(found)))
    return Choice(tuple(found), float(last.min()), held)


def strategies(job: Job, layouts: Sequence[Layout], alive: int = 1) -> tuple[Floats, Floats, Floats]:
    """Times, bytes and resharding of each layer of a job under each of several layouts of the same devices.

    alive: microbatches whose activations its stage holds. A layer's time is its microbatch passes and its share of the
    gradients' sum; resharding moves a boundary between tensor and data ranks where the tensor degree changes.
    """
    use = figures(job.host)
    cut = columns(job, layouts)
    steps = evaluate(job, cut, use)
    layers = job.model.layers
    none = np.zeros(len(layouts), bool)
    each = (steps.parts["compute"] + steps.parts["exposed_in_layers"] + steps.parts["gradients"]) / cut.most
    values = weights(job, cut, np.ones(len(layouts)), none, none)
    size = values.plain + values.experts
    group = cut.data * cut.context
    shards = [np.where(cut.zero >= stage, group, 1) for stage in (3, 2, 1)]
    held = sum(part * size / shard for part, shard in zip(SHARDS, shards, strict=True))
    held = held + alive * layer_activation(job, cut)
    moved = 2.0 * job.tokens / job.devices * job.model.hidden
    changes = cut.tensor[:, None] != cut.tensor[None, :]
    near = job.device.scaleup_bw or job.far_bw
    reshard = np.where(changes, 2.0 * moved / near, 0.0)
    return np.tile(each, (layers, 1)), np.tile(held, (layers, 1)), reshard
