"""The pools' properties that a scaler needs, and checks of clusters with a scaler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from poise.core.errors import ScenarioError
from poise.core.spec import Belief, Cluster, PoolSpec
from poise.policies import Policies

if TYPE_CHECKING:
    from poise.workload.table import Workload


def check_scaling(cluster: Cluster, policies: Policies, belief: Belief) -> None:
    """ScenarioError for what cannot be combined with a scaler, and for bounds that hold nothing."""
    for at, pool in enumerate(cluster.pools):
        least, most = pool.bounds
        if not 0 <= least <= pool.replicas <= most:
            raise ScenarioError(
                f"cluster.pools.{at}.replicas: {pool.replicas} is not within min_replicas {least} and max_replicas "
                f"{most}; give a number of replicas to start with that is"
            )
    if policies.scaler is None:
        return
    if belief.gateways > 1:
        raise ScenarioError(
            f"belief.gateways: {belief.gateways} each know their own requests alone, and a scaler must know all; give 1"
        )
    if getattr(policies.scaler, "converts", ()):
        _check_roles(cluster, policies.scaler)
    if any(fault.kind == "join" for fault in cluster.faults):
        raise ScenarioError("cluster.faults: a replica cannot join where a scaler decides who is there; remove it")


def _check_roles(cluster: Cluster, scaler: Any) -> None:
    """ScenarioError where no replica can take another role, or where a scaler would misread first tokens."""
    who, own = type(scaler).__name__, [pool for pool in cluster.pools if pool.role in scaler.converts]
    sizes = Counter((pool.model.name, pool.tenants) for pool in own for _ in range(pool.slots))
    if max(sizes.values(), default=0) <= len(scaler.converts):
        raise ScenarioError(
            f"policies.scaler: {who} needs a replica to spare beside one of each role ({', '.join(scaler.converts)}), "
            "and no model and tenants have so many; give a pool more replicas"
        )
    wants = getattr(scaler, "first_token", None)
    for at, pool in enumerate(cluster.pools):
        if pool in own and wants not in (None, pool.engine.first_token):
            raise ScenarioError(
                f"cluster.pools.{at}.engine.first_token: {pool.engine.first_token} hides from {who} when a prompt is "
                f"done; give {wants}"
            )


def arrivals_of(workload: Workload) -> Callable[[int, int], int]:
    """The number of requests that arrive between two instants; only open arrivals are known beforehand."""
    if workload.concurrency or workload.after_offsets is not None:
        raise ScenarioError(
            "policies.forecast: the arrivals of this workload follow its answers, so that no truth is known before; "
            "take recent, or constant"
        )
    import numpy as np

    arrival = workload.arrival

    def count(since: int, until: int) -> int:
        return int(np.searchsorted(arrival, until) - np.searchsorted(arrival, since))

    return count


def pool_specs(cluster: Cluster) -> list[PoolSpec]:
    """What the control side knows of each pool beforehand."""
    return [
        PoolSpec(
            pool.name or str(at), pool.replicas, *pool.bounds, pool.prewarmed,
            pool.stages.warming_s + pool.stages.loading_s, pool.stages.loading_s,
        )
        for at, pool in enumerate(cluster.pools)
    ]  # fmt: skip
