"""Layered prefill: the time between tokens beside chunks of a fixed size."""

from __future__ import annotations

from collections.abc import Mapping

import poise as ps
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.stalls import tbt
from poise.core.policy import Batcher
from poise.policies.batch.chunked import Chunked
from poise.policies.batch.layered_prefill import LayeredPrefill

RATE, REQUESTS = 1.3, 1000
BATCHERS: Mapping[str, Batcher] = {
    "layered": LayeredPrefill(),
    "chunks of 512": Chunked(tokens=512),
    "chunks of 1024": Chunked(tokens=1024),
    "chunks of 2048": Chunked(tokens=2048),
}


def measure(bench: Bench) -> Findings:
    """P99 of the time between tokens, which rules out the large chunks in the paper."""
    engine = ps.Engine(prefix_caching=False)
    cluster = ps.Cluster.of("H100", count=2).replicas(1, model="qwen3-30b-a3b", tensor=2, engine=engine)
    loads = [
        ps.workload.poisson(
            RATE, requests=bench.requests(REQUESTS), prompt_tokens=ps.workload.lognormal(8000, 0.54, 16_000),
            output_tokens=ps.workload.lognormal(220, 0.6, 1000), seed=seed,
        )
        for seed in range(bench.seeds())
    ]  # fmt: skip
    found = {}
    for name, batcher in BATCHERS.items():
        runs = [bench.simulate(cluster, load, ps.Policies(batcher=batcher), slices=True) for load in loads]
        found[name] = sum(map(tbt, runs)) / len(runs)
    told = ", ".join(f"{name} {1000 * each:.1f} ms" for name, each in found.items())
    met = found["layered"] < found["chunks of 2048"] and found["layered"] <= 1.1 * found["chunks of 512"]
    return Findings([Answer("between", f"at {RATE} req/s: {told}", met)])
