"""Several gateways: each routes its share, on a belief of its own or on one that they share."""

from __future__ import annotations

from typing import Any

import pytest

import poise as ps
from poise.core.event import Arrived
from poise.core.records.records import FINISHED
from poise.core.records.trace import Trace, replay
from poise.cost import Roofline
from poise.policies import Policies
from poise.policies.admit.tenant_limits import TenantLimits
from poise.policies.route.least_requests import LeastRequests
from poise.scenario.simulate import build_world, simulate
from poise.sim.terms import Saving, Watching

CLUSTER = ps.Cluster.of("H100", count=4).replicas(4, model="llama-3.1-8b")


def a_load(requests: int = 200, rate: float = 40.0) -> Any:
    return ps.workload.poisson(rate, requests=requests, prompt_tokens=500, output_tokens=60)


@pytest.mark.parametrize(("gateways", "share_s"), [(1, None), (3, None), (3, 0.01)])
def test_each_gateway_repeats_itself_from_its_own_events(gateways: int, share_s: float | None) -> None:
    """The same events in, the same actions out: what a gateway gets from others is among its events."""
    belief = ps.Belief(period_s=0.2, delay_s=0.01, gateways=gateways, share_s=share_s)
    trace = Trace()
    run = simulate(CLUSTER, a_load(), Policies(router=LeastRequests()), belief=belief, saving=Saving(trace=trace))
    assert list(run.records.status) == [0] * 200
    arrived = []
    for number in range(gateways):
        fresh = build_world(CLUSTER, a_load(), Policies(router=LeastRequests()), Roofline(), belief).gateways.controls
        items = list(trace.items(number))
        events = [item for item in items if hasattr(item, "at") and type(item).__name__ != "Wake"]
        actions = [item for item in items if item not in events]
        assert replay(events, fresh[number]) == actions
        arrived += [event.request.id for event in events if isinstance(event, Arrived)]
    assert sorted(arrived) == list(range(200)), "each request comes through one gateway"


def test_gateways_share_the_load_evenly_and_keep_sessions() -> None:
    world = build_world(CLUSTER, a_load(4000), Policies(), Roofline(), ps.Belief(gateways=4))
    shares = [0] * 4
    for row in range(4000):
        shares[world.gateways.of(row)] += 1
    assert all(900 < share < 1100 for share in shares)


def test_a_gateway_counts_only_what_it_sent() -> None:
    """One gateway balances to within one request; several, each blind to the others, do worse."""

    def spread(gateways: int, share_s: float | None = None) -> float:
        worst = 0

        def look(world: Any) -> None:
            nonlocal worst
            running = [len(replica.sequences) for replica in world.replicas]
            worst = max(worst, max(running) - min(running))

        belief = ps.Belief(period_s=0.0, gateways=gateways, share_s=share_s)
        simulate(
            CLUSTER, a_load(), Policies(router=LeastRequests()), belief=belief, watching=Watching(after_event=look)
        )
        return worst

    assert spread(1) < spread(8)
    assert spread(8, share_s=0.0) == spread(1), "as one gateway where news takes no time"
    assert spread(8, share_s=0.005) < spread(8)


def test_limits_of_tenants_hold_for_all_gateways_together() -> None:
    """Without news from one another, each gateway gives a tenant the whole limit again."""

    def admitted(share_s: float | None) -> int:
        belief = ps.Belief(gateways=4, share_s=share_s)
        policies = Policies(router=LeastRequests(), admission=(TenantLimits(requests_per_minute=50),))
        run = simulate(CLUSTER, a_load(400, rate=200.0), policies, belief=belief)
        return list(run.records.status).count(FINISHED)

    one_minute_at_most = 50 + 50 * 4 // 60
    assert admitted(0.0) <= one_minute_at_most < admitted(None)
    assert admitted(0.02) <= one_minute_at_most + 3 * 0.02 * 200, "late news lets in what arrives elsewhere meanwhile"
