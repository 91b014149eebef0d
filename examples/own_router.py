"""A router of one's own in one file: two choices, which stale reports fool less than the least loaded of all."""

from dataclasses import dataclass

import poise as ps
from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.view import ClusterView
from poise.policies.route.least_requests import LeastRequests


@dataclass(slots=True)
class TwoChoices:
    """Draw two able replicas and take the one with fewer requests (power of two choices, IEEE TPDS 12(10), 2001)."""

    needs: tuple[str, ...] = ("requests",)

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """The less loaded of two."""
        able = cluster.able(request)
        pair = sorted({chance.pick(able, "first"), chance.pick(able, "second")})
        return Route(chance.least(pair, lambda replica: cluster.requests[replica]))


if __name__ == "__main__":
    cluster = ps.Cluster.of("H100", count=16).replicas(16, model="llama-3.1-8b")
    workload = ps.workload.poisson(200, duration_s=30, prompt_tokens=2000, output_tokens=200)
    print("p99 of TTFT in seconds, dispatches known only from reports")
    print("seconds between reports" + "".join(f"{period:>8g}" for period in (0.1, 1.0, 10.0)))
    for router in (LeastRequests, TwoChoices):
        cells = []
        for period in (0.1, 1.0, 10.0):
            belief = ps.Belief(period_s=period, in_flight=False)
            run = ps.simulate(cluster, workload, ps.Policies(router=router()), belief=belief)
            cells.append(f"{run.ttft.p99:>8.2f}")
        print(f"{router.__name__:23}" + "".join(cells))
