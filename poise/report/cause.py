"""The first cause of a change in request time: a fault, a part of the work itself, or only more crowding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NOTICEABLE = 0.1
"""Least share of the whole change for a part to be named first; for work, of its own time before."""

FAULTS = {
    "lost": "work thrown away with lost replicas",
    "no_replica": "waiting for a replica to be up",
    "slow": "steps of slow or lost devices",
}
WORK = {
    "miss": "prompt tokens that were not in the prefix cache",
    "prefill": "the prompts' own computation",
    "decode": "the outputs' own computation",
}
DELAYS = {
    "preempted": "preemption for lack of KV blocks, and recomputation",
    "link": "sending KV over links, and waiting for a link",
    "moving": "pausing while moving to another replica",
    "gateway": "waiting in the gateway's queue",
    "retry": "being rejected and retrying",
    "idle": "engines that ran no step",
}
CROWDING = {
    "queue": "waiting in engines' queues",
    "prefill_others": "others in the prompts' steps",
    "decode_others": "others in the outputs' steps",
}
TEXTS = FAULTS | WORK | DELAYS | CROWDING
"""Causes and their names. A cause is a part; `link` is `link_wait` and `transfer` together."""


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause named first, its own change (seconds per request), and the change in crowding with it."""

    name: str
    change: float
    crowding: float

    @property
    def text(self) -> str:
        """The cause in words."""
        return TEXTS[self.name]


def causes(parts: Mapping[str, float]) -> dict[str, float]:
    """Seconds by cause, from seconds by part."""
    fields = {name: seconds for name, seconds in parts.items() if name not in ("link_wait", "transfer")}
    return fields | {"link": parts["link_wait"] + parts["transfer"]}


def first_cause(before: Mapping[str, float], after: Mapping[str, float]) -> Cause | None:
    """The cause named first between two means by part; None where nothing changed.

    Crowding follows from whatever makes other requests slower, so it is named only where no other part has the sign
    of the change and is noticeable. In this order: a fault that occurred in only one of the two runs; the largest part
    that is not contention and is a tenth of the change or, if it is work, a tenth of the same work before; the largest.
    """
    one, other = causes(before), causes(after)
    change = {name: other[name] - one[name] for name in TEXTS}
    whole = sum(change.values())
    along = {name: value for name, value in change.items() if value * whole > 0}
    if not along:
        return None
    work = {name: one["decode"] if name == "decode" else one["prefill"] + one["miss"] for name in WORK}
    faults = {name: value for name, value in along.items() if name in FAULTS and not (one[name] and other[name])}
    direct = {
        name: value
        for name, value in along.items()
        if name not in CROWDING
        and (abs(value) >= NOTICEABLE * abs(whole) or (name in WORK and abs(value) >= NOTICEABLE * work[name]))
    }
    chosen = faults or direct or along
    name = max(chosen, key=lambda each: abs(chosen[each]))
    return Cause(name, change[name], sum(change[each] for each in CROWDING))
