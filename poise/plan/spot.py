"""The same fleet on spot machines: how many more replicas are needed, and what a reclaim does meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp

from poise.core.spec import Fault
from poise.core.units import SECOND
from poise.plan.fleet import Fleet
from poise.plan.prices import Price
from poise.plan.trial import Bench

START_S = 300.0
"""Default seconds until a reclaimed replica serves again elsewhere."""

NOTICE_S = 30.0
"""Seconds of notice before a machine is reclaimed, the shortest that the large clouds give."""

ENOUGH = 0.999
"""The share of time in which at least the needed number of replicas must be up."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A fleet on spot machines.

    spares: replicas beyond those needed.  price_per_hour: of all.  up: the share of time in which enough are up.
    reclaimed: the share of arrivals that meets the SLO in a stretch in which one replica of each pool is reclaimed.
    """

    fleet: Fleet
    spares: int
    price_per_hour: float
    up: float
    reclaimed: float


def spot(fleet: Fleet, prices: Mapping[str, Price], bench: Bench, start_s: float = START_S) -> Spot | None:
    """The spot form of a fleet; None where one of its devices has no spot price.

    Replicas are reclaimed one by one at their devices' rate and are back `start_s` later, so of n that are held, those
    that are away are Poisson with mean n · rate · start_s (M/G/∞; Erlang's loss system without waiting).
    """
    offers = [prices.get(pool.device.name) for pool in fleet.pools]
    if any(offer is None or offer.spot is None for offer in offers):
        return None
    counts, price, up = [], 0.0, 1.0
    for pool, offer in zip(fleet.pools, offers, strict=True):
        assert offer is not None and offer.spot is not None
        away = offer.reclaims_per_hour * pool.devices * start_s / 3600
        held = pool.replicas
        while (share := poisson_below(held * away, held - pool.replicas)) < ENOUGH:
            held += 1
        counts.append(held)
        price += held * pool.devices * offer.spot
        up *= share
    wider = fleet.with_replicas(tuple(counts))
    return Spot(wider, wider.replicas - fleet.replicas, price, up, _reclaimed(wider, bench))


def poisson_below(mean: float, most: int) -> float:
    """P(N ≤ most) of a Poisson variable."""
    term = total = exp(-mean)
    for n in range(1, most + 1):
        term *= mean / n
        total += term
    return min(total, 1.0)


def _reclaimed(fleet: Fleet, bench: Bench) -> float:
    """The share that meets the SLO when one replica of each pool is reclaimed in the middle of the stretch."""
    middle = float(bench.demand.stretches[0].arrival[-1]) / SECOND / 2
    faults, first = [], 0
    for pool in fleet.pools:
        faults.append(Fault(middle, "reclaimed", first, NOTICE_S))
        first += pool.replicas
    return bench.trial(replace(fleet, faults=tuple(faults))).attainment
