"""BurstGPT: real arrivals are far burstier than Poisson's, and tails under them far longer."""

from __future__ import annotations

from math import inf

import numpy as np

import poise as ps
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Curve, Findings, Point
from poise.claims.sweep import at_least, every, ratio, times
from poise.cost import Roofline
from poise.cost.sustained import sustained
from poise.report.intervals import over_seeds
from poise.report.wording import write
from poise.workload.generate import Options

CLAIM = Claim(
    system="BurstGPT",
    paper="arXiv 2401.17644",
    year=2024,
    slot="workload",
    policies=("burstgpt",),
    headline="serving is less efficient and less stable under real arrivals than under Poisson ones of the same rate",
    conditions="10.31 million requests of a regional Azure OpenAI service, 213 days; Gamma gaps that vary by window",
    here="two replicas of Llama-3.1-8B on A100, 4,000 requests of equal lengths; the same rate as Poisson, as "
    "bursts alone (Gamma gaps with a coefficient of 2 and of 4), and as eight hours in a row whose rates differ, "
    "squeezed; loads up to 80 % of what the two sustain",
    trust="abstract",
)

LOADS, REQUESTS, SEEDS = (0.5, 0.7, 0.8), 4000, 5
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
    requests, seeds = bench.requests(REQUESTS), range(bench.seeds(SEEDS))
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
    told = {
        kind: "; ".join(f"{100 * load:.0f} %: {times(each)}" for load, each in found.items())
        for kind, found in ratios.items()
    }
    criteria = [
        Criterion(
            f"{kind}: P99 TTFT is three times that under Poisson arrivals or more, at 70 and 80 % load", "less stable",
            told[kind], every(at_least(ratios[kind][load], 3.0) for load in LOADS[1:]), headline=kind != KINDS[1],
        )
        for kind in KINDS[1:]
    ]  # fmt: skip
    criteria.append(_spread(bench))
    lines = {
        kind: [Point(load, each.value, each.half) for load, runs in found.items() for each in [over_seeds(runs)]]
        for kind, found in tails.items()
    }
    return Findings(criteria, [Curve("TTFT, 99th percentile", "part of what is sustained", "seconds", lines)])


def _spread(bench: Bench) -> Criterion:
    """How much the hours of a month differ."""
    counts = [
        np.bincount(made.arrival // (3600 * 10**12), minlength=974)
        for seed in range(bench.seeds(SEEDS))
        for made in [ps.workload.burstgpt(200 / 3600, duration_s=974 * 3600, seed=seed)]
    ]
    spread = float(np.median([each.std() / each.mean() for each in counts]))
    busiest = float(np.median([np.sort(each)[-48:].sum() / each.sum() for each in counts]))
    return Criterion(
        "Hours of 41 days vary by a coefficient of 2 to 4, and the busiest twentieth has 40 % of requests or more",
        "2.8 and 52 % in the published counts", f"{spread:.2f} and {write(busiest, 'share', 2)}",
        2 <= spread <= 4 and busiest >= 0.4,
    )  # fmt: skip
