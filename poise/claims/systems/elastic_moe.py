"""ElasticMoE: ranks that come in seconds, against whole instances that come in minutes and a restart in place."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import poise as ps
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Curve, Findings, Point
from poise.core.spec import Cluster, Fault, Startup
from poise.policies.scale.elastic_moe import ElasticMoe
from poise.report.intervals import Interval, over_seeds
from poise.report.wording import write

CLAIM = Claim(
    system="ElasticMoE",
    paper="arXiv 2510.02613",
    year=2025,
    slot="scaler",
    policies=("elastic_moe",),
    headline="scale-ups up to 9 times faster, without downtime, and up to twice the throughput while scaling",
    conditions="Ascend 910C, three MoE models; DP3→DP4 in 2.43 s, of which 62.8 s without a pre-initialised engine and "
    "67.4 s of downtime without zero-copy weights",
    here="Qwen3-30B-A3B on H200s; a rank is a replica on one device that holds all experts, and three of them serve at "
    "the start; the load doubles for a minute, at once or over so many seconds as the axis says. Elastic: one rank in "
    "2.43 s, up to six. Horizontal: a second instance of three ranks in 90 s. Cold: all is restarted with six ranks "
    "one second after the load has doubled, 67.4 s without service. The same rule decides for the first two; a first "
    "token is due in 1 s",
    trust="notes",
)

SLO = ps.Slo(ttft_s=1.0)
MODEL, RANKS = "qwen3-30b-a3b", 3
BASE, PEAK, PEAK_S, LEAD_S, TAIL_S = 60.0, 120.0, 60.0, 60.0, 120.0
RISES = (0.0, 30.0, 120.0, 360.0)
SEEDS = 4
ELASTIC, HORIZONTAL, COLD = "elastic", "horizontal", "cold restart"


class Told(NamedTuple):
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
    found = {rise: Told(*(_share(bench, rise, *each) for each in settings(rise).values())) for rise in RISES}
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
    for seed in range(bench.seeds(SEEDS)):
        load = ps.workload.diurnal(points, prompt_tokens=1000, output_tokens=200, seed=seed)
        found = bench.simulate(fleet, load, policies, seed=seed).metrics(SLO, warmup_s=LEAD_S)
        shares.append(found.slo_attainment or 0.0)
    return over_seeds(shares)


def _gap(own: Interval, other: Interval) -> str:
    return f"{write(own.value, 'share', 3)} vs {write(other.value, 'share', 3)}"


def _order(found: dict[float, Told]) -> Criterion:
    sharp = found[0.0]
    return Criterion(
        "More in time than with whole instances where the load doubles at once",
        "up to twice the throughput while scaling",
        "; ".join(f"within {rise:g} s: {_gap(told.elastic, told.horizontal)}" for rise, told in found.items()),
        _above(sharp.elastic, sharp.horizontal), headline=True,
    )  # fmt: skip


def _colder(found: dict[float, Told]) -> Criterion:
    met = all(_above(told.horizontal, told.cold) for told in found.values())
    return Criterion(
        "A restart in place is worst, at each rise", "67.4 s of downtime",
        "; ".join(f"within {rise:g} s: {_gap(told.horizontal, told.cold)}" for rise, told in found.items()), met,
        why="" if met else "after 67 s it has six ranks, and those of an instance that takes 90 s come later",
    )  # fmt: skip


def _vanishes(found: dict[float, Told]) -> Criterion:
    """Where the load rises more slowly than an instance starts, little of the advantage may be left."""
    leads = {rise: (told.elastic.value or 0.0) - (told.horizontal.value or 0.0) for rise, told in found.items()}
    met = leads[RISES[-1]] < leads[0.0] / 3
    return Criterion(
        "At the slowest rise less than a third of the advantage is left", "its worth is in bursts",
        "; ".join(f"within {rise:g} s: {100 * lead:.1f} points" for rise, lead in leads.items()), met,
        why="" if met else "the rule waits until first tokens are late, and then an instance is 90 s away all the same",
    )  # fmt: skip


def _above(own: Interval, other: Interval) -> bool | None:
    """Whether one is above the other by more than the halves of both intervals."""
    if own.value is None or other.value is None or own.half is None or other.half is None:
        return None
    gap, doubt = own.value - other.value, own.half + other.half
    return True if gap > doubt else False if gap < -doubt else None
