"""Rebuilds the control side of a recording from its header, and replays its events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from poise.core.action import Action
from poise.core.control.control import Control
from poise.core.errors import TraceError
from poise.core.records.header import belief_of, check_header, pools_of, replicas_of
from poise.core.records.trace import ACTIONS, EVENTS, Trace
from poise.core.slot import CONTROL
from poise.live.integrations.choice import Fallback, Subset
from poise.policies import Policies
from poise.policies.find import build_named, make_named

FLEET = ("scaler", "forecast")
"""Slots that decide the number of engines; a recording has the engines that there were."""


def control_of(header: Mapping[str, Any]) -> Control:
    """A fresh `Control` in the state of the recorded one when it began.

    TraceError for an incomplete header, and for a belief in the true caches, which no recording holds.
    """
    check_header(header)
    belief = belief_of(header)
    if belief.prefix == "oracle":
        raise TraceError(
            "the recording was made with belief.prefix = oracle, and the true caches are not in it; record with own or "
            "reported"
        )
    router, admission = policy_of(header, "router"), policy_of(header, "admission") or ()
    if "fallbacks" in header:  # of an endpoint picker
        router, admission = Fallback(router, header["fallbacks"]), (Subset(), *admission)
    named = {slot: policy_of(header, slot) for slot in CONTROL}
    control = Control(
        Policies(**{**named, "router": router, "admission": admission}),
        replicas_of(header),
        belief=belief,
        seed=header.get("seed", 0),
        resume=header.get("resume", True),
        **{name: header[name] for name in ("tries",) if name in header},
        pools=pools_of(header),
    )
    control.maker = make_named
    return control


def policy_of(header: Mapping[str, Any], slot: str) -> Any:
    """The policy of a slot, all of them where the header has a list, None where it names none."""
    named = header.get("policies", {}).get(slot)
    if slot == "router" and not named:
        raise TraceError("the header names no router; record with `poise serve --record`")
    return build_named(slot, named)


def replayed(trace: Trace) -> Iterator[tuple[list[Action], list[Action]]]:
    """For each event: the recorded actions, and those of a fresh control.

    One gateway after another. An action that caused a further event (such as a refusal) is recorded before that event.
    """
    for gateway in range(belief_of(trace.header).gateways):
        control = control_of(trace.header)
        recorded: list[Action] = []
        decided: list[Action] = []
        for item in trace.items(gateway):
            if type(item).__name__ in ACTIONS:
                recorded.append(item)  # type: ignore[arg-type]  # it is one of them
                continue
            assert type(item).__name__ in EVENTS
            if recorded or decided:
                yield recorded, decided
            recorded, decided = [], list(control.handle(item))  # type: ignore[arg-type]
        yield recorded, decided
