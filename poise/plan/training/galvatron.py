"""A strategy for each layer by dynamic programming over memory.

Galvatron (Miao et al., "Efficient transformer training over multiple GPUs using automatic parallelism", VLDB 2023,
section 4): f[l][v][s] = min over s' of f[l − 1][v − memory(l, s)][s'] + reshard(s', s) + time(l, s).
`layer_strategies.py` has what it chooses from.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

from poise.core.errors import ScenarioError

GRAIN = 64 << 20
"""Bytes of one unit of memory in the programme; a layer's bytes are rounded up."""

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
