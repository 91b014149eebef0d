"""The cluster of a recording: engines with known batching and memory, timed by a fitted cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from poise.core.errors import TraceError, UserError
from poise.core.model import Model
from poise.core.spec import Cluster, Device, Engine, Fault, Pool, ReplicaSpec

BATCHING = ("token_budget", "max_sequences", "block_tokens", "prefix_caching", "reserve_prompt")
"""The engine settings that a simulation needs; vLLM's own defaults where a header does not have them."""

MOST_BLOCKS = 1 << 32
"""Blocks of a cache of unknown size."""


def cluster_of(
    replicas: Sequence[ReplicaSpec], header: Mapping[str, Any], faults: tuple[Fault, ...] = (), count: int | None = None
) -> tuple[Cluster, list[ReplicaSpec]]:
    """The recorded cluster, a pool for each replica, and the reports to the control side.

    count: the number of replicas instead: further ones are like the last, or the last ones are left out.
    UserError for less than one; TraceError for engines with lanes of their own.
    """
    specs, engines = list(replicas), list(header.get("engines") or [{}] * len(replicas))
    if count is not None:
        if count < 1:
            raise UserError(f"--replicas {count}: must be at least 1; give how many engines there would be")
        last = max(present(specs, faults), default=len(specs) - 1) + 1  # behind it are slots that stayed empty
        specs, engines = specs[:last], engines[:last]
        specs = specs[:count] + [specs[-1]._replace(up=True)] * (count - len(specs))
        engines = engines[:count] + [engines[-1]] * (count - len(engines))
    models = header.get("models") or []
    pools = tuple(_pool(spec, engine, models) for spec, engine in zip(specs, engines, strict=True))
    kept = tuple(fault for fault in faults if fault.replica < len(specs))
    latency = max((spec.link_latency_s for spec in specs), default=0.0)
    return Cluster(pools, max(spec.link_bw for spec in specs), latency, kept), specs


def present(specs: Sequence[ReplicaSpec], faults: Sequence[Fault]) -> list[int]:
    """The replicas that were present, or joined: a gateway has slots for more."""
    joined = {fault.replica for fault in faults if fault.kind == "join"}
    return [replica for replica, spec in enumerate(specs) if spec.up or replica in joined]


def unknown(header: Mapping[str, Any]) -> list[str]:
    """The settings of engines that the header does not have."""
    engines = header.get("engines") or [{}]
    return [name for name in BATCHING if any(name not in engine for engine in engines)]


def _block(spec: ReplicaSpec) -> int:
    """Tokens of a KV block, as an engine's own figures of its cache have it."""
    return round(spec.cache_tokens / spec.blocks) if spec.blocks else Engine().block_tokens


def _pool(spec: ReplicaSpec, engine: Mapping[str, Any], models: Sequence[str]) -> Pool:
    if len(engine.get("lanes", ())) > 1:
        raise TraceError(
            f"engine {engine.get('name', '')} has {len(engine['lanes'])} lanes, and a fitted cost knows one; record "
            "engines of one lane"
        )
    known = {name: engine[name] for name in BATCHING if name in engine}
    known.setdefault("block_tokens", _block(spec))
    block = known["block_tokens"]
    blocks = spec.blocks or min(-(-spec.cache_tokens // block), MOST_BLOCKS)
    name = models[spec.model] if 0 <= spec.model < len(models) else "recorded"
    values = max(round(spec.kv_token_bytes / 4), 1)  # keys and values of 2 bytes each
    model = Model(name, 1, values, 1, 1, values, 1, 1, max_context=spec.capacity_tokens)
    device = Device("recorded", "", 1.0, 1, 1.0)
    return Pool(
        model, device, role=spec.role, name=str(engine.get("name", "")), engine=Engine(**known, kv_blocks=blocks),
        link_bw=spec.link_bw,
    )  # fmt: skip
