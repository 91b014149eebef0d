"""BurstGPT: real arrivals are far burstier than Poisson's, and tails under them far longer."""

from __future__ import annotations

from math import inf

import numpy as np

import poise as ps
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.sweep import ratio, times
from poise.cost import Roofline
from poise.cost.sustained import sustained
from poise.report.intervals import over_seeds
from poise.report.wording import write
from poise.workload.generate import Options

LOADS, REQUESTS = (0.5, 0.7, 0.8), 4000
PROMPT, OUTPUT = 1000, 200
CLUSTER = ps.Cluster.of("A100", count=2).replicas(2, model="llama-3.1-8b")
KINDS = ("poisson", "bursts, cv 2", "bursts, cv 4", "hours")


def _capacity() -> float:
    """Requests per second that the two replicas sustain under no limit."""
    pool = CLUSTER.pools[0]
    return 2 * sustained(pool, Roofline().build(pool), PROMPT, OUTPUT, inf)


def _load(kind: str, rate: float, requests: int, seed: int) -> ps.workload.Workload:
    """The same requests at the same mean rate; eight hours are drawn, and scaled to be as long as the others."""
    sizes: Options = {"prompt_tokens": PROMPT, "output_tokens": OUTPUT, "seed": seed}
    if kind == "poisson":
        return ps.workload.poisson(rate, requests=requests, **sizes)
    if kind.startswith("bursts"):
        return ps.workload.gamma(rate, cv=float(kind[-1]), requests=requests, **sizes)
    hours = ps.workload.burstgpt(requests / 8 / 3600, begin_s=10 * 3600, duration_s=8 * 3600, failures=0.0, **sizes)
    return hours.at_rate(rate, squeeze=True)


def measure(bench: Bench) -> Findings:
    """Loads × kinds of arrivals, over seeds."""
    capacity = _capacity()
    requests, seeds = bench.requests(REQUESTS), range(bench.seeds())
    tails = {
        kind: {
            load: [
                bench.simulate(CLUSTER, _load(kind, load * capacity, requests, seed), seed=seed).ttft.p99 or 0.0
                for seed in seeds
            ]
            for load in LOADS
        }
        for kind in KINDS
    }
    ratios = {kind: {load: ratio(tails["poisson"][load], tails[kind][load]) for load in LOADS} for kind in KINDS[1:]}
    texts = {
        kind: "; ".join(f"{100 * load:.0f} %: {times(each)}" for load, each in found.items())
        for kind, found in ratios.items()
    }
    criteria = [Answer(kind, texts[kind], [ratios[kind][load] for load in LOADS[1:]]) for kind in KINDS[1:]]
    criteria.append(_spread(bench))
    lines = {
        kind: [Point(load, each.value, each.half) for load, runs in found.items() for each in [over_seeds(runs)]]
        for kind, found in tails.items()
    }
    return Findings(criteria, [Curve("TTFT, 99th percentile", "part of what is sustained", "seconds", lines)])


def _spread(bench: Bench) -> Answer:
    """How much the hours of a month differ."""
    counts = [
        np.bincount(made.arrival // (3600 * 10**12), minlength=974)
        for seed in range(bench.seeds())
        for made in [ps.workload.burstgpt(200 / 3600, duration_s=974 * 3600, seed=seed)]
    ]
    spread = float(np.median([each.std() / each.mean() for each in counts]))
    busiest = float(np.median([np.sort(each)[-48:].sum() / each.sum() for each in counts]))
    return Answer("spread", f"{spread:.2f} and {write(busiest, 'share', 2)}", 2 <= spread <= 4 and busiest >= 0.4)
