"""BlockLLM: fine-tuned variants of a model share the blocks that are equal, so that a device holds more of them.

BlockLLM (arXiv 2404.18322). A request is a chain of blocks. A device keeps shared blocks once and each variant's own
beside them, so a variant is at more devices than if each held whole models, and its requests wait less. Shared blocks
may run elsewhere first, for the price of a hop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from random import Random

from poise.core.errors import UserError
from poise.cost.variants import placed, popularity


@dataclass(frozen=True, slots=True)
class Zoo:
    """variants: of one model.  shared: the part of each one's blocks that all have in common.  skew: how popularity
    falls, by the power of a variant's rank.  room: whole models that a device's memory holds.  work_s: of a mean
    request through all blocks on one device.  hop_s: from one device to another.
    """

    variants: int
    shared: float
    skew: float = 1.0
    room: float = 2.0
    work_s: float = 1.0
    hop_s: float = 0.0

    def __post_init__(self) -> None:
        if self.variants < 1 or not 0 <= self.shared <= 1 or self.work_s <= 0 or self.hop_s < 0 or self.skew < 0:
            raise UserError(f"{self}: give 1 variant or more, a part of 1, and durations that are not below 0")
        if self.room < 1:
            raise UserError(f"room {self.room}: a device holds no model; give 1 or more")

    def popularity(self) -> list[float]:
        """The part of requests that each variant has."""
        return popularity(self.variants, self.skew)

    def held(self) -> int:
        """Variants that a device holds: k of them take s + k·(1 − s) models of room."""
        if self.shared == 1:
            return self.variants
        return min(self.variants, int((self.room - self.shared) / (1 - self.shared) + 1e-9))


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request for a variant, with its work over that of the mean request."""

    at_s: float
    variant: int
    size: float


def arrivals(zoo: Zoo, rate: float, requests: int, seed: int) -> list[Arrival]:
    """Poisson arrivals of variants by popularity, with exponential sizes."""
    chance, at, found = Random(seed), 0.0, []
    for variant in chance.choices(range(zoo.variants), zoo.popularity(), k=requests):
        at += chance.expovariate(rate)
        found.append(Arrival(at, variant, chance.expovariate(1.0)))
    return found


def per_model(zoo: Zoo, rows: Sequence[Arrival], devices: int) -> list[float]:
    """Latencies where devices hold whole models; a request goes to the device of its variant that is free first."""
    where, free = placed(zoo.popularity(), devices, min(int(zoo.room), zoo.variants)), [0.0] * devices
    return [_whole(zoo, row, where[row.variant], free) - row.at_s for row in rows]


def per_block(zoo: Zoo, rows: Sequence[Arrival], devices: int) -> list[float]:
    """Latencies where devices hold blocks: as before among more devices, or shared blocks on another one meanwhile.

    Those run where work ends first, and come back over a hop before their turn, so that no device waits for them.
    """
    where, free = placed(zoo.popularity(), devices, zoo.held()), [0.0] * devices
    found = []
    for row in rows:
        own, work = where[row.variant], row.size * zoo.work_s
        near = min(own, key=free.__getitem__)
        far = min(range(devices), key=free.__getitem__)
        passed = max(free[far], row.at_s) + zoo.shared * work
        if far in own or not zoo.shared or passed + zoo.hop_s > free[near]:
            found.append(_whole(zoo, row, own, free) - row.at_s)
            continue
        free[far], free[near] = passed, free[near] + (1 - zoo.shared) * work
        found.append(free[near] - row.at_s)
    return found


def _whole(zoo: Zoo, row: Arrival, own: Sequence[int], free: list[float]) -> float:
    """When a request ends that runs on one device; books it."""
    device = min(own, key=free.__getitem__)
    free[device] = max(free[device], row.at_s) + row.size * zoo.work_s
    return free[device]


def percentile(latencies: Sequence[float], part: float = 0.95) -> float:
    """The nearest rank."""
    return sorted(latencies)[max(0, ceil(part * len(latencies)) - 1)]
