"""Metrics of a pool for scalers, and windows over their history."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import ceil
from typing import Final

from poise.core.action import Scale
from poise.core.chance import Chance
from poise.core.view import FleetView, PoolView

NEEDS: Final = {
    "requests": "requests",
    "waiting": "waiting",
    "running": "running",
    "tokens": "tokens",
    "queued_tokens": "queued_tokens",
    "kv": "free_blocks",
}
"""Metrics of a pool, and the column that each is read from."""


def check_metric(metric: str) -> None:
    """ValueError for an unknown metric."""
    if metric not in NEEDS:
        raise ValueError(f"metric {metric!r} is none of {', '.join(NEEDS)}; name one of them")


def total(cluster: FleetView, pool: PoolView, metric: str) -> float:
    """A metric summed over a pool's serving replicas.

    requests and waiting count those held at the gateway for the pool too; kv is each replica's share of KV blocks used.
    """
    column: Sequence[int] = getattr(cluster, NEEDS[metric])
    if metric == "kv":
        blocks = cluster.total_blocks
        return sum(1 - column[each] / blocks[each] for each in pool.serving if blocks[each])
    return sum(column[each] for each in pool.serving) + (pool.held if metric in ("requests", "waiting") else 0)


def count(amount: float, each: float) -> int:
    """How many of `each` make up `amount`, up to the error of floats."""
    return ceil(amount / each - 1e-9)


class PoolScaler:
    """A scaler that decides for each pool by itself, from one metric of it."""

    __slots__ = ()
    metric: str

    @property
    def needs(self) -> tuple[str, ...]:
        """The column read."""
        return (NEEDS[self.metric],)

    def scale(self, cluster: FleetView, chance: Chance) -> Sequence[Scale]:
        """A target for each pool that has one."""
        targets = [self._wish(cluster, number, pool) for number, pool in enumerate(cluster.pools)]
        return [
            Scale(number, target, cluster.pools[number].warm)
            for number, target in enumerate(targets)
            if target is not None
        ]

    def _wish(self, cluster: FleetView, number: int, pool: PoolView) -> int | None:
        """The target of a pool; None to leave it as it is."""
        raise NotImplementedError


class Lately:
    """Values of the last `length` picoseconds, in order."""

    __slots__ = ("_values", "length")

    def __init__(self, length: int) -> None:
        self.length = length
        self._values: deque[tuple[int, float]] = deque()

    def add(self, now: int, value: float) -> None:
        """Add `value` at `now`, and drop values older than the window."""
        self._values.append((now, value))
        self.trim(now)

    def trim(self, now: int) -> None:
        """Drop values older than the window."""
        while self._values and self._values[0][0] <= now - self.length:
            self._values.popleft()

    def __len__(self) -> int:
        return len(self._values)

    @property
    def mean(self) -> float:
        """Their mean, 0 of none."""
        return self.sum / len(self._values) if self._values else 0.0

    @property
    def sum(self) -> float:
        """Their sum."""
        return sum(value for _, value in self._values)

    @property
    def most(self) -> float:
        """The highest, 0 of none."""
        return max((value for _, value in self._values), default=0.0)

    @property
    def least(self) -> float:
        """The lowest, 0 of none."""
        return min((value for _, value in self._values), default=0.0)
