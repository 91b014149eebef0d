"""Where each policy slot acts: in a simulation, in a gateway, behind a proxy, inside an engine.

A policy that is named where its slot does not act is refused, so that nobody takes it for one that decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from poise.scenario.place import Places
    from poise.scenario.schema import PoliciesSection

SIMULATION: Final = "simulation"
GATEWAY: Final = "gateway"
PROXY: Final = "proxy"
INSIDE: Final = "inside"

USE: Final = {
    SIMULATION: "in a scenario (poise simulate)",
    GATEWAY: "in a gateway (poise serve)",
    PROXY: "in a gateway with the section envoy",
    INSIDE: "inside vLLM (docs/integrations.md)",
}
"""How each world is named to a user, and how a policy is used there."""


class Slot(NamedTuple):
    """What a slot's policies act on, and the worlds in which they do."""

    on: str
    worlds: tuple[str, ...]


_EVERYWHERE: Final = (SIMULATION, GATEWAY, PROXY)
_SENDS: Final = "where the gateway itself sends requests"

ACTS: Final[dict[str, Slot]] = {
    "router": Slot("at the gateway", _EVERYWHERE),
    "mover": Slot(_SENDS, (SIMULATION, GATEWAY)),
    "lender": Slot("between engines that lend KV blocks", (SIMULATION,)),
    "order": Slot("at the gateway", _EVERYWHERE),
    "admission": Slot("at the gateway", _EVERYWHERE),
    "predictor": Slot("at the gateway", _EVERYWHERE),
    "hedge": Slot(_SENDS, (SIMULATION, GATEWAY)),
    "scaler": Slot("at the gateway", _EVERYWHERE),
    "forecast": Slot("at the gateway", _EVERYWHERE),
    "recovery": Slot("on replicas that are told when they go", (SIMULATION,)),
    "batcher": Slot("inside engines", (SIMULATION, INSIDE)),
    "queue": Slot("inside engines", (SIMULATION, INSIDE)),
    "preempt": Slot("inside engines", (SIMULATION, INSIDE)),
    "cache": Slot("inside engines and on engines that take hints", (SIMULATION, GATEWAY, INSIDE)),
}
"""All slots of a scenario."""


def acting(world: str) -> tuple[str, ...]:
    """The slots that act in a world, in the order of the table."""
    return tuple(name for name, slot in ACTS.items() if world in slot.worlds)


def check_acts(policies: PoliciesSection, world: str, places: Places) -> None:
    """UserError for the first policy that is named where it does not act; a slot that is left out, or null, is fine."""
    for name in ACTS:
        if name in policies.model_fields_set and getattr(policies, name) is not None:
            why = elsewhere(name, world)
            if why:
                raise places.error(("policies", name), why)


def elsewhere(name: str, world: str) -> str:
    """Why a slot does not act in a world, and where it does; empty if it acts."""
    slot = ACTS[name]
    if world in slot.worlds:
        return ""
    return f"acts {slot.on}, not {USE[world]}; use it {' or '.join(USE[each] for each in slot.worlds)}, or leave it out"
