"""SageMaker model parallelism: a tree of modules is cut into pipeline stages by a cost of memory and time.

Karakus et al. (arXiv 2111.05972). The cost of a module is w · its part of the memory + (1 − w) · its part of the time.
From the root down, the children of a module are cut into as many runs as there are devices by dynamic programming,
which minimises the largest cost; devices go to runs in proportion to costs by D'Hondt's rule; runs with several
devices are cut further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from poise.core.errors import ScenarioError
from poise.pipeline.even_cut import even_cut

SPEED, MEMORY = 0.2, 0.8
"""Weights of memory that the library takes where it is to optimise speed or memory (its `memory_weight`)."""


@dataclass(frozen=True)
class Module:
    """A module and its parts in the order in which they run; memory and time, in any units, are those of all parts."""

    name: str
    memory: float
    time: float
    parts: tuple[Module, ...] = ()

    @classmethod
    def of(cls, name: str, parts: Sequence[Module]) -> Module:
        """A module that has nothing but its parts."""
        return cls(name, sum(each.memory for each in parts), sum(each.time for each in parts), tuple(parts))

    def leaves(self) -> Iterator[Module]:
        """The modules without parts, in order."""
        for each in self.parts:
            yield from each.leaves()
        if not self.parts:
            yield self

    def cost(self, root: Module, weight: float) -> float:
        """w · memory + (1 − w) · time, as parts of those of the whole tree."""
        return weight * self.memory / root.memory + (1 - weight) * self.time / root.time


Cost = Callable[[Module], float]


def partition(root: Module, devices: int, weight: float = MEMORY) -> list[list[Module]]:
    """The leaves of each device; a device may stay empty. ScenarioError for no device or a weight outside 0 to 1."""
    if devices < 1 or not 0 <= weight <= 1:
        raise ScenarioError(
            f"module tree: {devices} devices and weight {weight}; give 1 or more devices, and a weight of 0 to 1"
        )
    found: list[list[Module]] = [[] for _ in range(devices)]
    _place([root], range(devices), found, partial(Module.cost, root=root, weight=weight))
    return found


def _place(modules: Sequence[Module], devices: range, found: list[list[Module]], cost: Cost) -> None:
    """Put modules on devices, which are cut down with them."""
    if len(devices) == 1 or (len(modules) == 1 and not modules[0].parts):
        found[devices[0]] += [leaf for each in modules for leaf in each.leaves()]
    elif len(modules) == 1:
        _place(modules[0].parts, devices, found, cost)
    else:
        costs = [cost(each) for each in modules]
        runs = even_cut(costs, min(len(devices), len(modules)))
        shares = dhondt([sum(costs[start:end]) for start, end in runs], len(devices))
        first = 0
        for (start, end), share in zip(runs, shares, strict=True):
            own = devices[first : first + share] if share else devices[max(first - 1, 0) : max(first, 1)]
            _place(modules[start:end], own, found, cost)
            first += share


def dhondt(costs: Sequence[float], seats: int) -> list[int]:
    """Seats in proportion to costs: each goes to where cost / (seats so far + 1) is largest."""
    given = [0] * len(costs)
    for _ in range(seats):
        given[max(range(len(costs)), key=lambda at: costs[at] / (given[at] + 1))] += 1
    return given
