"""Draws the faults of a cluster's rates for one run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from poise.core.errors import ScenarioError
from poise.core.spec import Cluster, Fault
from poise.core.units import seconds
from poise.sim.hazards import faults

if TYPE_CHECKING:
    from poise.workload.table import Workload

TIMED = ("slow", "device_lost", "link_slow", "link_lost")
"""Kinds that last for a time."""


def drawn(cluster: Cluster, workload: Workload, seed: int, until_s: float | None) -> Cluster:
    """The cluster with the faults of its rates in addition to its own, as long as requests arrive."""
    for fault in cluster.faults:
        problem = fault_error(fault, cluster)
        if problem:
            raise ScenarioError(f"cluster.faults: {problem}")
    if not cluster.fault_rates:
        return cluster
    if workload.lanes is not None:
        until_s = seconds(workload.lanes.duration + workload.lanes.grace)
    if until_s is None:
        if workload.concurrency or workload.after_offsets is not None:
            raise ScenarioError(
                "cluster.fault_rates: the arrivals of this workload follow its answers, so that their end is not known "
                "before; give until_s, as in 3600"
            )
        until_s = seconds(int(workload.arrival[-1])) if len(workload) else 0.0
    more = faults(cluster.fault_rates, cluster.replicas, seed, until_s)
    return replace(cluster, faults=cluster.faults + more, fault_rates=())


def fault_error(fault: Fault, cluster: Cluster) -> str:
    """The error in a fault; empty if there is none."""
    if not 0 <= fault.replica < cluster.replicas:
        return f"replica {fault.replica} does not exist; the cluster has 0 to {cluster.replicas - 1}"
    if fault.for_s < 0:
        return f"for_s {fault.for_s:g} of a {fault.kind} is below 0; give the seconds, or 0 for the rest of the run"
    devices = cluster.pools[cluster.pool_of(fault.replica)].devices
    if not 1 <= fault.devices <= devices:
        return f"replica {fault.replica} has {devices} devices, of which {fault.devices} cannot be lost; give 1 or more"
    if fault.kind in ("slow", "link_slow") and fault.factor <= 1:
        return f"factor {fault.factor:g} of a {fault.kind} must be above 1; give how many times as long it takes"
    if fault.kind == "link_lost" and not fault.for_s:
        return "for_s 0 of a link_lost must be above 0, for what is on the link waits for it; give the seconds"
    return ""
