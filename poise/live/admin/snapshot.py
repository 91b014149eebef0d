"""A snapshot of the gateway as plain data: what `/state` answers and what the page shows.

Seconds are floats, instants `*_at` seconds since the gateway's page was set up. Unknown values are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from poise.core.control.shadow import Agreement
from poise.core.units import SECOND
from poise.live.admin.merge import Json
from poise.live.admin.observed_policy import plain
from poise.live.admin.recent import PARTS, Recent, Totals, bound, totals
from poise.live.gateway.counts import OTHERS, CounterRow
from poise.live.gateway.fleet import Engine
from poise.live.gateway.gateway import Gateway
from poise.live.gateway.proxied_request import HELD, ProxiedRequest
from poise.live.telemetry.health import Circuit

TENANTS: Final = 50
"""Tenants shown, those with the most requests; the others are summed up."""
KNOWN_SHARE: Final = 0.95
"""Least share of an engine's prompt tokens with reported cached tokens, for the hit rate to be taken from answers."""
MINUTE: Final = 60.0


class Load(NamedTuple):
    """Requests that have not ended: all, those that no engine has, and when the oldest of these arrived (or 0)."""

    open: int
    held: int
    oldest: int


def snapshot(gateway: Gateway, recent: Recent, began: int, now: int) -> Json:
    """The whole snapshot at `now`; `began` is when instants begin (both picoseconds)."""
    world = gateway.world
    proxied_requests = list(world.proxied_requests.values())
    followed = _followed(gateway)
    at = Counter(slot for proxied in proxied_requests for slot in proxied.slots)
    sums = totals(now, gateway.stats.engines.values(), proxied_requests)
    fields: Json = {
        "at": _s(now - began),
        "ready": not gateway.draining and bool(world.fleet.serving),
        "draining": gateway.draining,
        "models": gateway.api.models.listed()[:TENANTS],
        "requests": _requests(proxied_requests, now),
        "engines": {
            str(engine.slot): _engine(gateway, engine, at[engine.slot], began) | followed.get(engine.slot, {})
            for engine in world.fleet
        },
        "tenants": _tenants(gateway.stats.tenants, _loads(proxied_requests), now),
        "latency": _latency(recent.last(sums, MINUTE)),
        "rates": _rates(recent.last(sums, recent.step_s)),
        "series": _series(recent, began),
        "policy": {"errors": world.policy_errors, "last": world.policy_error[:500]},
        "clients": {"connected": gateway.server.connections, "refused": dict(gateway.server.causes)},
    }
    fields |= {
        name: value
        for name, value in (
            ("shadow", _shadow(gateway)),
            ("recording", _recording(gateway)),
            ("peers", _peers(gateway)),
        )
        if value
    }
    return fields


def _s(duration: int) -> float:
    return round(duration / SECOND, 3)


# Requests and tenants -------------------------------------------------------------------------------------------------


def _requests(proxied_requests: Sequence[ProxiedRequest], now: int) -> Json:
    held = [proxied.view.arrived_at for proxied in proxied_requests if proxied.state == HELD]
    fields: Json = {"open": len(proxied_requests), "held": len(held)}
    if held:
        fields["oldest_wait_s"] = _s(now - min(held))
    return fields


def _loads(proxied_requests: Iterable[ProxiedRequest]) -> dict[str, Load]:
    """By tenant."""
    open_: Counter[str] = Counter()
    held: dict[str, list[int]] = {}
    for proxied in proxied_requests:
        open_[proxied.tenant] += 1
        if proxied.state == HELD:
            held.setdefault(proxied.tenant, []).append(proxied.view.arrived_at)
    return {
        tenant: Load(count, len(held.get(tenant, ())), min(held.get(tenant, (0,)))) for tenant, count in open_.items()
    }


def _tenants(rows: dict[str, CounterRow], loads: dict[str, Load], now: int) -> Json:
    """The busiest by name, "" for requests without a tenant; the rest as one. share: of all tokens."""
    names = dict.fromkeys([*rows, *loads])
    fields = {name: _tenant(rows.get(name) or CounterRow(), loads.get(name) or Load(0, 0, 0), now) for name in names}
    tokens = sum(each["prompt"] + each["output"] for each in fields.values())
    for each in fields.values():
        each["share"] = round((each["prompt"] + each["output"]) / tokens, 4) if tokens else 0.0
    if len(fields) <= TENANTS:
        return fields
    named = [name for name in fields if name != OTHERS]
    ranked = sorted(named, key=lambda name: (-fields[name]["held"], -fields[name]["requests"], name))
    shown = {name: fields[name] for name in ranked[: TENANTS - 1]}
    rest = [fields[name] for name in (*ranked[TENANTS - 1 :], OTHERS) if name in fields]
    shown[OTHERS] = _together(rest)
    return shown


def _together(tenants: Sequence[Json]) -> Json:
    names = dict.fromkeys(name for each in tenants for name in each)
    return {name: (max if name == "oldest_wait_s" else sum)(each.get(name, 0) for each in tenants) for name in names}


