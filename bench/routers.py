"""Print how routers fare on Mooncake's conversations: cache hits, time to first token and the share that meets the SLO.

Eight replicas of Llama-3.1-8B on an H100 each, the trace's first 4,000 requests at a few rates, their stamps squeezed;
figures leave out the first eighth of the time. On old reports that do not count what is on its way (the second half)
routers that trust the whole cluster's load herd; on good ones a greedy choice is hard to beat. Reads the trace under
POISE_DATA (default ../shared/data).

    python bench/routers.py [router …]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import poise as ps
from poise.policies.find import build

DATA = Path(os.environ.get("POISE_DATA", Path(__file__).parents[1] / "../shared/data"))
TRACE = DATA / "mooncake" / "conversation_trace.jsonl.gz"
ROUTERS = ("least_requests", "prefix_cache", "cache_aware", "preble", "min_ttft", "pull", "dualmap")
REQUESTS = 4000
RATES = (6.0, 8.0, 10.0)
SLO = ps.Slo(ttft_s=5.0)
BELIEFS = {
    "reports every second, dispatches in flight counted": ps.Belief(),
    "reports every second, dispatches in flight not counted": ps.Belief(in_flight=False),
}


def row(router: str, workload: ps.workload.Workload, belief: ps.Belief) -> str:
    """One router's figures at one rate."""
    cluster = ps.Cluster.of("H100", count=8).replicas(8, model="llama-3.1-8b")
    run = ps.simulate(cluster, workload, ps.Policies(router=build("router", router)), belief=belief)
    metrics = run.metrics(SLO, warmup_s=workload.arrival[-1] / 8e12)
    hits, share = metrics.prefix_hit_rate or 0.0, metrics.slo_attainment or 0.0
    ttft = metrics.ttft_s
    return f"  {router:16}{hits:8.1%}{ttft.p50:10.2f}{ttft.p99:10.2f}{share:10.1%}{metrics.migrations:8}"


def main(routers: list[str]) -> None:
    """All beliefs, rates and routers."""
    trace = ps.workload.read(TRACE).head(REQUESTS)
    seconds = float(trace.arrival[-1] - trace.arrival[0]) / 1e12
    for name, belief in BELIEFS.items():
        for rate in RATES:
            print(f"{rate:g} req/s; {name}")
            print("  router          hit rate  TTFT p50       p99   TTFT<5 s   moves")
            workload = trace.scaled(rate * seconds / REQUESTS, squeeze=True)
            for router in routers:
                print(row(router, workload, belief), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(ROUTERS))
