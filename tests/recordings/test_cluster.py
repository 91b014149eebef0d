"""The cluster of a gateway's recording: what its engines said of themselves, and none in slots that stayed empty."""

from __future__ import annotations

from poise.core.spec import Fault, ReplicaSpec
from poise.recordings.cluster import cluster_of, present

ENGINE = ReplicaSpec(up=False, capacity_tokens=4096, cache_tokens=5120, blocks=160)
SLOT = ReplicaSpec(up=False)
FAULTS = (Fault(0.1, "join", 0), Fault(0.2, "join", 1))


def test_blocks_are_as_large_as_the_engine_has_them() -> None:
    cluster, _ = cluster_of([ENGINE, ENGINE], {}, FAULTS)
    assert [(pool.engine.block_tokens, pool.engine.kv_blocks) for pool in cluster.pools] == [(32, 160)] * 2


def test_empty_slots_are_no_replicas() -> None:
    slots = [ENGINE, ENGINE, SLOT, SLOT]
    assert present(slots, FAULTS) == [0, 1]
    cluster, specs = cluster_of(slots, {}, FAULTS, count=3)
    assert [spec.cache_tokens for spec in specs] == [5120] * 3 and specs[2].up
    assert cluster.faults == FAULTS
    assert len(cluster_of(slots, {}, FAULTS)[1]) == 4, "as recorded they keep their numbers"
