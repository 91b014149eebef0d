"""Variants of one model: how popular each is, which devices hold which, and how many of them meet in a batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from poise.core.errors import UserError
from poise.core.spec import Pool


def popularity(variants: int, skew: float = 1.0) -> list[float]:
    """The part of requests that each variant has: falling by the power `skew` of its rank."""
    if variants < 1 or skew < 0:
        raise UserError(f"{variants} variants with skew {skew}: give 1 variant or more, and a skew of 0 or more")
    weights = [1 / rank**skew for rank in range(1, variants + 1)]
    return [each / sum(weights) for each in weights]


def distinct(popular: Sequence[float], requests: float) -> float:
    """Mean number of different variants among n requests, Σ 1 − (1 − p)^n, and at least 1."""
    return max(1.0, sum(1 - float((1 - part) ** requests) for part in popular))


def placed(popular: Sequence[float], devices: int, held: int) -> list[list[int]]:
    """The devices that hold each variant, `held` to a device: one each, then more where most requests go to a copy.

    The greedy rule of replication by popularity; UserError where some variant has no place.
    """
    if devices * held < len(popular):
        raise UserError(
            f"{devices} devices of {held} variants hold fewer than {len(popular)}; give more devices or room"
        )
    free = [held] * devices
    found: list[list[int]] = [[] for _ in popular]
    while any(free):
        wanting = [at for at, where in enumerate(found) if _open(free, where)]
        if not wanting:
            break
        most = max(wanting, key=lambda at: (not found[at], popular[at] / (len(found[at]) or 1)))
        device = max(_open(free, found[most]), key=lambda each: free[each])
        found[most].append(device)
        free[device] -= 1
    return found


def _open(free: Sequence[int], where: Sequence[int]) -> list[int]:
    return [device for device, left in enumerate(free) if left and device not in where]


def spread(pool: Pool, popular: Sequence[float], replicas: int, held: int) -> tuple[Pool, ...]:
    """Pools like `pool`, one for each set of variants, with `replicas` in all, `held` variants to each.

    A variant is a tenant by its number. A pool's `tenants` are those that it serves, and requests of one that several
    pools name may go to each of them.
    """
    where = placed(popular, replicas, held)
    sets = [tuple(each for each, at in enumerate(where) if replica in at) for replica in range(replicas)]
    return tuple(replace(pool, replicas=count, tenants=tenants) for tenants, count in Counter(sets).items() if tenants)
