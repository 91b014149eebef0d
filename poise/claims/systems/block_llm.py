"""BlockLLM: pools of shared blocks against devices for each fine-tuned model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from statistics import fmean

import numpy as np

import poise as ps
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.core.units import seconds as in_seconds
from poise.cost import Roofline
from poise.cost.block_llm import Zoo, arrivals, per_block, per_model, percentile
from poise.cost.term import Termed
from poise.cost.terms.block_llm import BlockLlm
from poise.cost.variants import popularity, spread
from poise.policies.route.least_requests import LeastRequests

PARTS, LOADS, SKEWS = (0.0, 0.25, 0.5, 0.75, 1.0), (0.5, 0.6, 0.7, 0.8, 0.9), (0.0, 1.0, 2.0)
DEVICES = 12

RATES, POPULAR = (20, 60, 100), popularity(12)
TWO, FIVE = 2, 5
"""Variants that a device holds: as many as whole models fit, and as many as fit by blocks."""


def measure(bench: Bench) -> Findings:
    """Shared parts × loads × skews × hops, over seeds that both share."""
    requests, seeds = bench.requests(8000), bench.seeds()

    @cache
    def saved(shared: float, load: float, skew: float, hop_s: float) -> float:
        """The part of P95 latency that pools of blocks save."""
        zoo = Zoo(12, shared, skew, hop_s=hop_s)
        ours = theirs = 0.0
        for seed in range(seeds):
            rows = arrivals(zoo, load * DEVICES, requests, seed)
            ours += percentile(per_block(zoo, rows, DEVICES))
            theirs += percentile(per_model(zoo, rows, DEVICES))
        return 1 - ours / theirs

    rows = {part: [saved(part, load, 1.0, 0.005) for load in LOADS] for part in PARTS}
    skews = {skew: [saved(0.75, load, skew, 0.005) for load in LOADS] for skew in SKEWS}
    slow = [saved(0.75, load, 1.0, 2.0) for load in LOADS]
    rises = sum(all(rows[one][at] <= rows[two][at] for one, two in pairwise(PARTS)) for at in range(len(LOADS)))
    skewed = sum(skews[0.0][at] < skews[1.0][at] < skews[2.0][at] for at in range(len(LOADS)))
    slower = all(one < two for one, two in zip(slow, rows[0.75], strict=True))
    lower = sum(each > 0 for each in rows[0.75])
    criteria = [
        Answer(
            "lower", ", ".join(f"{load:.0%}: {each:.0%}" for load, each in zip(LOADS, rows[0.75], strict=True)), lower
        ),
        Answer(
            "grows",
            "; ".join(f"{part:.0%} shared: {', '.join(f'{each:.0%}' for each in row)}" for part, row in rows.items()),
            rises >= 3 and not any(rows[0.0]),
        ),
        Answer(
            "skew",
            "; ".join(f"{skew}: {', '.join(f'{each:.0%}' for each in row)}" for skew, row in skews.items()),
            skewed,
        ),
        Answer("slow links", ", ".join(f"{each:.0%}" for each in slow), slower),
        *_simulated(bench),
    ]
    lines = {
        f"{part:.0%} shared": [Point(*each) for each in zip(LOADS, row, strict=True)] for part, row in rows.items()
    }
    return Findings(criteria, [Curve("P95 latency that is saved", "load", "share", lines)])


def _simulated(bench: Bench) -> list[Answer]:
    """Arrivals × seeds through a router, batched."""
    whole = [_p95(bench, rate, TWO, 0.0) for rate in RATES]

    def saved(held: int, shared: float) -> list[float]:
        return [1 - _p95(bench, rate, held, shared) / most for rate, most in zip(RATES, whole, strict=True)]

    five, rows = saved(FIVE, 0.75), {part: saved(TWO, part) for part in PARTS[1:]}
    two = rows[0.75]
    grows = all(one < two for row in zip(*rows.values(), strict=True) for one, two in pairwise((0.0, *row)))
    return [
        Answer("simulated", _text(two), two),
        Answer("simulated growth", "; ".join(f"{part:.0%} shared: {_text(row)}" for part, row in rows.items()), grows),
        Answer("five", _text(five), five),
    ]


def _p95(bench: Bench, rate: float, held: int, shared: float) -> float:
    """P95 of seconds from arrival to end, the mean of seeds."""
    pool = ps.Pool(ps.models("llama-2-13b"), ps.devices("A100"))
    cluster, cost = ps.Cluster(spread(pool, POPULAR, DEVICES, held)), Termed(Roofline(), (BlockLlm(shared=shared),))
    found = []
    for seed in range(bench.seeds()):
        load = ps.workload.poisson(
            rate, requests=bench.requests(8000), prompt_tokens=ps.workload.lognormal(300, 1.0),
            output_tokens=ps.workload.lognormal(150, 0.8), seed=seed,
        )  # fmt: skip
        tenants = np.random.default_rng(seed).choice(len(POPULAR), size=len(load), p=POPULAR)
        load = replace(load, tenant=tenants.astype(np.int32))
        run = bench.simulate(cluster, load, ps.Policies(router=LeastRequests()), cost=cost).run
        ends = zip(run.records.ended_at, load.arrival.tolist(), strict=True)
        found.append(percentile([in_seconds(end - at) for end, at in ends]))
    return fmean(found)


def _text(saved: Sequence[float]) -> str:
    return ", ".join(f"{each:.0%} at {rate}/s" for rate, each in zip(RATES, saved, strict=True))
