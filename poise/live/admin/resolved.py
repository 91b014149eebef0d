"""The gateway's configuration as `/config` shows it: without keys, tokens or headers."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from poise.core.control.control import Control
from poise.core.slot import SLOTS, acting
from poise.live.admin.merge import Json
from poise.live.admin.observed_policy import plain
from poise.live.gateway.fleet import Engine
from poise.live.gateway.gateway import Gateway
from poise.live.gateway.hints import Hints

PLAIN = (bool, int, float, str)
PARTS = tuple(SLOTS[slot].verb for slot in acting("gateway"))
"""Methods that mark a parameter as a policy."""


def resolved(gateway: Gateway) -> Json:
    """Policies with their parameters, limits and engines."""
    return {
        "policies": _policies(gateway.control, gateway.world.hints),
        "tries": gateway.control.tries,
        "seed": gateway.control.seed,
        "belief": asdict(gateway.control.state.belief),
        "settings": asdict(gateway.settings),
        "engines": [_engine(engine) for engine in gateway.world.fleet],
        "needs_restart": gateway.pending,
        "slots": len(gateway.world.fleet.slots),
    }


def _policies(control: Control, hints: Hints | None) -> Json:
    slots: dict[str, Any] = {"router": control.router, "mover": control.mover, "order": control.order}
    slots |= {"predictor": control.predictor, "hedge": control.hedges and control.hedges.hedger}
    if control.scaling is not None:
        slots |= {"scaler": control.scaling.scaler, "forecast": control.scaling.forecast}
    slots["cache"] = hints and hints.cache
    fields: Json = {name: policy(each) for name, each in slots.items() if each is not None}
    fields["admission"] = [policy(each) for each in control.admission]
    return fields


def policy(given: Any) -> Json:
    """A policy's name and its parameters, as far as these are plain values or policies."""
    given = plain(given)
    parameters: Json = {}
    for name in inspect.signature(type(given)).parameters:
        value = plain(getattr(given, name, None))
        if isinstance(value, PLAIN):
            parameters[name] = value
        elif any(hasattr(value, part) for part in PARTS):
            parameters[name] = policy(value)
        elif isinstance(value, Sequence) and all(isinstance(each, PLAIN) for each in value):
            parameters[name] = list(value)
    return {"name": type(given).__name__, "parameters": parameters}


def _engine(engine: Engine) -> Json:
    at = engine.at
    return {
        "name": engine.name,
        "host": at.place.host,
        "port": at.place.port,
        "tls": at.place.tls,
        "role": at.role,
        "models": list(at.models),
        "prefill_rate": at.prefill_rate,
        "own_key": bool(at.api_key),
        "kv_events": at.kv_events,
        "hints": at.hints,
    }
