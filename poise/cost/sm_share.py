"""What a lane with a part of a device's SMs reaches, and how lanes that run side by side slow one another.

Alone, time is a smooth maximum of what the lane's SMs take and of what the whole device's limit takes (clock and power
for arithmetic, memory for bandwidth): with a share s and a limit a, s·((1 + a³)/(s³ + a³))^(1/3) of a rate is reached.
Side by side, lanes may not use more than the device has, of arithmetic and of bandwidth: what lanes demand less than
an even part is left to the others (max-min fairness), and a lane is slowed as a whole by what it lacks most. Above
that, a lane is slowed in proportion to the bandwidth that the others use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from poise.core.estimate import Piece, Running, StepShape
from poise.core.spec import Device
from poise.core.units import SECOND
from poise.cost.operator import SMOOTH

Cost = Callable[[StepShape], Piece]

STARVED = 1 / 1024
"""The part of a rate that is left to find what a step needs of it: beside it, all else hardly counts."""


def reached(share: float, limit: float) -> float:
    """The part of a device's rate that `share` of its SMs reaches: at least the share, at most 1."""
    return float(share * ((1 + limit**SMOOTH) / (share**SMOOTH + limit**SMOOTH)) ** (1 / SMOOTH))


def slower(device: Device, arithmetic: float, bandwidth: float) -> Device:
    """A device with a part of its arithmetic, in all formats, and a part of its memory bandwidth."""
    if arithmetic == bandwidth == 1.0:
        return device
    peaks = {name: getattr(device, name) * arithmetic for name in ("bf16_flops", "fp8_flops", "int8_ops", "fp4_flops")}
    return replace(device, memory_bw=device.memory_bw * bandwidth, **peaks)


def fair(demands: Sequence[float], most: float = 1.0) -> list[float]:
    """What each of `demands` gets of `most`: max-min fairness, which hands on what a small demand leaves."""
    given = [0.0] * len(demands)
    for taken, at in enumerate(sorted(range(len(demands)), key=demands.__getitem__)):
        given[at] = min(demands[at], most / (len(demands) - taken))
        most -= given[at]
    return given


class Use(NamedTuple):
    """The parts of a device's arithmetic and bandwidth that a step uses over its time."""

    arithmetic: float
    bandwidth: float


def slowed(uses: Sequence[Use], friction: float) -> list[float]:
    """The factor on the time of each of the steps that run side by side, each at least 1."""
    factors = [1.0] * len(uses)
    for demands in zip(*uses, strict=True):
        for at, (demand, got) in enumerate(zip(demands, fair(demands), strict=True)):
            if demand > got:
                factors[at] = max(factors[at], demand / got)
    moved = [use.bandwidth / factor for use, factor in zip(uses, factors, strict=True)]
    return [factor * (1 + friction * (sum(moved) - own)) for factor, own in zip(factors, moved, strict=True)]


class Contention:
    """How the lanes of a pool's replicas slow one another (`poise.core.estimate.Sharing`), by the pool's own costs.

    step: the costs of a step.  arithmetic, bandwidth: those on a device with only `STARVED` of the one or the other.
    host: the picoseconds of a step's costs in which the device waits for the host.
    """

    def __init__(
        self,
        step: Cost,
        arithmetic: Cost,
        bandwidth: Cost,
        host: Callable[[StepShape], int],
        friction: float,
        switch_s: float,
    ) -> None:
        self.switch = round(switch_s * SECOND)
        self.host = host
        self._step, self._needs, self._friction = step, (arithmetic, bandwidth), friction

    def factors(self, running: Sequence[Running]) -> list[float]:
        """The factor on the device's time of each step, alone with its share, while all of them run side by side."""
        return slowed([self.use(each) for each in running], self._friction)

    def use(self, step: Running) -> Use:
        """What a step uses of the device while it is on it, alone with its share."""
        host = self.host(step.shape)
        time = max(_duration(self._step, step) - host, 1)
        whole = step._replace(shape=step.shape._replace(share=1.0))
        return Use(*(min(STARVED * (_duration(need, whole) - host) / time, 1.0) for need in self._needs))


def _duration(cost: Cost, step: Running) -> int:
    piece = cost(step.shape).at(step.kv)
    return piece.base + piece.per_kv * step.kv + piece.per_window * step.window
