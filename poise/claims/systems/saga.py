"""SAGA: sessions at their homes, caches that know which program goes on, times-to-live by tool, and stealing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

import poise as ps
from poise.claims.answer import Answer, Findings, Ratio
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.programs import Ladder, ladder, with_tool
from poise.claims.sweep import ratio, times
from poise.policies.cache.belady import Belady
from poise.policies.cache.saga import Saga as Cache
from poise.policies.queue.saga import Saga as Share
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.prefix_cache import PrefixCache
from poise.policies.route.saga import Saga as Router
from poise.policies.route.session_affinity import SessionAffinity
from poise.report.intervals import over_seeds

if TYPE_CHECKING:
    from poise.workload import Workload


REPLICAS = 16
CLUSTER = ps.Cluster.of("A100", count=REPLICAS).replicas(REPLICAS, model="llama-3.1-8b")
LOADS = (0.4, 0.55, 0.7)
JOBS = 400
DEMAND = 420_000.0
BELIEF = ps.Belief(period_s=0.1)
ACROSS = "load, jobs/s"
SAGA, FEWEST, AFFINITY, PREFIX = "SAGA", "least requests", "session affinity", "prefix cache"
NO_HOME, NO_RANK, NO_TTL, NO_STEAL = "no affinity", "no eviction rule", "no time-to-live", "no stealing"
NO_SHARE = "no fair shares"
PARTS = (NO_HOME, NO_RANK, NO_TTL, NO_STEAL, NO_SHARE)
"""In the published order."""
LRU, WORKFLOW, OPTIMUM = "LRU", "SAGA's eviction", "Bélády"

SYSTEMS = {
    SAGA: ps.Policies(router=Router(), cache=Cache(), queue=Share(DEMAND)),
    FEWEST: ps.Policies(router=LeastRequests()),
    AFFINITY: ps.Policies(router=SessionAffinity()),
    PREFIX: ps.Policies(router=PrefixCache()),
    NO_HOME: ps.Policies(router=LeastRequests(), cache=Cache(), queue=Share(DEMAND)),
    NO_RANK: ps.Policies(router=Router(), cache=Cache(recency=0.0, reuse=0.0, size=0.0), queue=Share(DEMAND)),
    NO_TTL: ps.Policies(router=Router(), cache=Cache(ttl=False), queue=Share(DEMAND)),
    NO_STEAL: ps.Policies(router=Router(steal=0.0), cache=Cache(), queue=Share(DEMAND)),
    NO_SHARE: ps.Policies(router=Router(), cache=Cache()),
}
EVICTIONS = {
    LRU: ps.Policies(router=SessionAffinity()),
    WORKFLOW: ps.Policies(router=SessionAffinity(), cache=Cache(ttl=False)),
    OPTIMUM: ps.Policies(router=SessionAffinity(), cache=Belady()),
}

Again = Mapping[str, Mapping[float, Sequence[float]]]
"""Tokens computed again, in millions, by rule, load and seed."""


def measure(bench: Bench) -> Findings:
    """Loads × systems and what each part brings; and evictions beside the optimum."""

    def made(rate: float, seed: int) -> Workload:
        return _jobs(bench, rate, seed)

    took = ladder(bench, ACROSS, LOADS, SYSTEMS, CLUSTER, made, bench.seeds(), belief=BELIEF)
    again = _again(bench)
    criteria = [
        _ahead(took, FEWEST),
        _ahead(took, AFFINITY),
        _ahead(took, PREFIX),
        *(_part(took, part) for part in PARTS),
        _order(took),
        *_evictions(again),
    ]
    lines = {
        rule: [
            Point(load, found.value, found.half) for load, each in loads.items() for found in [over_seeds(list(each))]
        ]
        for rule, loads in again.items()
    }
    curve = Curve("Millions of tokens computed again, sessions on fixed replicas", ACROSS, "number", lines)
    return Findings(criteria, [took.curve("Mean job completion"), curve])


def _ahead(took: Ladder, other: str) -> Answer:
    return took.faster(f"under {other}", SAGA, other)


def _jobs(bench: Bench, rate: float, seed: int) -> Workload:
    drawn = ps.workload.lognormal
    starts = ps.workload.poisson(
        rate, requests=bench.requests(JOBS), prompt_tokens=drawn(6000, 0.5), output_tokens=drawn(250, 0.8), seed=seed
    )
    jobs = ps.workload.sessions(
        starts, turns=drawn(10.9, 0.19), think_s=drawn(10.0, 1.5), user_tokens=drawn(6000, 0.8),
        output_tokens=drawn(250, 0.8), max_context=130_000, seed=seed,
    )  # fmt: skip
    return with_tool(jobs)


def _again(bench: Bench) -> Again:
    """Tokens that had been computed before, by whomever, and were not in the cache of their replica."""
    found: dict[str, dict[float, list[float]]] = {name: {load: [] for load in LOADS} for name in EVICTIONS}
    for load in LOADS:
        for seed in range(bench.seeds()):
            workload = _jobs(bench, load, seed)
            reachable = workload.reachable_tokens()
            for name, policies in EVICTIONS.items():
                run = bench.simulate(CLUSTER, workload, policies, seed=seed, belief=BELIEF).run
                cached = np.array(run.records.cached_tokens)
                found[name][load].append(float(np.maximum(reachable - cached, 0).sum()) / 1e6)
    return found


def _part(took: Ladder, part: str) -> Answer:
    """What a part brings, at its best load, against half of the published share."""
    ratios = took.ratios(SAGA, part)
    best = max((each.value or 0.0) for each in ratios.values())
    sure = any(each.low is not None and each.low > 1 for each in ratios.values())
    return Answer(part, _told(ratios), best if sure else 1.0)


def _told(ratios: Mapping[float, Ratio]) -> str:
    return "; ".join(f"at {load:g}: {times(each)}" for load, each in ratios.items())


def _order(took: Ladder) -> Answer:
    best = {part: max((each.value or 0.0) for each in took.ratios(SAGA, part).values()) for part in PARTS}
    ranked = sorted(best, key=lambda part: -best[part])
    met = ranked == list(PARTS)
    return Answer("order", " > ".join(f"{each} {best[each]:.2f}" for each in ranked), met)


def _evictions(again: Again) -> list[Answer]:
    own = {load: ratio(again[OPTIMUM][load], again[WORKFLOW][load]) for load in LOADS}
    lru = {load: ratio(again[OPTIMUM][load], again[LRU][load]) for load in LOADS}
    gain = {load: ratio(again[WORKFLOW][load], again[LRU][load]) for load in LOADS}

    return [
        Answer("own eviction", _told(own), list(own.values())),
        Answer("LRU", _told(lru), list(lru.values())),
        Answer("LRU over own", _told(gain), list(gain.values())),
    ]