def _tenant(row: CounterRow, load: Load, now: int) -> Json:
    fields: Json = {
        "open": load.open,
        "held": load.held,
        "requests": sum(row.statuses.values()),
        "failed": sum(count for status, count in row.statuses.items() if status >= 500),
        "limited": row.statuses.get(429, 0),
        "left": row.statuses.get(499, 0),
        "prompt": row.prompt,
        "output": row.output,
    }
    if load.oldest:
        fields["oldest_wait_s"] = _s(now - load.oldest)
    return fields


# Engines --------------------------------------------------------------------------------------------------------------


def _engine(gateway: Gateway, engine: Engine, in_flight: int, began: int) -> Json:
    """One engine; the fields of its last report are missing where there was none."""
    state, slot = gateway.control.state, engine.slot
    fields: Json = {
        "name": engine.name,
        "address": f"{engine.at.place.host}:{engine.at.place.port}",
        "state": engine.status,
        "role": engine.at.role,
        "models": list(engine.models[:8]),
        "in_flight": in_flight,
        "sent": engine.sent,
        "failures": dict(engine.failures),
    }
    visit = gateway.prober.visits.get(slot)
    if engine.down_at >= 0:
        fields["down_at"] = _s(engine.down_at - began)
    if visit is not None:
        circuit = gateway.prober.health.circuit(slot)
        if circuit is not Circuit.CLOSED:
            fields["circuit"] = circuit.value
    if visit is not None and visit.reading is not None:
        columns, blocks = visit.reading.columns, visit.reading.total_blocks
        fields |= {name: columns[name] for name in ("waiting", "running", "queued_tokens") if name in columns}
        if blocks and "free_blocks" in columns:
            fields["kv_used"] = round(1 - columns["free_blocks"] / blocks, 4)
    if state.measured_at[slot]:
        fields["measured_at"] = _s(state.measured_at[slot] - began)
    rate = _hit_rate(gateway, engine)
    if rate is not None:
        fields["hit_rate"] = round(rate, 4)
    return fields


def _followed(gateway: Gateway) -> dict[int, Json]:
    """For engines that publish KV events: how far they are followed, and their errors."""
    return {
        slot: {"kv_events": {"state": state, "counts": counts}}
        for slot, (state, counts) in gateway.caches.followed().items()
    }


def _hit_rate(gateway: Gateway, engine: Engine) -> float | None:
    """Share of prompt tokens found cached: from answers' usage where almost all have it, else from the engine's count.

    None where neither covers all requests: the few answers that report it may differ from the rest.
    """
    row = gateway.stats.engines.get(engine.name)
    if row is not None and row.known_prompt >= KNOWN_SHARE * row.prompt > 0:
        return row.cached / row.known_prompt
    visit = gateway.prober.visits.get(engine.slot)
    counters = visit.reading.counters if visit is not None and visit.reading is not None else {}
    queries = counters.get("prefix_queries", 0.0)
    return counters.get("prefix_hits", 0.0) / queries if queries else None


# The last minutes -----------------------------------------------------------------------------------------------------


def _bounds(counts: Sequence[int]) -> Json:
    """Percentiles as bounds of buckets; none where nothing was counted."""
    found = {f"p{round(100 * part)}": bound(counts, part) for part in PARTS}
    return {"count": sum(counts), **{name: value for name, value in found.items() if value is not None}}


def _latency(minute: Totals) -> Json:
    return {"ttft": _bounds(minute.ttft), "e2e": _bounds(minute.e2e)}


def _rates(step: Totals) -> Json:
    """Per second."""
    lasted = step.at / SECOND
    names = ("requests", "failed", "limited", "prompt", "output")
    return {name: round(getattr(step, name) / lasted, 3) if lasted > 0 else 0.0 for name in names}


def _series(recent: Recent, began: int) -> Json:
    """The past steps; `end_at` is where the last one ended, and a step without values has no percentiles."""
    steps = recent.steps
    return {
        "step_s": recent.step_s,
        "end_at": _s(recent.marks[-1].at - began),
        "ttft": [_points(step.ttft) for step in steps],
        "e2e": [_points(step.e2e) for step in steps],
        "rates": [[rate[name] for name in ("requests", "prompt", "output", "failed")] for rate in map(_rates, steps)],
        "open": [[step.open, step.held] for step in steps],
    }


def _points(counts: Sequence[int]) -> list[float | None]:
    return [bound(counts, part) for part in PARTS] if any(counts) else []


# Optional parts -----------------------------------------------------------------------------------------------------


def _shadow(gateway: Gateway) -> Json:
    """How often a shadow router agrees, where there is one; a gain of tokens is of prompt tokens waited for."""
    router = plain(gateway.control.router)
    agreement = getattr(router, "agreement", None)
    if not isinstance(agreement, Agreement):
        return {}
    return {
        "active": type(plain(router.active)).__name__,
        "shadow": type(plain(router.shadow)).__name__,
        **agreement._asdict(),
    }


def _peers(gateway: Gateway) -> Json:
    """The other gateways, where this one reports to any."""
    if gateway.mesh is None:
        return {}
    return {"connected": gateway.mesh.connected, "requests": len(gateway.control.peers.known)}


def _recording(gateway: Gateway) -> Json:
    """The state of the recording, where there is one."""
    recorder: Any = gateway.recorder
    names = ("path", "lines", "bytes", "dropped", "failed", "number")
    fields = {name: getattr(recorder, name) for name in names if hasattr(recorder, name)}
    return {name: str(value) if name == "path" else value for name, value in fields.items()}
