"""A replica is lost in mid-run and a spare one joins: every request is recovered, some of them late."""

from dataclasses import replace

import poise as ps
from poise.core.records.records import STATUS

faults = (ps.Fault(at_s=20.0, kind="lost", replica=0), ps.Fault(at_s=25.0, kind="join", replica=4))
whole = ps.Cluster.of("H100", count=5).replicas(5, model="llama-3.1-8b", start_s=10.0)
workload = ps.workload.poisson(40, duration_s=60, prompt_tokens=2000, output_tokens=300)

for name, cluster in (
    ("replica 0 is lost at 20 s, replica 4 joins at 35 s", replace(whole, faults=faults)),
    ("all five replicas serve throughout", whole),
):
    run = ps.simulate(cluster, workload)
    told = run.metrics()
    again = sum(count > 0 for count in run.run.records.retries)
    ends = {status: getattr(told, status) for status in STATUS if getattr(told, status)}
    print(f"{name}: {ends}, {again} sent again, TTFT p99 {told.ttft_s.p99:.2f} s, E2E p99 {told.e2e_s.p99:.2f} s")
