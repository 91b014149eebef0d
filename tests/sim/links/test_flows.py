"""Transfers that share links: max-min fair, never above a link's capacity, and each ends with all its bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from poise.core.units import SECOND
from poise.sim.links import Flows

PATHS = st.lists(st.sets(st.integers(0, 4), min_size=1, max_size=3).map(tuple), min_size=1, max_size=8)
SPEEDS = st.lists(st.floats(1.0, 1e3), min_size=5, max_size=5)


def start(flows: Flows, now: int, flow: int, size: float, path: tuple[int, ...]) -> dict[int, int]:
    """Begin a transfer; the ends of all whose rate this changes, itself among them."""
    end = flows.start(now, flow, size, path)
    return dict(flows.settle(now)) if end < 0 else {flow: end}


def end(flows: Flows, now: int, flow: int) -> dict[int, int]:
    flows.end(flow)
    return dict(flows.settle(now))


@given(PATHS, SPEEDS)
def test_the_share_is_max_min_fair(paths: list[tuple[int, ...]], speeds: list[float]) -> None:
    flows = Flows(speeds)
    for number, path in enumerate(paths):
        flows.start(0, number, 1e9, path)
    flows.settle(0)
    rates = {flow: rate * SECOND for flow, rate in flows.rate.items()}
    used = [sum(rate for flow, rate in rates.items() if link in paths[flow]) for link in range(5)]
    assert all(each <= speed * (1 + 1e-9) for each, speed in zip(used, speeds, strict=True))
    for flow, rate in rates.items():  # whoever would have more would take it from someone who has no more than he
        assert any(
            used[link] >= speeds[link] * (1 - 1e-9)
            and rate >= max(rates[other] for other in rates if link in paths[other]) * (1 - 1e-9)
            for link in paths[flow]
        )


@given(PATHS, SPEEDS)
def test_rates_do_not_depend_on_when_links_are_settled(paths: list[tuple[int, ...]], speeds: list[float]) -> None:
    """One by one, all at once, and with some that have come and gone."""
    one, all_at_once = Flows(speeds), Flows(speeds)
    for number, path in enumerate(paths):
        start(one, 0, number, 1e9, path)
        start(one, 0, 100 + number, 1e9, paths[0])
        all_at_once.start(0, number, 1e9, path)
    for number in range(len(paths)):
        end(one, 0, 100 + number)
    all_at_once.settle(0)
    assert one.rate == all_at_once.rate


@given(PATHS, SPEEDS, st.lists(st.floats(1.0, 1e4), min_size=8, max_size=8))
def test_all_bytes_arrive(paths: list[tuple[int, ...]], speeds: list[float], sizes: list[float]) -> None:
    flows, due = Flows(speeds), dict[int, int]()
    for number, (path, size) in enumerate(zip(paths, sizes, strict=False)):
        due |= start(flows, number * SECOND // 10, number, size, path)
    now = len(paths) * SECOND // 10
    while flows.paths:
        flow = min(flows.paths, key=lambda each: (due[each], each))
        assert due[flow] >= 0
        now = max(now, due[flow])
        left = flows.left[flow] - flows.rate[flow] * (due[flow] - flows.since[flow])
        assert abs(left) <= flows.rate[flow] + 1e-9 * sizes[flow]  # to a picosecond
        due |= end(flows, now, flow)


def test_two_on_one_link_and_the_room_that_one_leaves() -> None:
    flows = Flows([10.0, 100.0])
    assert start(flows, 0, 0, 10.0, (0, 1)) == {0: SECOND}
    assert start(flows, 0, 1, 10.0, (0, 1)) == {0: 2 * SECOND, 1: 2 * SECOND}
    assert start(flows, 0, 2, 90.0, (1,)) == {2: SECOND}  # the two are held to 10 by the first link
    assert end(flows, SECOND, 2) == {}
    assert end(flows, SECOND, 0) == {1: SECOND + SECOND // 2}  # 5 bytes are left, at 10 a second
