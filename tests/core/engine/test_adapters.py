"""Slots for adapters by hand: who may run, who leaves the device, what a step takes longer."""

from __future__ import annotations

import pytest

from poise.core.engine.replica import Replica
from poise.core.errors import PolicyError
from poise.core.policy import IdleAdapter
from poise.core.request import Sequence
from poise.core.spec import Engine
from poise.core.units import NEVER
from poise.policies import Policies
from poise.testing import a_request
from poise.testing.cost import LinearAdapters, LinearCost

STEP = 10**10


def a_replica_of(slots: int, host: int = 0, cache: object = None, **times: float) -> Replica:
    engine = Engine(max_loras=slots, max_cpu_loras=host, prefix_caching=False)
    policies = Policies(cache=cache).for_engine()  # type: ignore[arg-type]
    return Replica(engine, LinearCost(step_s=0.01), 1000, policies, adapters=LinearAdapters(**times))


def add(replica: Replica, *adapters: int, output: int = 2, at: int = 0) -> None:
    for adapter in adapters:
        number = len(replica.sequences) + replica.stats.batches * 100
        replica.add(Sequence(a_request(id=number, prompt_tokens=1, ids=(), lora=adapter), output), at)


def drive(replica: Replica) -> int:
    """Run until nothing is left; the instant of the last turn."""
    now = 0
    while replica.next_at < NEVER:
        now = replica.next_at
        replica.turn(now)
        assert replica.adapters is not None
        replica.adapters.check()
    return now


def test_a_request_whose_adapter_finds_no_slot_is_overtaken_by_one_that_needs_none() -> None:
    replica = a_replica_of(1)
    add(replica, 0, 1, 0, -1)
    replica.turn(0)
    assert replica.running == 3 and [each.request.lora for each in replica.waiting] == [1]
    assert drive(replica) == 4 * STEP, "two steps for the first three, two for the other"


def test_a_load_lengthens_one_step_and_reading_each() -> None:
    """Adapter 1 loads for 2 · (3 + 50) ms from disk and is read for 2 · 1 ms in each of two steps."""
    replica = a_replica_of(1, load_s=0.003, disk_s=0.05, read_s=0.001)
    add(replica, 1)
    assert drive(replica) == 2 * STEP + 2 * 53 * 10**9 + 2 * 2 * 10**9
    add(replica, 1, at=replica.space.now)
    before = replica.next_at
    assert drive(replica) - before == 2 * STEP + 2 * 2 * 10**9, "it is on the device already"


def test_the_least_recently_used_leaves_the_device_and_then_the_host() -> None:
    replica = a_replica_of(2, host=3)
    slots = replica.adapters
    assert slots is not None
    for adapter in (0, 1, 0, 2):
        add(replica, adapter, at=replica.space.now)
        drive(replica)
    assert (slots.device, slots.host, slots.loads, slots.disk_loads) == ({0, 2}, {0, 1, 2}, 3, 3)
    add(replica, 1, at=replica.space.now)
    drive(replica)
    assert (slots.device, slots.loads, slots.disk_loads) == ({1, 2}, 4, 3), "from host memory this time"
    add(replica, 3, at=replica.space.now)
    drive(replica)
    assert (slots.device, slots.host) == ({1, 3}, {1, 2, 3}), "0 was idle for longest"


def test_a_policy_chooses_who_leaves() -> None:
    class Keeps:
        def cache(self, request: object, sequence: object, lane: object) -> int:
            return 0

        def evict_adapter(self, idle: list[IdleAdapter], now: int) -> int:
            shown.append([(each.id, each.uses, each.load) for each in idle])
            return self.choice

        choice = 1

    shown: list[list[tuple[int, int, int]]] = []
    replica = a_replica_of(2, host=9, cache=Keeps(), load_s=0.001)
    for adapter in (0, 0, 1, 2):
        add(replica, adapter, at=replica.space.now)
        drive(replica)
    assert replica.adapters is not None and replica.adapters.device == {0, 2}
    assert shown == [[(0, 2, 10**9), (1, 1, 2 * 10**9)]]
    add(replica, 3, at=replica.space.now)
    with pytest.raises(PolicyError, match="evicts adapter 1, which is not idle here"):
        drive(replica)


def test_a_preloaded_adapter_takes_no_time() -> None:
    replica = a_replica_of(1, host=2, load_s=0.003, disk_s=1.0)
    assert replica.adapters is not None
    for adapter in (0, 1):
        replica.adapters.preload(adapter)
    assert (replica.adapters.device, replica.adapters.host) == ({0}, {0, 1})
    add(replica, 0)
    assert drive(replica) == 2 * STEP
