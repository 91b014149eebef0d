"""APEX: of all ways to lay a model over given devices, the one that is fastest, or takes the least energy.

Lin et al., arXiv 2411.17651 (2024); code: microsoft/apex_plus. A model is a chain of equal blocks of cells, so a plan
is one mapping of each kind of cell, repeated: replicas × pipeline stages of equal depth, and inside a stage attention
in tensor ranks × data ranks with a feed-forward block cut over all of them (`poise.cost.cells`), or experts spread over
`expert` of the stage's devices and cut over the rest. The frequency of the devices is a dimension like the others, for
energy. Every plan that fits is evaluated on the very requests, and the best is taken; nothing is pruned but by memory.

Parameters: `objective` (latency, the published default, or energy); `clocks` (1.0 alone): parts of the full clock to
try, 810/1980 for the second one of the published profiles of H100 and H200. Whether a plan fits and what it scores are
functions that are handed in. Plans with equal scores: the first, which has the fewest replicas and stages.

Deviations: no plan cuts attention and gives the feed-forward block data ranks of its own; encoders are left out. A
latency is whatever the caller scores: the published one is the time until all requests of a trace are served.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from poise.core.errors import CapacityError, UserError
from poise.core.placement import Demand, Placement, Share, Unit
from poise.policies.kit.demand_checks import UNLIMITED, check, served, short, taken


class Plan(NamedTuple):
    """A layout of all devices: replicas × pipeline × tensor × data, experts over `expert` devices, and their clock."""

    replicas: int = 1
    pipeline: int = 1
    tensor: int = 1
    data: int = 1
    expert: int = 1
    clock: float = 1.0

    def __str__(self) -> str:
        parts = zip(("", "pp", "tp", "dp", "ep"), self[:5], strict=True)
        named = " ".join(f"{name}{count}" if name else f"{count}x" for name, count in parts)
        return named if self.clock == 1.0 else f"{named} at {100 * self.clock:.0f} % clock"


class Score(NamedTuple):
    """The cost of a plan: seconds and joules of the whole demand, and requests per second (None: all are served)."""

    latency_s: float
    energy_j: float
    rate: float | None = None


def heuristic(devices: int, node_devices: int) -> Plan:
    """What APEX is compared with: tensor ranks inside a node, pipeline stages over nodes."""
    return Plan(pipeline=max(devices // node_devices, 1), tensor=min(devices, node_devices))


@dataclass(frozen=True, slots=True)
class Apex:
    """Choose one plan for all devices. See the module for what a plan is."""

    objective: Literal["latency", "energy"] = "latency"
    clocks: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if self.objective not in ("latency", "energy"):
            raise ValueError(f"objective {self.objective!r} is neither latency nor energy; give one of them")
        if not self.clocks or not all(0 < clock <= 1 for clock in self.clocks):
            raise ValueError(f"clocks {self.clocks} are no parts of a clock; give one or more, above 0, at most 1")

    def plans(self, devices: int, fits: Callable[[Plan], bool], experts: int = 1) -> tuple[Plan, ...]:
        """Every plan that takes exactly `devices` and `fits`; `experts` of the model (1: it has none)."""
        return tuple(
            plan
            for replicas in _divisors(devices)
            for pipeline in _divisors(devices // replicas)
            for tensor in _divisors(devices // replicas // pipeline)
            for expert in _divisors(devices // replicas // pipeline)
            for clock in self.clocks
            if expert <= experts
            and fits(plan := Plan(replicas, pipeline, tensor, devices // replicas // pipeline // tensor, expert, clock))
        )

    def search(
        self, demand: Demand, devices: int, fits: Callable[[Plan], bool], evaluate: Callable[[Plan], Score],
        experts: int = 1, device: str = "", price: float = 1.0,
    ) -> tuple[Placement, tuple[Plan, ...]]:  # fmt: skip
        """Evaluate every plan and take the best; the placement counts these plans. price: of a device for an hour."""
        found = self.plans(devices, fits, experts)
        if not found:
            raise CapacityError(
                f"no layout of {devices} devices holds the model; give more or larger devices, or narrower weights"
            )
        units = []
        for plan in found:
            score = evaluate(plan)
            rates = tuple(bucket.rate if score.rate is None else score.rate for bucket in demand.buckets)
            units.append(
                Unit(
                    str(plan), devices * price, rates, device, devices,
                    latency_s=score.latency_s, energy_j=score.energy_j,
                )
            )  # fmt: skip
        return self.place(demand, units), found

    def place(self, demand: Demand, units: Sequence[Unit], available: Mapping[str, int] = UNLIMITED) -> Placement:
        """One of the best unit; CapacityError where none carries the whole demand alone."""
        check(demand, units, available)
        for unit in units:
            if self._figure(unit) <= 0:
                raise UserError(
                    f"unit {unit.name}: its {self.objective} is unsaid; apex needs one above 0 of each unit"
                )
        loaded = served(demand, units)
        able = [
            index for index, unit in enumerate(units)
            if all(unit.rates[bucket] >= demand.buckets[bucket].rate for bucket in loaded)
        ]  # fmt: skip
        if not able:
            raise CapacityError(f"none of {len(units)} plans carries {demand.rate:g} requests per second; add devices")
        best = min(able, key=lambda index: self._figure(units[index]))
        counts = [int(index == best) for index in range(len(units))]
        if any(taken(counts, units).get(device, 0) > most for device, most in available.items()):
            raise CapacityError(short(counts, units, available, "apex's plan"))
        shares = tuple(Share(bucket, best, demand.buckets[bucket].rate) for bucket in loaded)
        price = units[best].price
        return Placement(tuple(counts), shares, tuple(map(float, counts)), price, price)

    def _figure(self, unit: Unit) -> float:
        return unit.latency_s if self.objective == "latency" else unit.energy_j


def _divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]
