"""The engines of the gateway file, a watched file and DNS; passes their changes to the gateway."""

from __future__ import annotations

import logging
from typing import Any

from poise.live.discovery.address import Engine as Place
from poise.live.discovery.engines import Diff
from poise.live.gateway.fleet import EngineAt
from poise.live.gateway.gateway import Gateway

log = logging.getLogger("poise.gateway")


class Roll:
    """Engines by name. Removed engines finish their running requests; others are not affected."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._listed: dict[str, EngineAt] = {}
        self._at: dict[str, EngineAt] = {}

    def list(self, engines: list[EngineAt]) -> None:
        """The engines in the gateway file now."""
        fresh = {at.name: at for at in engines}
        for name, at in self._listed.items():
            if fresh.get(name) != at:
                self._remove(name)
        for name, at in fresh.items():
            if self._listed.get(name) != at:
                self._add(at)
        self._listed = fresh

    def change(self, diff: Diff) -> None:
        """Engines of another source were added, removed or changed."""
        for place in (*diff.removed, *diff.changed):
            self._remove(place.name)
        for place in (*diff.added, *diff.changed):
            self._add(described(place))

    def _add(self, at: EngineAt) -> None:
        if at.name in self._at:
            log.error("engine %s is named by two sources; the first one stands", at.name)
        elif self._gateway.prober.add(at) is not None:
            self._at[at.name] = at

    def _remove(self, name: str) -> None:
        at = self._at.pop(name, None)
        for engine in self._gateway.world.fleet:
            if engine.at is at:
                self._gateway.prober.remove(engine)


def described(place: Place) -> EngineAt:
    """An engine whose labels may say `role`, `models` (with commas), `kv_events`, `kv_replay` and `kv_topic`."""
    labels = dict(place.labels)
    role: Any = labels.get("role", "mixed")
    if role not in ("mixed", "prefill", "decode"):
        log.error("engine %s: role %r is none of mixed, prefill, decode; it is taken as mixed", place.name, role)
        role = "mixed"
    models = tuple(name.strip() for name in labels.get("models", "").split(",") if name.strip())
    return EngineAt(
        place,
        role=role,
        models=models,
        kv_events=labels.get("kv_events", ""),
        kv_replay=labels.get("kv_replay", ""),
        kv_topic=labels.get("kv_topic", ""),
    )
