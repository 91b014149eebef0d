"""How routers fare when what they know is old: the same arrivals, reports every 0, 0.1, 1 and 5 seconds."""

import poise as ps
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.least_tokens import LeastTokens
from poise.policies.route.round_robin import RoundRobin

PERIODS = (0.0, 0.1, 1.0, 5.0)

cluster = ps.Cluster.of("H100", count=8).replicas(8, model="llama-3.1-8b")
workload = ps.workload.poisson(
    100,
    duration_s=30,
    prompt_tokens=ps.workload.lognormal(2000, 1.5, max=30_000),
    output_tokens=ps.workload.lognormal(200, 1.0),
)

print("p99 of TTFT in seconds; own dispatches counted at once, or only when a report shows them")
print("router              counted" + "".join(f"{period:>8g} s" for period in PERIODS))
for router, counted in (
    (RoundRobin, True),  # it reads nothing, so nothing is counted
    (LeastRequests, True),
    (LeastRequests, False),
    (LeastTokens, True),
    (LeastTokens, False),
):
    cells = []
    for period in PERIODS:
        belief = ps.Belief(period_s=period, delay_s=0.05 if period else 0.0, in_flight=counted)
        run = ps.simulate(cluster, workload, ps.Policies(router=router()), belief=belief)
        cells.append(f"{run.metrics(warmup_s=10).ttft_s.p99:>10.2f}")
    said = "-" if router is RoundRobin else "yes" if counted else "no"
    print(f"{router.__name__:20}{said:7}" + "".join(cells))
