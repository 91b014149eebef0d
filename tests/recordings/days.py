"""Recorded days: simulations with a known cost, as a gateway would have recorded them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from poise.catalogue import device, model
from poise.core.records.records import Run
from poise.core.records.trace import Trace
from poise.core.spec import Belief, Cluster, Engine, Pool
from poise.cost import Fitted
from poise.policies import Policies
from poise.policies.find import build
from poise.scenario.record import simulation_header
from poise.scenario.simulate import simulate
from poise.sim.terms import Saving
from poise.workload import Workload, lognormal, poisson, shared_prefixes

TRUE = Fitted(0.008, 30e-6, 4e-9, 2e-4, 40e-9)
"""About an 8B model on one H100."""


class Day(NamedTuple):
    """A recording, and what it is of."""

    trace: Trace
    run: Run
    workload: Workload
    cluster: Cluster


def traffic(rate: float, requests: int, seed: int = 1) -> Workload:
    """Prompts of some hundred tokens behind one of twenty shared ones."""
    arrivals = poisson(
        rate, requests=requests, prompt_tokens=lognormal(600, 0.8), output_tokens=lognormal(60, 0.7), seed=seed
    )
    return shared_prefixes(arrivals, groups=20, prefix_tokens=300, seed=seed)


def cluster_of(replicas: int, **engine: Any) -> Cluster:
    """Equal engines of a model whose context is not soon exceeded."""
    pool = Pool(model("llama-3.1-8b"), device("H100"), engine=Engine(**engine))
    return Cluster((pool,) * replicas)


def a_day(
    *,
    rate: float = 20.0,
    requests: int = 600,
    seed: int = 1,
    replicas: int = 2,
    router: str = "least_requests",
    cost: Fitted = TRUE,
    belief: Belief | None = None,
    engine: Mapping[str, Any] | None = None,
) -> Day:
    """Simulate and record."""
    workload, cluster = traffic(rate, requests, seed), cluster_of(replicas, **(engine or {}))
    belief = belief or Belief()
    trace = Trace(simulation_header(cluster, cost, {"router": {router: {}}}, belief))
    run = simulate(
        cluster,
        workload,
        Policies(router=build("router", router)),
        cost=cost,
        belief=belief,
        saving=Saving(trace=trace),
    )
    return Day(trace, run, workload, cluster)
