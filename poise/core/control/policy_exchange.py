"""Exchanges policies of a running `Control` for others.

Belief, queue and requests in flight stay as they are; a new policy is notified of those requests as if they had
just arrived, and has no memory beyond that. Columns that were not kept before fill with the next reports; what was sent
and has not ended is known at once, as a prefix index of it is.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from poise.core.control.hedging import Hedging
from poise.core.errors import PolicyError
from poise.core.event import Arrived
from poise.core.slot import CONTROL, EXCHANGEABLE, SLOTS, check_policy

if TYPE_CHECKING:
    from poise.core.control.control import Control


def mover_of(own: Mapping[str, Any]) -> Any:
    """The policy that moves requests: that of its slot, or the router where it can."""
    if own["mover"] is None and hasattr(own["router"], "move"):
        return own["router"]
    return own["mover"]


def policies_of(own: Mapping[str, Any]) -> list[Any]:
    """All policies, each once: an object may be several policies in one."""
    return _once([mover_of(own) if slot == "mover" else own[slot] for slot in CONTROL])


def hooked(own: Mapping[str, Any], hook: str, slots: Iterable[str] = CONTROL) -> list[Any]:
    """The policies of some slots with a hook that their slot may have, each once."""
    return [policy for policy in _once([own[slot] for slot in slots if hook in _hooks(slot)]) if hasattr(policy, hook)]


def _hooks(slot: str) -> Iterable[str]:
    return (*SLOTS[slot].also, *SLOTS[slot].hooks)


def _once(held: Iterable[Any]) -> list[Any]:
    """The policies of some slots, each of which holds one, several or none."""
    found: list[Any] = []
    for each in held:
        for policy in each if isinstance(each, tuple) else (each,):
            if policy is not None and not any(policy is other for other in found):
                found.append(policy)
    return found


def needs_of(policies: list[Any]) -> set[str]:
    """The columns that policies read."""
    return {name for policy in policies for name in getattr(policy, "needs", ())}


def exchange(control: Control, made: Mapping[str, Any]) -> None:
    """Have `control` use the policies of `made`, by slot, in place of its own.

    Nothing is changed where a new policy raises an error (which is passed on), and for a slot whose
    policies cannot be exchanged (PolicyError).
    """
    wrong = [slot for slot in made if slot not in EXCHANGEABLE]
    if wrong:
        raise PolicyError(f"policies.{wrong[0]} cannot be exchanged while requests are served; start anew")
    old = control.own
    own = {**old, **copy.deepcopy(dict(made))}
    own["admission"] = tuple(own["admission"] or ())
    for slot in made:
        for policy in _once([own[slot]]):
            check_policy(slot, policy)
    before = policies_of(old)
    fresh = [policy for policy in policies_of(own) if not any(policy is each for each in before)]
    _keep(control, needs_of(before) | needs_of(fresh))
    try:
        _teach(control, own, fresh)
    except Exception:
        control.state.keep(needs_of(before))
        raise
    control.own = own
    control.state.keep(needs_of(policies_of(own)))
    control.settle()
    if "router" in made or "order" in made:
        control.held.regroup(control.grouping(own["router"]), own["order"])
    if "hedge" in made:
        control.hedges = None if own["hedge"] is None else Hedging(own["hedge"], control)


def _keep(control: Control, needs: set[str]) -> None:
    """Keep further columns; what is in flight is known at once."""
    state = control.state
    prefixes, adapters = state.prefix is None, not state.tracks_adapters
    corrects = state.keep(needs)
    for flight in control.flights.values():
        state.recall(flight.sent_at, flight.request, flight.place, corrects, prefixes, adapters)


def _teach(control: Control, own: Mapping[str, Any], fresh: list[Any]) -> None:
    """Notify new policies of the requests in flight, and of the waiting ones."""
    state = control.state
    observe, joined, taken = (hooked(own, hook) for hook in ("observe", "joined", "taken"))
    flights = list(control.flights.values())
    requests = [*(flight.request for flight in flights), *control.held]
    for policy in fresh:
        control.peers.teach(policy, own)
        for place, request in enumerate(requests):
            if _among(policy, observe):
                policy.observe(Arrived(state.now, request))
            if _among(policy, joined):
                policy.joined(request)
            if _among(policy, taken) and place < len(flights):
                policy.taken(request, flights[place].replica, state)


def _among(policy: Any, some: list[Any]) -> bool:
    return any(policy is each for each in some)
