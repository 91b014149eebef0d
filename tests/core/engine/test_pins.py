"""Pins hold prefix extents until they expire, their session comes back, or room is needed."""

from __future__ import annotations

from poise.core.engine.kv_pool import KvPool
from poise.core.engine.pins import Pins
from poise.core.engine.runs import Run
from poise.core.units import NEVER
from tests.core.blocks import idle
from tests.core.engine.test_kv_pool import a_sequence, computed


def pinned(pool: KvPool, pins: Pins, session: int, extent: int, until: int) -> list[Run]:
    sequence = computed(pool, a_sequence(extent, (extent, 4)), 4)
    pool.explicit -= pool.private(sequence)
    nodes = pool.release(sequence)
    pins.add(session, nodes, until)
    return nodes


def test_pins_leave_in_the_order_of_their_ends() -> None:
    pool = KvPool(100, 2, True)
    pins = Pins(pool)
    assert pins.next_at == NEVER
    for session, until in ((1, 30), (2, 10), (3, 20)):
        pinned(pool, pins, session, session, until)
    assert (pins.next_at, pool.held, pool.cached) == (10, 6, 0)
    for left, at in ((2, 20), (1, 30), (0, NEVER)):
        pins.drop_first()
        assert (pool.held, pins.next_at) == (2 * left, at)
    assert idle(pool) == [2, 3, 1]
    pool.check(0)


def test_a_session_has_one_pin_and_lets_it_go_when_it_is_back() -> None:
    pool = KvPool(100, 2, True)
    pins = Pins(pool)
    pinned(pool, pins, 5, 1, 10)
    pinned(pool, pins, 5, 2, 20)
    assert {extent for extent, node in pool.nodes.items() if node.refs} == {2}, (
        "the later pin takes the earlier one's place"
    )
    pins.release(5)
    pins.release(5)
    assert pool.held == 0
    while pins.heap:
        pins.drop_first()
    assert (pool.held, pool.cached) == (0, 4)
    pool.check(0)


def test_pins_of_no_session_are_independent() -> None:
    pool = KvPool(100, 2, True)
    pins = Pins(pool)
    pinned(pool, pins, -1, 1, 10)
    pinned(pool, pins, -1, 2, 20)
    assert pool.held == 4
    pins.release(-1)
    assert pool.held == 4
