"""Two pools: what is left after losses, what waits and is served later, and devices that follow the load."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.cost.expert_as_a_service import Outage, Pools, devices, edges, served, served_whole, spared

POOLS = Pools(clients=8, servers=16, client_rate=100.0, server_rate=50.0)

outages = st.lists(st.builds(Outage, st.floats(0, 900), st.floats(0, 300)), max_size=8)


def test_a_lost_server_takes_its_part_of_the_rate() -> None:
    assert POOLS.rate() == 800
    assert POOLS.rate(1) == 800 * 15 / 16
    assert POOLS.rate(2) == 0 and replace(POOLS, copies=1).rate(1) == 0
    assert replace(POOLS, clients=4).rate(1) == 400  # clients bind


@given(outages, st.floats(1, 1000))
def test_parts_are_parts_and_pools_are_no_worse_than_a_group(lost: list[Outage], offered: float) -> None:
    pools = served(POOLS, lost, offered, 1000)
    whole = served_whole(POOLS.rate(), lost, offered, 1000)
    assert 0 <= whole - 1e-9 <= pools + 1e-9 <= 1 + 1e-6
    assert pools <= POOLS.rate() / offered + 1e-9
    assert edges(lost, 1000) == sorted(set(edges(lost, 1000)))


def test_what_waits_is_served_later() -> None:
    """Half loaded: 100 s without a device leave nothing behind; fully loaded they leave a tenth."""
    lost = [Outage(100, 100)]
    assert served_whole(800, lost, 400, 1000) == pytest.approx(1)
    assert served_whole(800, lost, 800, 1000) == pytest.approx(0.9)
    assert served(POOLS, lost, 800, 1000) == pytest.approx(1 - 0.1 / 16)


def test_devices_follow_the_load() -> None:
    assert devices([0, 90, 100, 101, 450], 100, 1) == [1, 1, 1, 2, 5]
    assert devices([0, 90, 100, 101, 450], 100, 4) == [4, 4, 4, 4, 8]


@given(st.lists(st.floats(1, 5000), min_size=1, max_size=50), st.integers(1, 64))
def test_one_by_one_takes_at_most_a_device_more(loads: list[float], group: int) -> None:
    whole = sum(devices(loads, 1 / (1 / 100 + 1 / 50), group))
    assert -2 * len(loads) / whole - 1e-9 <= spared(loads, 100, 50, group) < 1  # each pool rounds up once


def test_what_cannot_be() -> None:
    with pytest.raises(UserError, match="copies"):
        replace(POOLS, copies=17)
    with pytest.raises(UserError, match="above 0"):
        replace(POOLS, clients=0)
    with pytest.raises(UserError, match="above 0"):
        devices([1], 0, 1)
