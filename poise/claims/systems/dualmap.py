"""DualMap: two candidates for each prefix keep both cache affinity and balance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

import poise as ps
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.sweep import Sweep, swept
from poise.policies.route.cache_aware import CacheAware
from poise.policies.route.dualmap import DualMap
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.min_ttft import MinTtft
from poise.policies.route.preble import Preble
from poise.policies.route.session_affinity import SessionAffinity

if TYPE_CHECKING:
    from poise.core.policy import Router
    from poise.scenario.compare.comparison import Comparison


CLUSTER = ps.Cluster.of("A100", count=8).replicas(8, model="qwen2.5-7b")
SLO = ps.Slo(ttft_s=5.0)
STALE = ps.Belief(period_s=1.0, in_flight=False)
FRESH = ps.Belief(period_s=0.0, delay_s=0.0)
RATES = (8.0, 10.0, 12.0, 14.0)
REQUESTS, WARM_UP, LONGEST = 4000, 500, 20_480
SHARE, P90 = "slo_attainment", "ttft_s.p90"

LADDER = {
    "pair, least loaded": DualMap(within="least_loaded", slo_gate=False, rebalancing=False),
    "pair, least TTFT": DualMap(slo_gate=False, rebalancing=False),
    "with the SLO gate": DualMap(rebalancing=False),
    "dualmap": DualMap(),
}
"""The paper's ablations, from the bare pair to the whole."""

OTHERS: dict[str, Router] = {
    "min_ttft": MinTtft(),
    "preble": Preble(),
    "cache_aware": CacheAware(),
    "least_requests": LeastRequests(),
}


def measure(bench: Bench) -> Findings:
    """Loads × routers under stale and under fresh views, and the collapse of affinity alone."""
    trace = _prefill_only(bench.trace().head(bench.requests(REQUESTS)))
    stale = _sweep(trace, {**LADDER, **OTHERS}, STALE, bench)
    fresh = _sweep(trace, {"dualmap": DualMap(), **OTHERS}, FRESH, bench)
    curves = [
        sweep.curve(f"{title}, {views} views", figure)
        for sweep, views in ((stale, "stale"), (fresh, "fresh"))
        for title, figure in (("Requests within the SLO", SHARE), ("TTFT, 90th percentile", P90))
    ]
    criteria = [*_headline(stale), *_ladder(stale), _hits(stale), _fresh(fresh), _collapse(bench, trace)]
    return Findings(criteria, [*curves, stale.curve("Prefix hits, stale views", "prefix_hit_rate")])


def _prefill_only(trace: ps.workload.Workload) -> ps.workload.Workload:
    """The trace with prompts cut to `LONGEST` tokens and outputs of one."""
    known = trace.prefixes
    assert known is not None
    kept = known.ends <= LONGEST
    counts = np.bincount(known.rows[kept], minlength=len(trace))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    prefixes = ps.workload.Prefixes(offsets, known.ids[kept], known.ends[kept])
    prompt = np.minimum(trace.prompt, LONGEST).astype(np.int32)
    return replace(trace, prompt=prompt, output=np.ones(len(trace), np.int32), prefixes=prefixes)


def _sweep(trace: ps.workload.Workload, routers: Mapping[str, Router], belief: ps.Belief, bench: Bench) -> Sweep:
    bundles = {name: ps.Policies(router=router) for name, router in routers.items()}
    warm_up = WARM_UP * len(trace) // REQUESTS

    def at(rate: float) -> Comparison:
        requests = trace.at_rate(rate, squeeze=True)
        return bench.compare(
            f"{rate:g} req/s", CLUSTER, lambda seed, load: requests, bundles, slo=SLO, belief=belief,
            warmup_s=warm_up / rate, seeds=bench.seeds(4),
        )  # fmt: skip

    return swept("load, req/s", RATES, at)


def _headline(stale: Sweep) -> list[Answer]:
    """Ahead of the routers that the paper compares with, and by about as much."""
    theirs = ("min_ttft", "least_requests", "preble")
    ratios = [
        stale.value(rate, "dualmap", SHARE) / max(stale.value(rate, other, SHARE) for other in theirs) for rate in RATES
    ]
    return [
        stale.ahead("stale views", SHARE, "dualmap", ["min_ttft", "least_requests"]),
        stale.ahead("preble", SHARE, "dualmap", ["preble"]),
        Answer(
            "size",
            "; ".join(f"{rate:g}: {ratio:.2f} times" for rate, ratio in zip(RATES, ratios, strict=True)),
            max(ratios),
        ),
    ]


def _ladder(stale: Sweep) -> list[Answer]:
    """Each part that was added pays."""
    bare, least, gate, whole = LADDER
    return [
        stale.ahead("least TTFT", P90, least, [bare]),
        stale.ahead("gate", P90, gate, [least]),
        stale.ahead("rebalancing", P90, whole, [gate]),
    ]


def _hits(stale: Sweep) -> Answer:
    return stale.ahead("hits", "prefix_hit_rate", "dualmap", ["min_ttft", "least_requests"])


def _fresh(fresh: Sweep) -> Answer:
    return fresh.ahead("fresh", SHARE, "dualmap", ["min_ttft", "least_requests"])


def _collapse(bench: Bench, trace: ps.workload.Workload) -> Answer:
    """All conversations share their first block, so a hash of it sends them all to one replica."""
    shares = {}
    for name, router in (("affinity", SessionAffinity(prefix_tokens=512)), ("dualmap", DualMap())):
        run = bench.simulate(CLUSTER, trace.head(1000), ps.Policies(router=router), belief=STALE).run
        shares[name] = float(np.bincount(np.array(run.records.replica)).max() / len(run.records.replica))
    return Answer(
        "collapse",
        f"busiest of 8 replicas: {shares['affinity']:.1%} of the requests, {shares['dualmap']:.1%} with DualMap",
        shares["affinity"] > 0.95 and shares["dualmap"] < 0.5,
    )
