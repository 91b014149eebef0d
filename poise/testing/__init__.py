"""The test kit that comes with Poise: inputs for policies in one call each, and their contracts as functions.

Builders: `a_request`, `a_replica`, `a_flight`, `a_pool`, `a_cluster`, `a_chance`, `a_lane`, `a_bundle`.  Contracts:
`check_policy` for any slot, and one of its own for each, as `check_router`.  Invariants: `check_replica` and
`check_world`.  A cost in round numbers: `LinearCost`.  One replica alone: `drive`. A policy that breaks a rule raises
`RuleBroken`, which names the policy, the rule and the input. The names are loaded when they are first asked for, and
nothing here needs a test framework.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    from poise.testing.cost import LinearCost as LinearCost
    from poise.testing.invariants import check_replica as check_replica
    from poise.testing.invariants import check_world as check_world
    from poise.testing.lender import check_lender as check_lender
    from poise.testing.order import check_order as check_order
    from poise.testing.router import check_router as check_router
    from poise.testing.rule import RuleBroken as RuleBroken
    from poise.testing.scaler import check_scaler as check_scaler
    from poise.testing.solo import Client as Client
    from poise.testing.solo import drive as drive

_HOMES = {
    "Client": "solo",
    "LinearCost": "cost",
    "RuleBroken": "rule",
    "a_bundle": "builders",
    "a_chance": "builders",
    "a_cluster": "builders",
    "a_flight": "builders",
    "a_lane": "builders",
    "a_pool": "builders",
    "a_replica": "builders",
    "a_request": "builders",
    "check_admission": "admission",
    "check_batcher": "batcher",
    "check_lender": "lender",
    "check_order": "order",
    "check_replica": "invariants",
    "check_router": "router",
    "check_scaler": "scaler",
    "check_world": "invariants",
    "drive": "solo",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Load a name of the kit from the file where it lives."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
