"""Two routers at three loads: which is better beyond chance, where each collapses, how far the traffic is from it."""

import poise as ps
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.prefix_cache import PrefixCache

cluster = ps.Cluster.of("H100", count=2).replicas(2, model="llama-3.1-8b")
policies = {router.__name__: ps.Policies(router=router()) for router in (LeastRequests, PrefixCache)}


def traffic(seed: int, load: float) -> ps.workload.Workload:
    """20 requests per second at load 1, whose prompts share 60 prefixes."""
    requests = ps.workload.poisson(
        20 * load,
        duration_s=30,
        prompt_tokens=ps.workload.lognormal(400, 1.0),
        output_tokens=ps.workload.lognormal(150, 1.0),
        seed=seed,
    )
    return ps.workload.shared_prefixes(requests, groups=60, prefix_tokens=4000, seed=seed)


comparison = ps.compare(
    cluster,
    traffic,
    policies,
    loads=(1, 2, 3),
    seeds=3,
    slo=ps.Slo(ttft_s=0.5, tpot_s=0.05),
    warmup_s=5,
    find_collapse=True,
)
print(comparison)
print("TTFT p99 of PrefixCache, s")
for point in comparison.curve("PrefixCache", "ttft_s.p99"):
    print(f"load {point.load:<6g}{point.value:.3f} ({point.low:.3f} to {point.high:.3f})")
