"""Which of four routers holds the SLO at which load: Llama-3.1-8B on eight H100s, prompts that share 400 prefixes."""

import poise as ps
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.least_tokens import LeastTokens
from poise.policies.route.prefix_cache import PrefixCache
from poise.policies.route.round_robin import RoundRobin

LOADS = (60, 80, 100, 120)  # requests per second, for 40 s each
ROUTERS = (RoundRobin, LeastRequests, LeastTokens, PrefixCache)
SLO = ps.Slo(ttft_s=0.5, tpot_s=0.05)

cluster = ps.Cluster.of("H100", count=8).replicas(8, model="llama-3.1-8b")
workloads = [
    ps.workload.shared_prefixes(
        ps.workload.poisson(
            rate,
            duration_s=40,
            prompt_tokens=ps.workload.lognormal(400, 1.0),
            output_tokens=ps.workload.lognormal(200, 1.0),
        ),
        groups=400,
        prefix_tokens=4000,
    )
    for rate in LOADS
]

print("share of requests with TTFT <= 0.5 s and TPOT <= 50 ms (prefix hit rate)")
print("router         " + "".join(f"{rate:>12} req/s" for rate in LOADS))
for router in ROUTERS:
    runs = [ps.simulate(cluster, workload, ps.Policies(router=router())) for workload in workloads]
    told = [run.metrics(SLO, warmup_s=10) for run in runs]
    print(f"{router.__name__:15}" + "".join(f"{m.slo_attainment:>11.1%} ({m.prefix_hit_rate:.0%})" for m in told))
