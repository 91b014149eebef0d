"""Several gateways: each routes its share on its own belief, and none knows what another sent."""

from __future__ import annotations

from typing import Any

import pytest

import poise as ps
from poise.core.event import Arrived
from poise.core.records.trace import Trace, replay
from poise.cost import Roofline
from poise.policies import Policies
from poise.policies.route.least_requests import LeastRequests
from poise.scenario.simulate import build_world, simulate
from poise.sim.terms import Saving, Watching

CLUSTER = ps.Cluster.of("H100", count=4).replicas(4, model="llama-3.1-8b")


def a_load(requests: int = 200, rate: float = 40.0) -> Any:
    return ps.workload.poisson(rate, requests=requests, prompt_tokens=500, output_tokens=60)


@pytest.mark.parametrize("gateways", [1, 3])
def test_each_gateway_repeats_itself_from_its_own_events(gateways: int) -> None:
    """The same events in, the same actions out: no gateway depends on another."""
    belief = ps.Belief(period_s=0.2, delay_s=0.01, gateways=gateways)
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

    def spread(gateways: int) -> float:
        worst = 0

        def look(world: Any) -> None:
            nonlocal worst
            running = [len(replica.sequences) for replica in world.replicas]
            worst = max(worst, max(running) - min(running))

        belief = ps.Belief(period_s=0.0, gateways=gateways)
        simulate(
            CLUSTER, a_load(), Policies(router=LeastRequests()), belief=belief, watching=Watching(after_event=look)
        )
        return worst

    assert spread(1) < spread(8)
