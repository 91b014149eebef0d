"""From a checked scenario to the objects that `simulate` takes."""

from __future__ import annotations

from dataclasses import dataclass

from poise.core.spec import Belief, Cluster, Slo
from poise.policies import Policies
from poise.scenario.cluster import Recipe, build_cluster, build_cost
from poise.scenario.load import Loaded
from poise.scenario.policy import build_policies
from poise.scenario.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Problem:
    """A checked scenario: cluster, load, bundles of policies to compare (each with a label) and how to judge."""

    loaded: Loaded
    cluster: Cluster
    traffic: Traffic
    bundles: list[tuple[str, Policies]]
    cost: Recipe
    slo: Slo
    belief: Belief
    seeds: list[int]
    warmup_s: float
    until_s: float | None
    drain: bool


def build(loaded: Loaded) -> Problem:
    """Build everything but the workloads; raises ScenarioError, which points into the file."""
    scenario = loaded.scenario
    cost = build_cost(loaded)
    cluster = build_cluster(loaded, cost)
    return Problem(
        loaded=loaded,
        cluster=cluster,
        traffic=Traffic(loaded, cluster),
        bundles=build_policies(loaded),
        cost=cost,
        slo=Slo(**scenario.slo.model_dump()),
        belief=Belief(**scenario.belief.model_dump()),
        seeds=scenario.run.seeds,
        warmup_s=scenario.run.warmup_s,
        until_s=scenario.run.until_s,
        drain=scenario.run.drain,
    )
