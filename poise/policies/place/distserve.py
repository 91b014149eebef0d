"""DistServe: prefill and decode apart, each in the layout with the most goodput per device, as often as the rate needs.

Zhong et al., OSDI 2024 (arXiv 2401.09670), section 4; code: LLMServe/DistServe, simdistserve/benchmarks. Goodput is the
highest rate at which the required share of requests is within the SLO, found by bisection of simulated rates.

affinity high (algorithm 1; KV passes between nodes as fast as within one): every layout of up to `nodes` ×
`node_devices` devices is rated for each phase by itself; prefill takes the one with the most goodput per device, and so
does decode; of each there are ⌈rate / goodput⌉.
affinity low (algorithm 2; between nodes KV is slow): KV passes between equal layers only, so both phases are cut into
`stages` segments over as many nodes, and segments of equal layers share a node. Prefill and decode are rated as a
pair, and there are ⌈rate / goodput⌉ pairs.

Parameters: `affinity`; `nodes` (4) that one instance may span at most and `node_devices` (8) of a node, as in the
paper's cluster. Which layouts hold the model, and the goodput of one, are functions that are handed in: a policy knows
no simulator. Candidates with equal goodput per device: the fewest devices, then the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import Literal, NamedTuple

from poise.core.errors import CapacityError, UserError
from poise.core.placement import Demand, Placement, Share, Unit
from poise.core.spec import Role
from poise.policies.kit.demand_checks import UNLIMITED, check, served, short, taken


class Layout(NamedTuple):
    """Devices of an instance: tensor × pipeline."""

    tensor: int
    pipeline: int

    @property
    def devices(self) -> int:
        """Devices of one instance."""
        return self.tensor * self.pipeline


class Candidate(NamedTuple):
    """What is rated: an instance of one phase (the other is None), or a pair in `stages` segments."""

    prefill: Layout | None
    decode: Layout | None
    stages: int = 1

    @property
    def role(self) -> Role:
        """The phase it serves."""
        return "mixed" if self.prefill and self.decode else "prefill" if self.prefill else "decode"

    @property
    def devices(self) -> int:
        """Devices of both sides, over all stages."""
        return sum(layout.devices for layout in (self.prefill, self.decode) if layout)

    def __str__(self) -> str:
        parts = (("prefill", self.prefill), ("decode", self.decode))
        return " + ".join(f"{name} tp{layout.tensor} pp{layout.pipeline}" for name, layout in parts if layout)


def goodput(meets: Callable[[float], bool], most: float, epsilon: float = 0.25) -> float:
    """The highest rate up to `most` that `meets` the SLO, to within `epsilon`, by bisection; 0 where none is found.

    0.25 is the published code's, in requests per second and device.
    """
    low, high = 0.0, most
    while high - low > epsilon:
        rate = (low + high) / 2
        low, high = (rate, high) if meets(rate) else (low, rate)
    return low


@dataclass(frozen=True, slots=True)
class DistServe:
    """Choose the layouts of both phases and replicate them. See the module for the two algorithms."""

    affinity: Literal["high", "low"] = "high"
    nodes: int = 4
    node_devices: int = 8

    def __post_init__(self) -> None:
        if self.affinity not in ("high", "low"):
            raise ValueError(f"affinity {self.affinity!r} is neither high nor low; give one of them")
        if self.nodes < 1 or self.node_devices < 1:
            raise ValueError(f"{self.nodes} nodes of {self.node_devices} devices hold nothing; give 1 or more of both")

    def candidates(self, fits: Callable[[Layout], bool]) -> tuple[Candidate, ...]:
        """The candidates to rate; `fits` is whether an instance in a layout holds the model."""
        if self.affinity == "low":
            return tuple(self._pairs(fits))
        layouts = [
            layout
            for tensor in range(1, self.node_devices + 1)
            for pipeline in range(1, self.nodes * self.node_devices // tensor + 1)
            if fits(layout := Layout(tensor, pipeline))
        ]
        return *(Candidate(each, None) for each in layouts), *(Candidate(None, each) for each in layouts)

    def _pairs(self, fits: Callable[[Layout], bool]) -> Iterator[Candidate]:
        """Pairs of which a node holds one segment of each side."""
        sizes = range(1, self.node_devices + 1)
        inside = [Layout(*each) for each in product(sizes, sizes) if each[0] * each[1] < self.node_devices]
        for stages, prefill, decode in product(range(1, self.nodes + 1), inside, inside):
            if prefill.devices + decode.devices <= self.node_devices:
                one, two = (Layout(each.tensor, each.pipeline * stages) for each in (prefill, decode))
                if fits(one) and fits(two):
                    yield Candidate(one, two, stages)

    def search(
        self, demand: Demand, fits: Callable[[Layout], bool], rate: Callable[[Candidate], float],
        device: str = "", price: float = 1.0, available: int | None = None,
    ) -> tuple[Placement, tuple[Candidate, ...]]:  # fmt: skip
        """Rate every candidate on one kind of device and place the best; the placement counts these candidates.

        rate: the goodput of a candidate.  price: of a device for an hour.  available: how many there are (None: any).
        """
        found = self.candidates(fits)
        if not found:
            raise CapacityError(
                f"no layout within {self.nodes} nodes of {self.node_devices} devices holds the model; allow more of "
                "them, or take larger devices or narrower weights"
            )
        units = [
            Unit(str(each), each.devices * price, (rate(each),), device, each.devices, each.role) for each in found
        ]
        return self.place(demand, units, UNLIMITED if available is None else {device: available}), found

    def place(self, demand: Demand, units: Sequence[Unit], available: Mapping[str, int] = UNLIMITED) -> Placement:
        """The best unit of each phase, or the best pair, as often as the rate needs it.

        The demand is one bucket: goodput is that of all requests as they come mixed.
        """
        check(demand, units, available)
        if len(demand.buckets) != 1:
            raise UserError(f"distserve: {len(demand.buckets)} buckets; goodput is of the mixed demand: give it as one")
        counts, loads = [0] * len(units), [0.0] * len(units)
        shares = []
        for role in ("mixed",) if self.affinity == "low" else ("prefill", "decode"):
            mine = [index for index, unit in enumerate(units) if unit.role == role]
            if not mine:
                raise CapacityError(f"distserve: no unit serves {role}; with {self.affinity} affinity it needs one")
            if not served(demand, [units[index] for index in mine]):
                continue
            best = max(mine, key=lambda index: (units[index].rates[0] / units[index].devices, -units[index].devices))
            loads[best] = demand.rate / units[best].rates[0]
            counts[best] = ceil(loads[best])
            shares.append(Share(0, best, demand.rate))
        for device, most in available.items():
            if taken(counts, units).get(device, 0) > most:
                raise CapacityError(short(counts, units, available, "distserve's placement"))
        price = sum(count * unit.price for count, unit in zip(counts, units, strict=True))
        bound = sum(load * unit.price for load, unit in zip(loads, units, strict=True))
        return Placement(tuple(counts), tuple(shares), tuple(loads), price, bound)
