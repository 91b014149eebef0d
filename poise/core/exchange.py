"""Policies of a `Control` that runs are exchanged for others.

What is believed, who waits and who is in flight stay as they are; a new policy is told of those requests as if they had
just come, and has no memory beyond that. Columns that were not kept before fill with the next reports; what was sent
and has not ended is known at once, as a prefix index of it is.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from poise.core.errors import PolicyError
from poise.core.event import Arrived
from poise.core.hedges import Hedges

if TYPE_CHECKING:
    from poise.core.control import Control

SLOTS: Final = ("router", "mover", "order", "admission", "predictor", "hedge")
"""Slots whose policies can be exchanged."""


def mover_of(own: Mapping[str, Any]) -> Any:
    """Who moves requests: the policy of that slot, or the router where it can."""
    if own["mover"] is None and hasattr(own["router"], "rebalance"):
        return own["router"]
    return own["mover"]


def gates_of(own: Mapping[str, Any]) -> tuple[Any, ...]:
    """The policies that are told of each request that waits, is sent and ends."""
    return (own["order"], own["hedge"], *own["admission"])


def asked_of(own: Mapping[str, Any]) -> list[Any]:
    """All policies, each once: an object may be several policies in one."""
    asked: list[Any] = []
    for policy in (
        own["router"], mover_of(own), own["lender"], own["order"], *own["admission"], own["predictor"], own["hedge"],
        own["scaler"], own["forecast"], own["recovery"],
    ):  # fmt: skip
        if policy is not None and not any(policy is each for each in asked):
            asked.append(policy)
    return asked


def needs_of(asked: list[Any]) -> set[str]:
    """The columns that policies read."""
    return {name for policy in asked for name in getattr(policy, "needs", ())}


def exchange(control: Control, made: Mapping[str, Any]) -> None:
    """Have `control` ask the policies of `made`, by slot, in place of those that it has there.

    Nothing is changed where a new policy cannot be told what is so (its own error is raised), and for a slot whose
    policies cannot be exchanged (PolicyError).
    """
    wrong = [slot for slot in made if slot not in SLOTS]
    if wrong:
        raise PolicyError(f"policies.{wrong[0]} cannot be exchanged while requests are served; start anew")
    old = control.own
    own = {**old, **copy.deepcopy(dict(made))}
    own["admission"] = tuple(own["admission"] or ())
    before = asked_of(old)
    fresh = [policy for policy in asked_of(own) if not any(policy is each for each in before)]
    _keep(control, needs_of(before) | needs_of(fresh))
    try:
        _teach(control, own, fresh)
    except Exception:
        control.state.keep(needs_of(before))
        raise
    control.own = own
    control.state.keep(needs_of(asked_of(own)))
    control.settle()
    if "router" in made or "order" in made:
        control.held.regroup(control.grouping(own["router"]), own["order"])
    if "hedge" in made:
        control.hedges = None if own["hedge"] is None else Hedges(own["hedge"], control)


def _keep(control: Control, needs: set[str]) -> None:
    """Keep further columns, of which what is in flight is known."""
    state = control.state
    prefixes = state.prefix is None
    corrects = state.keep(needs)
    for flight in control.flights.values():
        state.recall(flight.sent_at, flight.request, flight.place, corrects, prefixes)


def _teach(control: Control, own: Mapping[str, Any], fresh: list[Any]) -> None:
    """Tell new policies of those who are in flight, and of those who wait."""
    state, gates = control.state, gates_of(own)
    flights = list(control.flights.values())
    requests = [*(flight.request for flight in flights), *control.held]
    for policy in fresh:
        gate = any(policy is each for each in gates)
        for place, request in enumerate(requests):
            if hasattr(policy, "observe"):
                policy.observe(Arrived(state.now, request))
            if gate and hasattr(policy, "joined"):
                policy.joined(request)
            if gate and place < len(flights) and hasattr(policy, "taken"):
                policy.taken(request, flights[place].replica, state)
