"""Prefill-as-a-Service: only long prompts are worth another datacentre."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import poise as ps
from poise.catalogue import device, model
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.sweep import Sweep, ratio, times
from poise.core.spec import Cluster, Device, Role
from poise.cost.cross_site import CrossSite, Lengths
from poise.policies.place.distserve import goodput
from poise.policies.route.least_tokens import LeastTokens
from poise.policies.route.min_ttft import MinTtft
from poise.policies.route.prefill_as_a_service import PrefillAsAService
from poise.policies.route.round_robin import RoundRobin
from poise.report.wording import significant

if TYPE_CHECKING:
    from poise.scenario.compare.comparison import Comparison
    from poise.workload import Workload


LENGTHS, THRESHOLD = Lengths(9.90, 1.00, 128, 131_072), 19_400
SIZES, SECONDS, MIB = (1024, 8192, 32_768, 131_072), (0.44, 0.72, 1.84, 7.40), (190.8, 308.9, 701.3, 2316.3)
LOCAL, HOMOGENEOUS = 1.63, 2.11


def _prefill_s(tokens: float) -> float:
    return float(np.interp(tokens, SIZES, SECONDS))


def _kv_bytes(tokens: float) -> float:
    return float(np.interp(tokens, SIZES, MIB)) * 2**20


def measure(bench: Bench) -> Findings:
    """Thresholds × formulas; then, simulated, loads × routers of both sites, and rates with and without the other."""
    closed, over_threshold = _closed()
    experiment = Experiment(bench)
    sweep = Sweep("load, req/s", {rate: _compared(bench, rate) for rate in LOADS})
    found = {name: experiment.carried(name) for name in SYSTEMS}
    criteria = [*closed, _sooner(experiment), *_carries(found), *_chosen(sweep)]
    return Findings(criteria, [over_threshold, sweep.curve("P90 of TTFT with both sites", P90)])


def _closed() -> tuple[list[Answer], Curve]:
    """The paper's own arithmetic."""
    site = CrossSite(LENGTHS, 4, 1, 1e9, _prefill_s, lambda _: 1 / LOCAL, _kv_bytes, 100e9 / 8)
    found, best = site.at(THRESHOLD), site.best()
    away = LENGTHS.part(THRESHOLD, LENGTHS.high)
    naive = 4 / _prefill_s(LENGTHS.mean(LENGTHS.low, LENGTHS.high))
    figures = {
        "part of requests that go away": (away, 0.496), "remote throughput": (found.remote, 1.61),
        "the whole": (found.whole, 3.24), "naive splitting": (naive, 2.45),
    }  # fmt: skip
    criteria = [
        Answer(
            "figures",
            ", ".join(f"{name} {own:.3g}" for name, (own, _) in figures.items()),
            [abs(own / paper - 1) for own, paper in figures.values()],
        ),
        Answer(
            "gains",
            f"{found.whole / HOMOGENEOUS - 1:.0%} and {found.whole / naive - 1:.0%}",
            abs(found.whole / HOMOGENEOUS - 1.54) <= 0.05 and abs(found.whole / naive - 1.32) <= 0.05,
        ),
        Answer(
            "threshold",
            f"{best:,.0f} tokens, {found.egress * 8e-9:.1f} Gb/s",
            abs(best / THRESHOLD - 1) <= 0.05 and found.egress * 8e-9 < 20,
        ),
    ]
    places = (5000.0, 10_000.0, 15_000.0, 19_400.0, 25_000.0, 40_000.0)
    lines = {"requests per second": [Point(each, site.at(each).whole) for each in places]}
    return criteria, Curve("Throughput over the threshold", "tokens", "number", lines)


# Simulated -----------------------------------------------------------------------------------------------------------

LINK = 100e9 / 8 / 4
LOADS, RATES, FIRST_S = (5.0, 7.0, 9.0), (20.0, 0.1), 10.0
REQUESTS, P90 = 3000, "ttft_s.p90"
SOUGHT, FEWEST, BLIND, SOONEST = "threshold sought", "least tokens", "round robin", "least TTFT"
BOTH, HOME, ALL_AWAY = "long prompts away", "one site, all H20", "all prompts away"


