"""PipeDream's partitioner (Narayanan et al., SOSP 2019, section 3.1): layers to stages, and replicas for each stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from poise.core.errors import ScheduleError


@dataclass(frozen=True)
class Layer:
    """What one layer takes: forward and backward in seconds, its output and its weights in bytes."""

    time: Fraction
    output: Fraction
    weights: Fraction


@dataclass(frozen=True)
class Level:
    """A number of components of the level below (devices, at the lowest), joined at bytes per second."""

    components: int
    bandwidth: Fraction


@dataclass(frozen=True)
class Stage:
    """Layers from `first` to `last`, on `devices` devices that alternate."""

    first: int
    last: int
    replicas: int


@dataclass(frozen=True)
class Partition:
    """`time` is that between two inputs once the pipeline is full."""

    time: Fraction
    stages: tuple[Stage, ...]


def partition(layers: Sequence[Layer], levels: Sequence[Level]) -> Partition:
    """The partition with the least time per input that uses all devices; of equals one with fewest stages.

    A stage on m components takes the larger of its time below and of its weights' exchange, 2(m − 1) / m of their bytes
    at the level's bandwidth, for m inputs; compute and exchange overlap. Between two stages an output goes forward and
    its gradient back, 2 a / B. Solved level by level: a component of one level is a whole pipeline of the level below.
    """
    if not layers or not levels or min(level.components for level in levels) < 1:
        raise ScheduleError("partition: give at least one layer, and levels of at least one component")
    if min(level.bandwidth for level in levels) <= 0:
        raise ScheduleError("partition: a level's bandwidth must be more than 0 bytes/s")
    sums = [Fraction(0)]
    weights = [Fraction(0)]
    for layer in layers:
        sums.append(sums[-1] + layer.time)
        weights.append(weights[-1] + layer.weights)

    @cache
    def whole(level: int, first: int, last: int, count: int) -> Partition:
        """The layers as one stage of `count` components."""
        below = best(level - 1, first, last, levels[level - 1].components) if level else None
        inner = below or Partition(sums[last + 1] - sums[first], (Stage(first, last, 1),))
        sync = Fraction(2 * (count - 1), count) * (weights[last + 1] - weights[first]) / levels[level].bandwidth
        stages = tuple(Stage(each.first, each.last, each.replicas * count) for each in inner.stages)
        return Partition(max(inner.time, sync) / count, stages)

    @cache
    def best(level: int, first: int, last: int, count: int) -> Partition:
        """The layers as one stage, or as a pipeline whose last stage is one."""
        found = whole(level, first, last, count)
        for cut in range(first, last):
            hop = 2 * layers[cut].output / levels[level].bandwidth
            for behind in range(1, count):
                if hop >= found.time:
                    break
                head, tail = best(level, first, cut, count - behind), whole(level, cut + 1, last, behind)
                time = max(head.time, hop, tail.time)
                if time < found.time or (time == found.time and len(found.stages) > len(head.stages + tail.stages)):
                    found = Partition(time, head.stages + tail.stages)
        return found

    return best(len(levels) - 1, 0, len(layers) - 1, levels[-1].components)
