"""The header of a recorded simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from poise.core.records.header import header
from poise.core.slot import SCENARIO
from poise.core.spec import Belief, Cluster, Engine
from poise.core.version import version
from poise.scenario.hazards import drawn
from poise.scenario.policy import resolved_choice
from poise.scenario.policy_spec import Choice, choice, chosen_in, members
from poise.scenario.scaling import pool_specs
from poise.scenario.simulate import replica_specs

if TYPE_CHECKING:
    from poise.scenario.build import Problem
    from poise.scenario.simulate import Cost


def trace_header(problem: Problem) -> dict[str, Any]:
    """The header of a scenario's first seed."""
    from poise.scenario.resolve import resolved

    section, seed = problem.loaded.scenario.policies, problem.seeds[0]
    policies = {slot: named(slot, getattr(section, slot)) for slot in SCENARIO}
    workload = problem.traffic.make(seed)
    cluster = drawn(problem.cluster, workload, seed, problem.loaded.scenario.run.until_s)
    return {
        **simulation_header(cluster, problem.cost, policies, problem.belief, models=workload.models, seed=seed),
        "scenario": resolved(problem),
    }


def simulation_header(
    cluster: Cluster,
    cost: Cost,
    policies: Mapping[str, Any],
    belief: Belief,
    *,
    models: tuple[str, ...] = (),
    seed: int = 0,
) -> dict[str, Any]:
    """The header of any simulation; policies as `core.records.header` takes them, models as the workload names them."""

    specs = replica_specs(cluster, [cost.build(pool) for pool in cluster.pools], models)
    return header(
        specs, belief, policies, seed=seed, models=models, engines=_engines(cluster),
        pools=pool_specs(cluster) if policies.get("scaler") else (), poise=version(), kind="simulation",
        began={"at": 0},
    )  # fmt: skip


def named(slot: str, value: Any) -> dict[str, Any] | list[dict[str, Any]] | None:
    """The one policy of a slot as `{name: parameters}`, its defaults written out; of admissions a list of such."""
    (chosen,) = chosen_in(slot, value)[:1] or [None]
    if chosen is None:
        return None
    if slot == "admission":
        return [_resolved(slot, each) for each in members(chosen)]
    return _resolved(slot, chosen)


def _resolved(slot: str, chosen: Choice) -> dict[str, Any]:
    name, parameters = choice(resolved_choice(slot, chosen))
    return {name: parameters}


def _engines(cluster: Cluster) -> Sequence[Mapping[str, Any]]:
    return [
        {"name": pool.name or pool.model.name, **_batching(pool.engine)}
        for pool in cluster.pools
        for _ in range(pool.slots)
    ]


def _batching(engine: Engine) -> dict[str, Any]:
    """The fields of an engine that its batches follow from; the load of its experts is part of the cost."""
    return {name: value for name, value in asdict(engine).items() if not name.startswith("expert_")}
