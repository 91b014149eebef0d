"""DualMap: two candidates for each prefix keep both cache affinity and balance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

import poise as ps
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Findings, Source
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

TRACE = Source(
    "mooncake/conversation_trace.jsonl.gz",
    "https://github.com/kvcache-ai/Mooncake (FAST25-release/traces/conversation_trace.jsonl)",
)

CLAIM = Claim(
    system="DualMap",
    paper="arXiv 2602.06502, ICLR 2026",
    year=2026,
    slot="router",
    policies=("dualmap",),
    others=("min_ttft", "preble", "cache_aware", "least_requests", "session_affinity"),
    headline="up to 2.25 times as many requests within their TTFT SLO; 1.41 to 1.80 times on the conversation trace",
    conditions="vLLM on 8 single-NPU instances (Ascend 910B), prefill only, Qwen2.5-7B and 14B; Mooncake's "
    "conversation trace, 4,000 requests, prompts cut to 20,480 tokens, the first 500 as warm-up; SLO: TTFT within 5 s",
    here="8 replicas of Qwen2.5-7B on an A100 each (near the NPU in FLOP/s), outputs of one token; the same requests, "
    "their stamps squeezed to each rate; reports every second without dispatches in flight (stale), "
    "and the true state (fresh); intervals are over four hash rings and draws of ties, the trace being one",
    trust="notes",
    data=(TRACE,),
)

CLUSTER = ps.Cluster.of("A100", count=8).replicas(8, model="qwen2.5-7b")
SLO = ps.Slo(ttft_s=5.0)
STALE = ps.Belief(period_s=1.0, in_flight=False)
FRESH = ps.Belief(period_s=0.0, delay_s=0.0)
RATES = (8.0, 10.0, 12.0, 14.0)
REQUESTS, WARM_UP, LONGEST = 4000, 500, 20_480
SHARE, P50, P90 = "slo_attainment", "ttft_s.p50", "ttft_s.p90"

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
    trace = _prefill_only(bench.trace(TRACE).head(bench.requests(REQUESTS)))
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


def _headline(stale: Sweep) -> list[Criterion]:
    """Ahead of the routers that the paper compares with, and by about as much."""
    theirs = ("min_ttft", "least_requests", "preble")
    ratios = [
        stale.value(rate, "dualmap", SHARE) / max(stale.value(rate, other, SHARE) for other in theirs) for rate in RATES
    ]
    return [
        stale.ahead(
            "More requests within the SLO than least TTFT and least requests at 3 loads or more, on stale views",
            "ahead at every load", SHARE, "dualmap", ["min_ttft", "least_requests"], places=3, headline=True,
        ),
        stale.ahead(
            "More than Preble, too", "ahead at every load", SHARE, "dualmap", ["preble"], places=3, headline=True,
            why="Preble keeps books of what it sent itself, which the age of reports does not touch, and keeps its "
            "prefix hits at loads where DualMap gives them up; the paper's stand-in is affinity above a hit of 50 %",
        ),
        Criterion(
            "The most that it has over the best of these at one load is a gain within a factor 2 of the published one",
            "1.41 to 1.80 times",
            "; ".join(f"{rate:g}: {ratio:.2f} times" for rate, ratio in zip(RATES, ratios, strict=True)),
            1.20 <= max(ratios) <= 2.60,
            headline=True,
            why="" if max(ratios) >= 1.20 else "Preble is the best of them at every load",
        ),
    ]  # fmt: skip


def _ladder(stale: Sweep) -> list[Criterion]:
    """Each part that was added pays."""
    bare, least, gate, whole = LADDER
    return [
        stale.ahead("Within the pair, least TTFT beats least loaded in P90 TTFT", "one step of the ablation",
                    P90, least, [bare], places=3),
        stale.ahead("The SLO gate lowers P90 TTFT", "−18.5 % against least TTFT within the pair",
                    P90, gate, [least], places=3),
        stale.ahead("Rebalancing lowers P90 TTFT further", "−11.3 %", P90, whole, [gate], places=3),
    ]  # fmt: skip


def _hits(stale: Sweep) -> Criterion:
    return stale.ahead(
        "More prefix hits than least TTFT and least requests", "62.5 to 96.4 % of the ideal hit rate",
        "prefix_hit_rate", "dualmap", ["min_ttft", "least_requests"], places=3,
    )  # fmt: skip


def _fresh(fresh: Sweep) -> Criterion:
    return fresh.ahead(
        "Ahead of least TTFT and least requests on fresh views as well", "of what age views are is not said",
        SHARE, "dualmap", ["min_ttft", "least_requests"], places=3,
        why="with the true state the best of all replicas is a better choice than the best of two, until all are full",
    )  # fmt: skip


def _collapse(bench: Bench, trace: ps.workload.Workload) -> Criterion:
    """All conversations share their first block, so a hash of it sends them all to one replica."""
    shares = {}
    for name, router in (("affinity", SessionAffinity(prefix_tokens=512)), ("dualmap", DualMap())):
        run = bench.simulate(CLUSTER, trace.head(1000), ps.Policies(router=router), belief=STALE).run
        shares[name] = float(np.bincount(np.array(run.records.replica)).max() / len(run.records.replica))
    return Criterion(
        "A hash of the first block alone sends everything to one replica, and DualMap does not",
        "affinity concentrates hot prefixes; keys grow while more than 2/n of the requests share them",
        f"busiest of 8 replicas: {shares['affinity']:.1%} of the requests, {shares['dualmap']:.1%} with DualMap",
        shares["affinity"] > 0.95 and shares["dualmap"] < 0.5,
    )
