"""Preble: sharing of prompts and balance of computation, weighed against each other for each request."""

from __future__ import annotations

import poise as ps
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Findings
from poise.claims.sweep import Sweep, swept, times
from poise.policies.route.preble import Preble
from poise.policies.route.round_robin import RoundRobin

CLAIM = Claim(
    system="Preble",
    paper="arXiv 2407.00023, ICLR 2025",
    year=2025,
    slot="router",
    policies=("preble",),
    others=("round_robin",),
    headline="1.5 to 14.5 times lower mean latency, 2 to 10 times lower P99",
    conditions="two models on clusters of some GPUs, five workloads with long shared prompts, their request arrivals; "
    "against serving systems whose replicas are chosen without regard to prompts",
    here="4 replicas of Mistral-7B on an A100 each; 100 shared prompts of 6,000 tokens in the mean with Zipf's "
    "popularity, own prompts of 150 and outputs of 30; against round robin, at loads up to its collapse; the batch "
    "order of Preble's local scheduler is left out",
    trust="code",
)

CLUSTER = ps.Cluster.of("A100", count=4).replicas(4, model="mistral-7b")
BUNDLES = {"round_robin": ps.Policies(router=RoundRobin()), "preble": ps.Policies(router=Preble())}
RATES = (4.0, 8.0, 12.0, 16.0)
REQUESTS, SEEDS = 3000, 5
MEAN, TAIL = "e2e_s.mean", "e2e_s.p99"


def traffic(rate: float, seed: int, requests: int) -> ps.workload.Workload:
    """Questions that begin with one of 100 long prompts."""
    base = ps.workload.poisson(
        rate, requests=requests, prompt_tokens=ps.workload.lognormal(150, 1.0),
        output_tokens=ps.workload.lognormal(30, 0.7), seed=seed,
    )  # fmt: skip
    return ps.workload.shared_prefixes(base, groups=100, prefix_tokens=ps.workload.lognormal(6000, 0.5), seed=seed)


def measure(bench: Bench) -> Findings:
    """Loads × routers."""
    requests = bench.requests(REQUESTS)
    sweep = swept(
        "load, req/s", RATES,
        lambda rate: bench.compare(
            f"{rate:g} req/s", CLUSTER, lambda seed, load: traffic(rate * load, seed, requests), BUNDLES,
            seeds=bench.seeds(SEEDS),
        ),
    )  # fmt: skip
    criteria = [
        sweep.ahead("Lower mean latency than round robin at 3 loads or more", "1.5 to 14.5 times", MEAN, "preble",
                    ["round_robin"], places=3, headline=True),
        sweep.ahead("Lower P99 latency than round robin at 3 loads or more", "2 to 10 times", TAIL, "preble",
                    ["round_robin"], places=3, headline=True),
        _range(sweep, "mean", MEAN, 1.5, 14.5), _range(sweep, "P99", TAIL, 2.0, 10.0),
    ]  # fmt: skip
    return Findings(criteria, [sweep.curve("End to end, mean", MEAN), sweep.curve("End to end, 99th percentile", TAIL)])


def _range(sweep: Sweep, name: str, figure: str, low: float, high: float) -> Criterion:
    """The most that it gains lies in the published range."""
    ratios = {rate: sweep.ratio(rate, figure, "preble", "round_robin") for rate in RATES}
    most = max(ratio.value or 0.0 for ratio in ratios.values())
    return Criterion(
        f"The most that {name} latency gains lies in the published range", f"{low:g} to {high:g} times",
        "; ".join(f"{rate:g}: {times(ratio)} times" for rate, ratio in ratios.items()), low <= most <= high,
    )  # fmt: skip
