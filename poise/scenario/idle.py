"""What a file names and nothing reads: a predictor that no policy asks, host memory that nothing is swapped to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from poise.scenario.place import Path, Places

if TYPE_CHECKING:
    from poise.policies import Policies
    from poise.scenario.build import Problem

OURS = "poise.policies."
"""Where policies are whose reading is known; of others everything is possible."""


def check_idle(problem: Problem) -> None:
    """ScenarioError for what no combination of the scenario's policies reads."""
    scenario, places = problem.loaded.scenario, problem.loaded.places
    bundles = [_all(bundle) for _, bundle in problem.bundles]
    if any(bundle.predictor is not None for _, bundle in problem.bundles):
        check_predictor((policy for bundle in bundles for policy in bundle), places)
    if any(_swaps(bundle.preempt) for _, bundle in problem.bundles):
        return
    sections: list[tuple[Path, Any]] = [(("engine",), scenario.engine)]
    sections += [(("cluster", "pools", at, "engine"), pool.engine) for at, pool in enumerate(scenario.cluster.pools)]
    for path, section in sections:
        if "host_kv_gb" in section.model_fields_set and section.host_kv_gb:
            said = "nothing is swapped out there; give engine.preemption: swap, or remove it"
            raise places.error((*path, "host_kv_gb"), said)


def check_predictor(policies: Iterable[Any], places: Places) -> None:
    """ScenarioError if none of the policies beside a predictor reads what it foretells."""
    if not any(_reads(policy) for policy in policies if policy is not None):
        cure = "name one that does, as in order: shortest_predicted, or remove it"
        raise places.error(("policies", "predictor"), f"no policy here reads what it foretells; {cure}")


def _all(bundle: Policies) -> list[Any]:
    """The policies of a bundle, without its predictor."""
    named = [getattr(bundle, each.name) for each in fields(bundle) if each.name not in ("admission", "predictor")]
    return [*named, *bundle.admission]


def _reads(policy: Any) -> bool:
    return getattr(policy, "reads_predictions", False) or not type(policy).__module__.startswith(OURS)


def _swaps(preempt: Any) -> bool:
    """Whether a preemption policy, or one that is not known, may move KV to host memory."""
    if preempt is None:
        return False
    ours = type(preempt).__module__.startswith(OURS)
    return not ours or hasattr(preempt, "swapping") or bool(getattr(preempt, "swap", False))
