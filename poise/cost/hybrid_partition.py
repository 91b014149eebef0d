"""Hybrid partition: each group of layers gets its own tensor group, by devices that may differ.

Inferflow (github.com/inferflow/inferflow) cuts a model into stages whose layers are split over as many devices as fit
each stage. Which cut is best is a shortest path: over (layers placed, devices used), a stage takes some of the next
layers on the next devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from math import inf
from typing import Literal, NamedTuple

from poise.core.errors import CapacityError
from poise.core.estimate import StepShape
from poise.core.spec import BITS, Device, Pool
from poise.core.units import SECOND
from poise.cost.collective import p2p
from poise.cost.work import Works

Aim = Literal["latency", "throughput"]


class Stage(NamedTuple):
    """`layers` layers on the devices in [first, last)."""

    layers: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Partition:
    """Stages in order, with the seconds of a step: of all stages after one another, and of the slowest."""

    stages: tuple[Stage, ...]
    latency_s: float
    slowest_s: float

    @property
    def name(self) -> str:
        """Tensor degrees by stage: 1+1+2 is two single devices and a pair."""
        return "+".join(str(stage.last - stage.first) for stage in self.stages)


class Hybrid:
    """Cuts of one model over devices in a row.

    context: tokens of KV that each of `batch` decodes reads, and keeps room for.  A tensor group is as fast as its
    slowest device, holds as much as its smallest, and is joined by the slowest of their links.
    """

    def __init__(self, pool: Pool, devices: Sequence[Device], batch: int = 1, context: int = 1024) -> None:
        self.pool, self.devices = pool, tuple(devices)
        self.batch, self.context = batch, context
        self._stage_s = cache(self._stage)

    def best(self, aim: Aim = "latency", sizes: Sequence[int] = (1, 2, 4, 8)) -> Partition:
        """The cut of the least latency, or of the least slowest stage; CapacityError where none fits."""
        layers, joined = self.pool.model.layers, _JOINS[aim]

        @cache
        def shortest(left: int, at: int) -> tuple[float, tuple[Stage, ...]]:
            if not left:
                return 0.0, ()
            found: tuple[float, tuple[Stage, ...]] = (inf, ())
            for last in (at + size for size in sizes if at + size <= len(self.devices)):
                for some in range(1, left + 1):
                    first = self.stage_s(Stage(some, at, last))
                    if first >= found[0]:
                        break  # more layers take longer, or do not fit
                    rest, stages = shortest(left - some, last)
                    whole = joined(first, rest)
                    if whole < found[0]:
                        found = whole, (Stage(some, at, last), *stages)
            return found

        _, stages = shortest(layers, 0)
        if not stages:
            raise CapacityError(f"{self.pool.model.name} fits no cut of {len(self.devices)} devices; give more of them")
        return self.evaluated(stages)

    def uniform(self, tensor: int) -> Partition:
        """Stages of equal tensor groups, with layers as equal as can be; infinite times where one does not fit."""
        count = len(self.devices) // tensor
        layers = self.pool.model.layers
        cuts = [layers * at // count for at in range(count + 1)]
        return self.evaluated([Stage(cuts[at + 1] - cuts[at], at * tensor, (at + 1) * tensor) for at in range(count)])

    def sized(self, sizes: Sequence[int]) -> Partition:
        """Stages of tensor groups of these sizes, in order, with the layers that leave the slowest the least to do;
        CapacityError where they do not all fit.
        """
        ends = list(accumulate(sizes))
        stages = [Stage(1, last - size, last) for size, last in zip(sizes, ends, strict=True)]
        for _ in range(self.pool.model.layers - len(sizes)):
            longer = [stage._replace(layers=stage.layers + 1) for stage in stages]
            each = [self.stage_s(stage) for stage in longer]
            place = each.index(min(each))
            stages[place] = longer[place]
        found = self.evaluated(stages)
        if found.slowest_s == inf:
            raise CapacityError(f"{self.pool.model.name} fits no cut into {found.name}; give more or larger devices")
        return found

    def evaluated(self, stages: Sequence[Stage]) -> Partition:
        """Stages with their times."""
        each = [self.stage_s(stage) for stage in stages]
        return Partition(tuple(stages), sum(each), max(each))

    def stage_s(self, stage: Stage) -> float:
        """Seconds of a step in a stage, with its hop to the next; infinite where it does not fit."""
        return self._stage_s(stage.layers, stage.first, stage.last)

    def _stage(self, layers: int, first: int, last: int) -> float:
        group = _slowest(self.devices[first:last])
        pool = replace(self.pool, device=group, tensor=last - first)
        model = pool.model
        held = (pool.weight_bytes * layers / model.layers) / (last - first)
        kept = self.batch * self.context * model.kv_bytes_per_token(BITS[pool.kv]) * layers / model.layers
        if held + kept / (last - first) > 0.9 * group.memory_bytes:
            return inf
        works = _works(pool)
        builder, k = works.lane(1.0)
        work = works.of(StepShape(self.batch))
        whole = work.series.at(self.batch * self.context) + model.layers * builder.kernels() * SECOND
        hop = p2p(builder.link(len(self.devices))).at(self.batch * model.hidden * 2) if len(self.devices) > 1 else 0.0
        return (whole - k.last(self.batch)) * layers / model.layers / SECOND + hop


class Gains(NamedTuple):
    """How many times as much the best cuts have as the best uniform layout, infinite where none of these fits.

    latency, throughput: of the best cut for each.  mixed: whether one of the two has tensor groups of several sizes.
    """

    latency: float
    throughput: float
    mixed: bool


def gains(pool: Pool, devices: Sequence[Device], batch: int) -> Gains:
    """The best cuts of a model over devices in a row, beside uniform layouts of groups of 1, 2 and 4."""
    hybrid = Hybrid(pool, devices, batch)
    uniform = [hybrid.uniform(size) for size in (1, 2, 4) if len(devices) % size == 0]
    quick, steady = hybrid.best("latency"), hybrid.best("throughput")
    return Gains(
        min(each.latency_s for each in uniform) / quick.latency_s,
        min(each.slowest_s for each in uniform) / steady.slowest_s,
        any(len(set(cut.name.split("+"))) > 1 for cut in (quick, steady)),
    )


_JOINS: dict[Aim, Callable[[float, float], float]] = {"latency": lambda one, two: one + two, "throughput": max}


@cache
def _works(pool: Pool) -> Works:
    return Works(pool)


def _slowest(group: Sequence[Device]) -> Device:
    """The representative device of a group: the least of every figure."""
    figures = ("bf16_flops", "fp8_flops", "int8_ops", "fp4_flops", "memory_bw", "memory_bytes", "host_bw", "scaleup_bw")
    least = {name: min(getattr(each, name) for each in group) for name in figures}
    return replace(group[0], **least, scaleup_domain=min(each.scaleup_domain for each in group))
