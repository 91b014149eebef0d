"""The settings of a fleet that were not searched from the start: its router, batch limits and single replicas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from poise.core.spec import Engine
from poise.plan.demand import Demand
from poise.plan.fleet import Fleet
from poise.plan.kind import Kind, Single

ROUTERS = ("least_requests", "least_tokens", "prefix_cache", "min_ttft")
"""Routers to try for mixed replicas; for a split also `pd_pair`."""

BUDGETS = (2048, 4096, 8192, 16384)
"""Token budgets of a step (`max_num_batched_tokens`, `chunked_prefill_size`)."""

SEQUENCES = (64, 128, 256, 512, 1024)
"""Limits of requests that run at once (`max_num_seqs`, `max_running_requests`)."""


@dataclass(frozen=True)
class Variant:
    """A kind's ladder with another router or other limits; the climb begins at the rung that held before."""

    kind: Kind
    first: int
    router: str = ""
    token_budget: int = 0
    max_sequences: int = 0

    @property
    def name(self) -> str:
        """The kind and what is changed."""
        changes = {"router": self.router, "budget": self.token_budget, "sequences": self.max_sequences}
        return ", ".join([self.kind.name, *(f"{name} {value}" for name, value in changes.items() if value)])

    @property
    def floor(self) -> int:
        """That of the kind."""
        return min(self.kind.floor, self.first)

    @property
    def watts(self) -> float:
        """That of the kind."""
        return self.kind.watts

    def fleet(self, rung: int) -> Fleet:
        """The kind's fleet with the changes."""
        fleet = self.kind.fleet(rung)
        pools = tuple(replace(pool, engine=self._engine(pool.engine)) for pool in fleet.pools)
        return Fleet(pools, self.router or fleet.router)

    def _engine(self, engine: Engine) -> Engine:
        budget, sequences = self.token_budget or engine.token_budget, self.max_sequences or engine.max_sequences
        return replace(engine, token_budget=budget, max_sequences=sequences)


def variants(kind: Kind, rung: int, demand: Demand) -> Iterator[Kind]:
    """Ladders that differ from `kind` in one setting, and fleets that differ from its `rung` in one replica."""
    fleet = kind.fleet(rung)
    routers = [name for name in ROUTERS if demand.hit > 0 or name != "prefix_cache"]
    for name in [*routers, *(["pd_pair"] if fleet.split else [])]:
        if name != fleet.router and fleet.replicas > 1:
            yield Variant(kind, rung, router=name)
    engines = {pool.engine for pool in fleet.pools}
    yield from (
        Variant(kind, rung, token_budget=n) for n in BUDGETS if any(engine.token_budget != n for engine in engines)
    )
    yield from (
        Variant(kind, rung, max_sequences=n) for n in SEQUENCES if any(engine.max_sequences != n for engine in engines)
    )
    if len(fleet.pools) > 1:
        counts = [pool.replicas for pool in fleet.pools]
        yield from (Single(fleet.with_replicas(each)) for each in neighbours(counts))


def neighbours(counts: Sequence[int]) -> list[tuple[int, ...]]:
    """Counts with one replica less, or with one moved to another pool; every pool keeps one."""
    found = []
    for less, count in enumerate(counts):
        if count > 1:
            fewer = [n - (i == less) for i, n in enumerate(counts)]
            found.append(tuple(fewer))
            found += [
                tuple(n + (i == more) for i, n in enumerate(fewer)) for more in range(len(counts)) if more != less
            ]
    return found
