"""The test kit that comes with Poise: inputs for policies in one call each, and their contracts as functions.

Builders: `a_request`, `a_replica`, `a_flight`, `a_pool`, `a_cluster`, `a_chance`, `a_lane`, `a_bundle`.  Contracts:
`check_policy` for any slot, and one of its own for each, as `check_router`.  Invariants: `check_replica` and
`check_world`.  A cost in round numbers: `LinearCost`.  One replica alone: `drive`. A policy that breaks a rule raises
`RuleBroken`, which names the policy, the rule and the input. The names are loaded on first use, and
nothing here needs a test framework.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from poise.core.slot import SLOTS

if TYPE_CHECKING:
    from poise.testing.admission import check_admission as check_admission
    from poise.testing.batcher import check_batcher as check_batcher
    from poise.testing.builders import a_bundle as a_bundle
    from poise.testing.builders import a_chance as a_chance
    from poise.testing.builders import a_cluster as a_cluster
    from poise.testing.builders import a_flight as a_flight
    from poise.testing.builders import a_lane as a_lane
    from poise.testing.builders import a_pool as a_pool
    from poise.testing.builders import a_replica as a_replica
    from poise.testing.builders import a_request as a_request
    from poise.testing.cache import check_cache as check_cache
    from poise.testing.cap import check_cap as check_cap
    from poise.testing.cost import LinearCost as LinearCost
    from poise.testing.expert_balancer import check_expert_balancer as check_expert_balancer
    from poise.testing.forecast import check_forecast as check_forecast
    from poise.testing.hedge import check_hedge as check_hedge
    from poise.testing.invariants import check_replica as check_replica
    from poise.testing.invariants import check_world as check_world
    from poise.testing.lender import check_lender as check_lender
    from poise.testing.mover import check_mover as check_mover
    from poise.testing.order import check_order as check_order
    from poise.testing.placer import check_placer as check_placer
    from poise.testing.policy import check_policy as check_policy
    from poise.testing.predictor import check_predictor as check_predictor
    from poise.testing.preempt import check_preempt as check_preempt
    from poise.testing.queue import check_queue as check_queue
    from poise.testing.recovery import check_recovery as check_recovery
    from poise.testing.router import check_router as check_router
    from poise.testing.rule import RuleBroken as RuleBroken
    from poise.testing.scaler import check_scaler as check_scaler
    from poise.testing.solo import Client as Client
    from poise.testing.solo import drive as drive

_BUILDERS = (
    "a_bundle", "a_chance", "a_cluster", "a_flight", "a_lane", "a_pool", "a_replica", "a_request",
)  # fmt: skip
_HOMES = {
    "Client": "solo",
    "LinearCost": "cost",
    "RuleBroken": "rule",
    "check_policy": "policy",
    "check_replica": "invariants",
    "check_world": "invariants",
    "drive": "solo",
    **dict.fromkeys(_BUILDERS, "builders"),
    **{f"check_{slot}": slot for slot in SLOTS},
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Load a name of the kit from its module."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
