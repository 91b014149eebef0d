"""The question of a comparison: which policies at which loads under which seeds, on what, and how to judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from poise.core.spec import Belief, Cluster, ReplicaSpec, Slo
from poise.policies import Policies
from poise.report.figures import Figure, deciding

if TYPE_CHECKING:
    from poise.scenario.simulate import Cost
    from poise.workload import Workload

SEEDS = 5
"""Default number of seeds of generated load: with fewer, t makes intervals very wide."""


class Place(NamedTuple):
    """One cell of the grid."""

    load: float
    policy: str
    seed: int


@dataclass(frozen=True, slots=True)
class Setting:
    """The common settings of all cells; `warmup_s`, `until_s`, `drain` and `known` as in `simulate`."""

    cluster: Cluster
    cost: Cost | None = None
    belief: Belief = field(default_factory=Belief)
    slo: Slo = field(default_factory=Slo)
    warmup_s: float = 0.0
    until_s: float | None = None
    drain: bool = True
    known: tuple[ReplicaSpec, ...] | None = None


@dataclass(frozen=True, slots=True)
class Study:
    """Policies by name × loads × seeds; every cell of one load and seed has the same requests.

    make: the workload under a seed at a load.  recorded: its arrivals are those of one recording, so seeds are no
    independent traffic, and intervals come from blocks of time.  by: the figure that decides.
    target: the share of arrivals that must meet the SLO of a load that counts as carried.
    """

    setting: Setting
    policies: Mapping[str, Policies]
    make: Callable[[int, float], Workload]
    recorded: bool
    by: Figure
    loads: tuple[float, ...] = (1.0,)
    seeds: tuple[int, ...] = (0,)
    target: float = 0.9

    @property
    def by_seeds(self) -> bool:
        """Whether intervals come from seeds: the load is generated, and there are two or more."""
        return not self.recorded and len(self.seeds) > 1

    @property
    def names(self) -> tuple[str, ...]:
        """The policies."""
        return tuple(self.policies)

    @property
    def at(self) -> tuple[float, ...]:
        """The loads."""
        return self.loads

    def figure(self, name: str) -> Figure:
        """The figure of a name; UserError where there is none."""
        return deciding(name)

    def places(self) -> list[Place]:
        """All cells, load by load, those that share a workload one after the other."""
        return [Place(load, policy, seed) for load in self.loads for seed in self.seeds for policy in self.policies]
