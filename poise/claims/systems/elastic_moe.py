"""ElasticMoE: ranks that come in seconds, against whole instances that come in minutes and a restart in place."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import poise as ps
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.core.spec import Cluster, Fault, Startup
from poise.policies.scale.elastic_moe import ElasticMoe
from poise.report.intervals import Interval, over_seeds
from poise.report.wording import write

SLO = ps.Slo(ttft_s=1.0)
MODEL, RANKS = "qwen3-30b-a3b", 3
BASE, PEAK, PEAK_S, LEAD_S, TAIL_S = 60.0, 120.0, 60.0, 60.0, 120.0
RISES = (0.0, 30.0, 120.0, 360.0)

ELASTIC, HORIZONTAL, COLD = "elastic", "horizontal", "cold restart"


class Metrics(NamedTuple):
    """Of the requests of one setting: the share in time, over seeds."""

    elastic: Interval
    horizontal: Interval
    cold: Interval


def cluster(ranks: int, **options: object) -> Cluster:
    """Replicas of one rank each."""
    return ps.Cluster.of("H200", count=12).replicas(ranks, model=MODEL, **options)


def settings(rise_s: float) -> dict[str, tuple[Cluster, ps.Policies]]:
    """The three ways to grow."""
    rule = ElasticMoe(ttft_s=1.0)
    ranks = {"min_replicas": RANKS, "max_replicas": 2 * RANKS}
    begin = LEAD_S + rise_s + 1.0
    restart = [Fault(begin, "lost", rank) for rank in range(RANKS)]
    restart += [Fault(begin, "join", rank) for rank in range(RANKS, 3 * RANKS)]
    return {
        ELASTIC: (cluster(RANKS, startup=Startup(capture_s=2.43), **ranks), ps.Policies(scaler=rule)),
        HORIZONTAL: (
            cluster(RANKS, startup=Startup(capture_s=90.0), **ranks),
            ps.Policies(scaler=replace(rule, step=RANKS)),
        ),
        COLD: (replace(cluster(3 * RANKS, start_s=67.4), faults=tuple(restart)), ps.Policies()),
    }


def measure(bench: Bench) -> Findings:
    """How fast the load rises × how the fleet grows."""
    found = {rise: Metrics(*(_share(bench, rise, *each) for each in settings(rise).values())) for rise in RISES}
    names = (ELASTIC, HORIZONTAL, COLD)
    lines = {
        name: [Point(rise, told[at].value, told[at].half) for rise, told in found.items()]
        for at, name in enumerate(names)
    }
    curve = Curve("First tokens in time", "the load doubles within, s", "share", lines)
    return Findings([_order(found), _colder(found), _vanishes(found)], [curve])


def _share(bench: Bench, rise_s: float, fleet: Cluster, policies: ps.Policies) -> Interval:
    """The share of all requests in time."""
    peak = LEAD_S + max(rise_s, 0.001)
    points = [(0.0, BASE), (LEAD_S, BASE), (peak, PEAK), (peak + PEAK_S, PEAK), (peak + PEAK_S + 0.001, BASE)]
    points.append((peak + PEAK_S + TAIL_S, BASE))
    shares = []
    for seed in range(bench.seeds()):
        load = ps.workload.diurnal(points, prompt_tokens=1000, output_tokens=200, seed=seed)
        found = bench.simulate(fleet, load, policies, seed=seed).metrics(SLO, warmup_s=LEAD_S)
        shares.append(found.slo_attainment or 0.0)
    return over_seeds(shares)


def _gap(own: Interval, other: Interval) -> str:
    return f"{write(own.value, 'share', 3)} vs {write(other.value, 'share', 3)}"


def _order(found: dict[float, Metrics]) -> Answer:
    sharp = found[0.0]
    return Answer(
        "order",
        "; ".join(f"within {rise:g} s: {_gap(told.elastic, told.horizontal)}" for rise, told in found.items()),
        _above(sharp.elastic, sharp.horizontal),
    )


def _colder(found: dict[float, Metrics]) -> Answer:
    met = all(_above(told.horizontal, told.cold) for told in found.values())
    return Answer(
        "colder",
        "; ".join(f"within {rise:g} s: {_gap(told.horizontal, told.cold)}" for rise, told in found.items()),
        met,
    )


def _vanishes(found: dict[float, Metrics]) -> Answer:
    """Where the load rises more slowly than an instance starts, little of the advantage may be left."""
    leads = {rise: (told.elastic.value or 0.0) - (told.horizontal.value or 0.0) for rise, told in found.items()}
    return Answer(
        "vanishes",
        "; ".join(f"within {rise:g} s: {100 * lead:.1f} points" for rise, lead in leads.items()),
        leads[RISES[-1]] / leads[0.0],
    )


def _above(own: Interval, other: Interval) -> bool | None:
    """Whether one is above the other by more than the halves of both intervals."""
    if own.value is None or other.value is None or own.half is None or other.half is None:
        return None
    gap, doubt = own.value - other.value, own.half + other.half
    return True if gap > doubt else False if gap < -doubt else None
