"""Replicas stand on hosts: every device is used once, hosts hold one kind, ports are apart."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given

from poise.core.errors import UserError
from poise.core.spec import Pool
from poise.plan.deploy.place import STEP, host_devices, label, places, pool_labels, spread
from poise.plan.fleet import Fleet
from tests.plan.deploy.fleets import a_pool, a_setting, fleets

DNS = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


@given(fleets())
def test_every_device_is_used_once(fleet: Fleet) -> None:
    setting, used = a_setting(), defaultdict(list)
    kinds: dict[str, set[str]] = defaultdict(set)
    placed = places(fleet, setting)
    for each in placed:
        pool = fleet.pools[each.pool]
        assert len(each.hosts) * len(each.devices) == pool.devices
        for host in each.hosts:
            used[host] += each.devices
            kinds[host].add(pool.device.name)
            assert max(each.devices) < host_devices(pool.device, setting)
    assert all(len(devices) == len(set(devices)) for devices in used.values())
    assert sum(map(len, used.values())) == fleet.devices
    assert all(len(each) == 1 for each in kinds.values())
    assert len(placed) == fleet.replicas == len({each.name for each in placed})


@given(fleets())
def test_ports_are_apart(fleet: Fleet) -> None:
    setting = a_setting()
    taken = sorted((host, each.port) for each in places(fleet, setting) for host in each.hosts)
    for (host, port), (other, following) in pairwise(taken):
        assert host != other or following - port >= STEP
    assert all(port > setting.gateway_port + 1 and port + STEP <= 65536 for _, port in taken)


@given(fleets())
def test_names_are_dns_labels(fleet: Fleet) -> None:
    made = pool_labels(fleet)
    assert len(set(made)) == len(made) and "engines" not in made
    assert all(DNS.fullmatch(each) and len(each) <= 31 for each in made)


@pytest.mark.parametrize(
    ("text", "made"), [("H100-SXM-80GB", "h100-sxm-80gb"), ("9 Ü", "p-9"), ("", "p"), ("--", "p"), ("a" * 40, "a" * 28)]
)
def test_a_label(text: str, made: str) -> None:
    assert label(text) == made and DNS.fullmatch(made)


@pytest.mark.parametrize(
    ("pool", "hosts"),
    [
        (a_pool(tensor=8), 1),
        (a_pool(tensor=8, pipeline=2), 2),
        (a_pool("llama-3.1-70b", "GB200", tensor=8), 2),
        (a_pool("deepseek-v3", data=16, expert=16), 2),
        (a_pool("deepseek-v3", tensor=2, data=8, expert=16), 2),
    ],
)
def test_replicas_wider_than_a_host(pool: Pool, hosts: int) -> None:
    assert spread(pool, a_setting()) == hosts


def test_one_host_is_this_one_and_several_have_names() -> None:
    assert {each.head for each in places(Fleet((a_pool(replicas=8),)), a_setting())} == {"127.0.0.1"}
    several = places(Fleet((a_pool(replicas=9),)), a_setting())
    assert [each.head for each in several] == ["h100-sxm-80gb-0"] * 8 + ["h100-sxm-80gb-1"]
    assert [each.port for each in several[-2:]] == [8100 + 7 * STEP, 8100]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"hosts": ("a",)}, "hosts names 1, and the plan fills 2: 2 with H100-SXM-80GB; name as many"),
        ({"hosts": ("a", "a")}, "hosts names one twice"),
        ({"port": 64000}, "give one from 1024 on"),
        ({"port": 80}, "give one from 1024 on"),
        ({"port": 7500}, "the gateway's 8000 lies in its range"),
    ],
)
def test_a_mistake_is_named(given: dict[str, object], message: str) -> None:
    with pytest.raises(UserError) as error:
        places(Fleet((a_pool(replicas=9),)), a_setting(**given))
    assert message in str(error.value)


def test_a_data_rank_stays_on_a_host() -> None:
    with pytest.raises(UserError, match="a data rank of 8 GB200 is wider than a host of 4"):
        spread(a_pool("deepseek-v3", "GB200", tensor=8, data=2, expert=16), a_setting())
