"""Transfers that share links: max-min fair, never above a link's capacity, and each ends with all its bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from poise.core.units import SECOND
from poise.sim.step.flows import Flows

PATHS = st.lists(st.sets(st.integers(0, 4), min_size=1, max_size=3).map(tuple), min_size=1, max_size=8)
SPEEDS = st.lists(st.floats(1.0, 1e3), min_size=5, max_size=5)


@given(PATHS, SPEEDS)
def test_the_share_is_max_min_fair(paths: list[tuple[int, ...]], speeds: list[float]) -> None:
    flows = Flows(speeds)
    for number, path in enumerate(paths):
        flows.start(0, number, 1e9, path)
    rates = {flow: rate * SECOND for flow, rate in flows.rate.items()}
    used = [sum(rate for flow, rate in rates.items() if link in paths[flow]) for link in range(5)]
    assert all(each <= speed * (1 + 1e-9) for each, speed in zip(used, speeds, strict=True))
    for flow, rate in rates.items():  # whoever would have more would take it from someone who has no more than he
        assert any(
            used[link] >= speeds[link] * (1 - 1e-9)
            and rate >= max(rates[other] for other in rates if link in paths[other]) * (1 - 1e-9)
            for link in paths[flow]
        )


@given(PATHS, SPEEDS, st.lists(st.floats(1.0, 1e4), min_size=8, max_size=8))
def test_all_bytes_arrive(paths: list[tuple[int, ...]], speeds: list[float], sizes: list[float]) -> None:
    flows, due, sent = Flows(speeds), dict[int, int](), dict[int, float]()
    for number, (path, size) in enumerate(zip(paths, sizes, strict=False)):
        due |= flows.start(number * SECOND // 10, number, size, path)
        sent[number] = 0.0
    now = len(paths) * SECOND // 10
    while flows.paths:
        flow = min(flows.paths, key=lambda each: (due[each], each))
        assert due[flow] >= 0
        now = max(now, due[flow])
        left = flows.left[flow] - flows.rate[flow] * (due[flow] - flows.since[flow])
        assert abs(left) <= flows.rate[flow] + 1e-9 * sizes[flow]  # to a picosecond
        due |= flows.end(now, flow)


def test_two_on_one_link_and_the_room_that_one_leaves() -> None:
    flows = Flows([10.0, 100.0])
    assert flows.start(0, 0, 10.0, (0, 1)) == {0: SECOND}
    assert flows.start(0, 1, 10.0, (0, 1)) == {0: 2 * SECOND, 1: 2 * SECOND}
    assert flows.start(0, 2, 90.0, (1,))[2] == SECOND  # the two are held to 10 by the first link
    assert flows.end(SECOND, 2) == {0: 2 * SECOND, 1: 2 * SECOND}
    assert flows.end(SECOND, 0) == {1: SECOND + SECOND // 2}  # 5 bytes are left, at 10 a second
