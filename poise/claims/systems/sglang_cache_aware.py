"""SGLang's cache-aware load balancer: replicas keep the prefixes of their own groups."""

from __future__ import annotations

import poise as ps
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Findings
from poise.claims.sweep import Sweep, swept, times
from poise.policies.route.cache_aware import CacheAware
from poise.policies.route.round_robin import RoundRobin

CLAIM = Claim(
    system="SGLang cache-aware routing",
    paper="SGLang v0.4 release notes",
    year=2024,
    slot="router",
    policies=("cache_aware",),
    others=("round_robin",),
    headline="up to 1.9 times the throughput, with 3.8 times the cache hits",
    conditions="against round robin over data-parallel replicas; groups of long shared prefixes, equally popular",
    here="8 replicas of Llama-3.1-8B on an A100 each, 1,000 requests per second, equally popular prefixes of "
    "2,000 tokens, own prompts of 100 and outputs of 50 tokens; the axis is the number of prefixes",
    trust="text",
)

CLUSTER = ps.Cluster.of("A100", count=8).replicas(8, model="llama-3.1-8b")
BUNDLES = {"round_robin": ps.Policies(router=RoundRobin()), "cache_aware": ps.Policies(router=CacheAware())}
GROUPS = (64, 256, 1024)
REQUESTS, SEEDS = 4096, 3
RATE, HITS = "output_tokens_per_s", "prefix_hit_rate"


def measure(bench: Bench) -> Findings:
    """Numbers of prefixes × routers."""

    def traffic(groups: float, seed: int) -> ps.workload.Workload:
        base = ps.workload.poisson(
            1000.0, requests=bench.requests(REQUESTS), prompt_tokens=100, output_tokens=50, seed=seed
        )
        return ps.workload.shared_prefixes(base, groups=int(groups), prefix_tokens=2000, zipf=0.0, seed=seed)

    sweep = swept(
        "prefixes", GROUPS,
        lambda groups: bench.compare(
            f"{groups:g} prefixes", CLUSTER, lambda seed, load: traffic(groups, seed), BUNDLES,
            seeds=bench.seeds(SEEDS),
        ),
    )  # fmt: skip
    criteria = [
        sweep.ahead("More output tokens per second than round robin", "up to 1.9 times", RATE, "cache_aware",
                    ["round_robin"], headline=True),
        _most(sweep, RATE, "throughput", 1.9), _most(sweep, HITS, "prefix hits", 3.8),
    ]  # fmt: skip
    return Findings(criteria, [sweep.curve("Output tokens per second", RATE), sweep.curve("Prefix hits", HITS)])


def _most(sweep: Sweep, figure: str, name: str, published: float) -> Criterion:
    ratios = {groups: sweep.ratio(groups, figure, "round_robin", "cache_aware") for groups in sweep.at}
    most = max(ratio.value or 0.0 for ratio in ratios.values())
    return Criterion(
        f"The most it gains in {name} is within a factor 2 of that", f"up to {published:g} times",
        "; ".join(f"{groups:g} prefixes: {times(ratio)} times" for groups, ratio in ratios.items()),
        max(1.0, published / 2) <= most <= published * 2, headline=True,
    )  # fmt: skip
