"""Mooncake: a pool of KV cache apart from the replicas, and scheduling around it."""

from poise.claims.claim import Claim

CLAIM = Claim(
    system="Mooncake",
    paper="arXiv 2407.00079, FAST 2025",
    year=2025,
    slot="router",
    policies=("min_ttft",),
    headline="up to 525 % more throughput in some simulated cases; 75 % more requests under real workloads",
    conditions="disaggregated prefill and decode around a pool of KV cache in the memory of all hosts",
    trust="text",
    untestable="the gains are those of a pool of KV cache that all replicas share; there is none here, only the "
    "routing rule, which other claims compare with",
)
