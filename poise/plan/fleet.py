"""A fleet: pools of replicas and the router in front of them, priced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from poise.catalogue.engines import engine_defaults, handing_over
from poise.core.spec import Cluster, Fault, Pool
from poise.policies import Policies
from poise.policies.find import build
from poise.report.spending import IDLE_SHARE

_ROLES = {"mixed": "", "prefill": " prefill", "decode": " decode"}


@dataclass(frozen=True, slots=True)
class Fleet:
    """Pools, each with its replicas and price, the router between them, and their faults in a simulation.

    `written` is its short form: `3 × H100 tp2 fp8`.
    """

    pools: tuple[Pool, ...]
    router: str = "least_requests"
    faults: tuple[Fault, ...] = ()

    @property
    def devices(self) -> int:
        """Devices of all pools."""
        return sum(pool.replicas * pool.devices for pool in self.pools)

    @property
    def by_device(self) -> dict[str, int]:
        """Devices by name."""
        counts: Counter[str] = Counter()
        for pool in self.pools:
            counts[pool.device.name] += pool.replicas * pool.devices
        return dict(counts)

    @property
    def replicas(self) -> int:
        """Replicas of all pools."""
        return sum(pool.replicas for pool in self.pools)

    @property
    def price_per_hour(self) -> float:
        """Dollars per hour; 0 for a pool that has no price."""
        return sum(pool.replicas * pool.devices * (pool.price_per_hour or 0.0) for pool in self.pools)

    @property
    def power_w(self) -> float:
        """Watts that the devices may draw together."""
        return sum(pool.replicas * pool.devices * pool.power_w for pool in self.pools)

    @property
    def idle_w(self) -> float:
        """Watts that all devices draw together when idle."""
        return IDLE_SHARE * sum(pool.replicas * pool.devices * pool.device.tdp_w for pool in self.pools)

    @property
    def split(self) -> bool:
        """Whether prefill and decode are separate."""
        return any(pool.role != "mixed" for pool in self.pools)

    @property
    def written(self) -> str:
        """The fleet in a few words."""
        return " + ".join(f"{pool.replicas} × {unit_name(pool)}" for pool in self.pools)

    @property
    def batcher(self) -> str:
        """Its engines' batch policy."""
        engine = self.pools[0].engine
        known = engine_defaults(engine.name, engine.version)
        return "prefill_first" if self.split and known.prefill_first else known.batcher

    @property
    def preempt(self) -> str:
        """Its engines' preemption policy."""
        engine = self.pools[0].engine
        known = engine_defaults(engine.name, engine.version)
        return "last_admitted" if self.split else known.preempt

    def cluster(self) -> Cluster:
        """What is simulated."""
        engine = self.pools[0].engine
        return handing_over(Cluster(self.pools, faults=self.faults), engine_defaults(engine.name, engine.version))

    def policies(self, scaler: str = "", settings: Mapping[str, Any] | None = None) -> Policies:
        """Its policies: the router, batches as its engine makes them, and a scaler where one is named."""
        grows = build("scaler", scaler, dict(settings or {})) if scaler else None
        return Policies(router=self.router, batcher=self.batcher, preempt=self.preempt, scaler=grows)

    def with_replicas(self, counts: tuple[int, ...]) -> Fleet:
        """The same with these numbers of replicas; pools without any are left out."""
        pools = zip(self.pools, counts, strict=True)
        return replace(self, pools=tuple(replace(pool, replicas=n) for pool, n in pools if n))


def unit_name(pool: Pool) -> str:
    """One replica in a few words, as in `H100-SXM-80GB tp2 fp8`; degrees of 1 and 16-bit formats are left out."""
    degrees = (("tp", pool.tensor), ("pp", pool.pipeline), ("dp", pool.data), ("ep", pool.expert))
    parts = [pool.device.name, *(f"{word}{n}" for word, n in degrees if n > 1)]
    parts += [pool.weights] if pool.weights != "bf16" else []
    parts += [f"kv-{pool.kv}"] if pool.kv != "bf16" else []
    parts += [f"{pool.power_w:g}W"] if pool.slowed else []
    return " ".join(parts) + _ROLES[pool.role]
