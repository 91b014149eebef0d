"""A load that trebles and doubles again, and who has replicas for it when: scalers, starts and pre-warmed slots."""

import poise as ps
from poise.policies.forecast.oracle import Oracle
from poise.policies.scale.deepflow import Deepflow
from poise.policies.scale.hpa import Hpa
from poise.policies.scale.kpa import Kpa
from poise.policies.scale.slo_optimizer import SloOptimizer

START = ps.Startup(provision_s=40, image_s=20, engine_s=15, weights_s=8, capture_s=7, sigma=0.2)
LOAD = [(0, 5), (120, 5), (180, 15), (400, 15), (460, 35), (660, 35), (720, 5), (1000, 5)]
SCALERS = {
    "4 replicas always": None,
    "hpa": ps.Policies(scaler=Hpa(target=24)),
    "kpa": ps.Policies(scaler=Kpa(target=24, utilisation=1.0)),
    "by a profile": ps.Policies(scaler=SloOptimizer([[800, 200, 8.0]])),
    "... that sees ahead": ps.Policies(scaler=SloOptimizer([[800, 200, 8.0]]), forecast=Oracle()),
    "deepflow": ps.Policies(scaler=Deepflow(target=24, warm_least=1, warm_most=2)),
}

if __name__ == "__main__":
    machines = ps.Cluster.of("A100", count=4)
    load = ps.workload.diurnal(LOAD, prompt_tokens=800, output_tokens=200)
    print("                       TTFT p99, s   in time   replica-hours   ups   downs")
    for name, policies in SCALERS.items():
        bounds = {"min_replicas": 1, "max_replicas": 4, "startup": START} if policies else {}
        cluster = machines.replicas(1 if policies else 4, model="llama-3.1-8b", **bounds)
        found = ps.simulate(cluster, load, policies).metrics(ps.Slo(ttft_s=1.0))
        changes = (found.scaling.scale_ups, found.scaling.scale_downs) if found.scaling else (0, 0)
        print(
            f"{name:20}{found.ttft_s.p99:>14.2f}{found.slo_attainment:>10.1%}{found.replica_hours:>16.2f}"
            f"{changes[0]:>6}{changes[1]:>8}"
        )