def _pool(kind: str, replicas: int, role: Role, link_bw: float = 0.0) -> ps.Pool:
    found: Device = device(kind)
    engine = ps.Engine(prefix_caching=False)
    return ps.Pool(
        model("qwen3-next-80b-a3b"), found, replicas=replicas, tensor=2, role=role, weights="fp8", engine=engine,
        link_bw=link_bw,
    )  # fmt: skip


AWAY = _pool("H200", 4, "prefill", LINK)
SITES = Cluster((AWAY, _pool("H20", 3, "prefill"), _pool("H20", 5, "decode")))
SYSTEMS: Mapping[str, tuple[Cluster, Any]] = {
    BOTH: (SITES, PrefillAsAService()),
    HOME: (Cluster((_pool("H20", 9, "prefill"), _pool("H20", 3, "decode"))), MinTtft()),
    ALL_AWAY: (Cluster((AWAY, _pool("H20", 8, "decode"))), MinTtft()),
}
FIXED = (10_000, 20_000, 30_000)
BUNDLES = {
    SOUGHT: ps.Policies(router=PrefillAsAService()),
    **{f"{tokens:,} tokens": ps.Policies(router=PrefillAsAService(tokens)) for tokens in FIXED},
    FEWEST: ps.Policies(router=LeastTokens()),
    BLIND: ps.Policies(router=RoundRobin()),
    SOONEST: ps.Policies(router=MinTtft()),
}


def _load(bench: Bench, rate: float, seed: int) -> Workload:
    drawn = np.exp(np.random.default_rng(seed).normal(LENGTHS.mu, LENGTHS.sigma, 4 * REQUESTS))
    prompts = [int(each) for each in drawn if LENGTHS.low <= each <= LENGTHS.high]
    return ps.workload.poisson(
        rate, requests=bench.requests(REQUESTS), prompt_tokens=ps.workload.empirical(prompts), output_tokens=1024,
        seed=seed,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Experiment:
    """Runs of one system at a rate."""

    bench: Bench

    def p90(self, name: str, rate: float, seed: int) -> float:
        """Seconds to the first token of nine requests in ten."""
        cluster, router = SYSTEMS[name]
        result = self.bench.simulate(cluster, _load(self.bench, rate, seed), ps.Policies(router=router), seed=seed)
        return result.ttft.p90 or 0.0

    def carried(self, name: str) -> list[float]:
        """The highest rate with nine first tokens of ten within `FIRST_S`, for each seed."""
        return [
            goodput(lambda rate, seed=seed: self.p90(name, rate, seed) <= FIRST_S, *RATES)  # type: ignore[misc]
            for seed in range(self.bench.seeds())
        ]


def _compared(bench: Bench, rate: float) -> Comparison:
    def made(seed: int, load: float) -> Workload:
        return _load(bench, rate * load, seed)

    return bench.compare(f"{rate:g} req/s", SITES, made, BUNDLES, seeds=bench.seeds())


def _sooner(experiment: Experiment) -> Answer:
    """P90 of TTFT with the other site and without, on as many devices."""
    seeds = range(experiment.bench.seeds())
    found = {
        rate: ratio(*([experiment.p90(name, rate, seed) for seed in seeds] for name in (BOTH, HOME))) for rate in LOADS
    }
    return Answer(
        "sooner",
        "without the other site " + "; ".join(f"{times(each)} × at {rate:g} req/s" for rate, each in found.items()),
        list(found.values()),
    )


def _carries(found: Mapping[str, Sequence[float]]) -> list[Answer]:
    """Rates beside those of the other systems, by the published ratio and half as much again above it."""
    criteria = []
    for other in (HOME, ALL_AWAY):
        more = ratio(found[other], found[BOTH])
        rates = ", ".join(f"{significant(float(np.mean(found[name])), 3)} req/s" for name in (BOTH, other))
        measured = f"{times(more)} times ({rates})"
        criteria.append(Answer(f"over {other}", measured, more))
    return criteria


def _chosen(sweep: Sweep) -> list[Answer]:
    """What the choice by length is worth where both sites are there."""
    return [
        sweep.ahead("routers", P90, SOUGHT, [FEWEST, BLIND]),
        sweep.ahead("sought", P90, SOUGHT, [f"{FIXED[0]:,} tokens", f"{FIXED[2]:,} tokens"]),
    ]
