"""Finds policies that are never called: a predictor without readers, an order without a queue, an unused swap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from poise.core.errors import ScenarioError
from poise.scenario.place import Path, Places

if TYPE_CHECKING:
    from poise.core.spec import Cluster
    from poise.policies import Policies
    from poise.scenario.build import Problem

OURS = "poise.policies."
"""The packages of policies whose reads are known; others may read anything."""

_HOLD: Final = ("poise.policies.route.pull",)
_REJECT: Final = ("poise.policies.admit.early_reject", "poise.policies.admit.tenant_limits")
"""The modules of our routers that hold requests, and of our admissions that hold none."""

_PAIRED: Final = {"mover": "moves requests to", "lender": "lends blocks to", "hedge": "sends a copy to"}
"""Slots that act between replicas."""

_UNREAD = "no policy here reads its predictions; name one that does, as in order: shortest_predicted, or remove it"
_UNORDERED = (
    "no request waits: no router or admission here holds requests, and no replica goes; add one that does, "
    "as in admission: saturation, or order the engines' queues by policies.queue"
)
_UNCALLED = "no replica goes: there are neither faults nor a scaler; add cluster.faults, or remove it"


def check_idle(problem: Problem) -> None:
    """ScenarioError for what no combination of the scenario's policies calls or reads."""
    scenario, places = problem.loaded.scenario, problem.loaded.places
    bundles = [bundle for _, bundle in problem.bundles]
    for slot, why in idle(bundles, problem.cluster):
        raise places.error(("policies", slot), why)
    sections: list[tuple[Path, Any]] = [(("engine",), scenario.engine)]
    sections += [(("cluster", "pools", at, "engine"), pool.engine) for at, pool in enumerate(scenario.cluster.pools)]
    if scenario.workload.adapters is None and scenario.workload.trace is None:
        for path, section in sections:
            if section.max_loras:
                text = "no request names an adapter; give workload.adapters, as in {count: 50}, or remove it"
                raise places.error((*path, "max_loras"), text)
    if all(pool.model.moe is None for pool in problem.cluster.pools):
        for path, section in sections:
            if section.expert_load != "measured":
                raise places.error((*path, "expert_load"), "no pool's model has experts; remove it")
    if any(_swaps(bundle.preempt) for bundle in bundles):
        return
    for path, section in sections:
        if "host_kv_gb" in section.model_fields_set and section.host_kv_gb:
            text = "nothing is swapped out there; give engine.preemption: swap, or remove it"
            raise places.error((*path, "host_kv_gb"), text)


def check_called(bundles: Sequence[Policies], cluster: Cluster) -> None:
    """ScenarioError for a slot of `bundles`, which are run or compared on `cluster`, that is never called."""
    for slot, why in idle(bundles, cluster):
        raise ScenarioError(f"policies.{slot}: {why}")


def idle(bundles: Sequence[Policies], cluster: Cluster) -> Iterator[tuple[str, str]]:
    """The slots that some bundle fills and none calls, each with the reason and the cure.

    One bundle that calls it is enough: in a comparison the others are compared with it.
    """

    def filled(slot: str) -> bool:
        return any(getattr(bundle, slot) is not None for bundle in bundles)

    if filled("predictor") and not any(_reads(policy) for bundle in bundles for policy in _all(bundle)):
        yield "predictor", _UNREAD
    goes = bool(cluster.faults or cluster.fault_rates) or filled("scaler")
    if filled("recovery") and not goes:
        yield "recovery", _UNCALLED
    if filled("order") and not goes and not any(map(_holds, bundles)):
        yield "order", _UNORDERED
    if cluster.replicas == 1 and not filled("scaler"):
        for slot, does in _PAIRED.items():
            if filled(slot):
                yield slot, f"it {does} another replica, and there is one; give the pool more replicas, or remove it"


def check_predictor(policies: Iterable[Any], places: Places) -> None:
    """ScenarioError if none of the policies reads the predictor's answers."""
    if not any(_reads(policy) for policy in policies):
        raise places.error(("policies", "predictor"), _UNREAD)


def _all(bundle: Policies) -> list[Any]:
    """The policies of a bundle, without its predictor."""
    named = [getattr(bundle, each.name) for each in fields(bundle) if each.name not in ("admission", "predictor")]
    return [*named, *bundle.admission]


def _ours(policy: Any) -> bool:
    return type(policy).__module__.startswith(OURS)


def _reads(policy: Any) -> bool:
    return policy is not None and (getattr(policy, "reads_predictions", False) or not _ours(policy))


def _holds(bundle: Policies) -> bool:
    """Whether requests may wait at the gateway although replicas could serve them."""
    if not _ours(bundle.router) or type(bundle.router).__module__ in _HOLD:
        return True
    return any(type(each).__module__ not in _REJECT for each in bundle.admission)


def _swaps(preempt: Any) -> bool:
    """Whether a preemption policy, or an unknown one, may move KV to host memory."""
    if preempt is None:
        return False
    return not _ours(preempt) or hasattr(preempt, "swapping") or bool(getattr(preempt, "swap", False))
