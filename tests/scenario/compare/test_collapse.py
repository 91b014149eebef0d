"""The search for the collapse against thresholds that are known, and what is said of it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.spec import Slo
from poise.experiment.search import CLOSE, FAR
from poise.report.intervals import Interval
from poise.scenario.compare.collapse import Collapse, Probe, between, collapse, probe

SLO = Slo(ttft_s=1.0)


def searched(threshold: float, loads: list[float]) -> Collapse:
    """What the search comes to when exactly the loads up to `threshold` are carried, begun with `loads`."""
    probes = [_judged(load, threshold) for load in loads]
    while (load := collapse(probes).next_at()) is not None:
        assert load not in [each.load for each in probes] and len(probes) < 60
        probes.append(_judged(load, threshold))
    return collapse(probes)


def _judged(load: float, threshold: float) -> Probe:
    return Probe(load, Interval(1.0, 0.0), Interval(0.0), "" if load <= threshold else "too much")


@given(st.floats(0.01, 100), st.lists(st.floats(0.01, 100), min_size=1, max_size=4, unique=True))
def test_the_search_closes_in_on_the_threshold(threshold: float, loads: list[float]) -> None:
    found = searched(threshold, loads)
    assert found.carried is not None and found.beyond is not None and found.load is not None
    assert found.carried.load <= threshold < found.beyond.load <= found.carried.load * CLOSE
    assert found.load == pytest.approx(threshold, rel=CLOSE - 1)
    assert found.range == (found.carried.load, found.beyond.load)
    share, least, most = found.distance
    assert share is not None and least is not None and most is not None
    assert least <= share <= most and least <= 1 / threshold * (1 + 1e-9) and 1 / threshold <= most * (1 + 1e-9)


@pytest.mark.parametrize("threshold", [0.0, math.inf])
def test_the_search_for_what_is_not_there_ends(threshold: float) -> None:
    found = searched(threshold, [1.0])
    assert found.load is None and found.next_at() is None
    ends = [each.load for each in found.probes]
    assert FAR / 2 <= max(ends) <= FAR if threshold else 1 / FAR <= min(ends) <= 2 / FAR


def test_the_range_is_of_the_loads_that_are_sure() -> None:
    probes = [
        Probe(1.0, Interval(1.0, 0.01), Interval(0.0)),
        Probe(2.0, Interval(0.92, 0.1), Interval(0.0), sure=False),
        Probe(2.1, Interval(0.88, 0.1), Interval(0.0), "SLO met by 88 %", sure=False),
        Probe(4.0, Interval(0.1, 0.05), Interval(0.3), "SLO met by 10 %"),
    ]
    found = collapse(probes[::-1])
    assert found.range == (1.0, 4.0)
    assert found.load == pytest.approx((2.0 * 2.1) ** 0.5)
    assert found.distance == (pytest.approx(1 / 4.2**0.5), 0.25, 1.0)


def test_a_load_that_is_carried_above_one_that_is_not_does_not_count() -> None:
    found = collapse([_judged(1.0, 9), _judged(2.0, 0), _judged(3.0, 9)])
    assert found.carried is not None and found.carried.load == 1.0
    assert found.beyond is not None and found.beyond.load == 2.0


@pytest.mark.parametrize(
    ("met", "growth", "carried", "sure"),
    [
        (Interval(0.99, 0.02), Interval(0.0), True, True),
        (Interval(0.91, 0.02), Interval(0.0), True, False),  # the interval reaches below the target
        (Interval(0.89, 0.02), Interval(0.0), False, False),
        (Interval(0.80, 0.02), Interval(0.0), False, True),
        (Interval(0.80, None), Interval(0.0), False, False),  # too short to say
        (Interval(0.99, 0.02), Interval(0.2), False, True),
        (Interval(0.99, 0.02), Interval(0.2, 0.3), True, True),  # chance alone may have made the queue grow
        (Interval(0.80, 0.02), Interval(0.2, 0.3), False, True),  # one of two reasons is sure
        (Interval(0.99, 0.02), Interval(0.04, 0.03), True, True),  # the SLO says enough
        (Interval(0.99, 0.02), Interval(None), True, True),  # nothing known of the queue
    ],
)
def test_a_load_is_judged_by_slo_and_queue(met: Interval, growth: Interval, carried: bool, sure: bool) -> None:
    found = probe(1.0, met, growth, SLO, 0.9)
    assert found is not None and (not found.why, found.sure) == (carried, sure)


def test_without_an_slo_the_queue_alone_decides() -> None:
    found = probe(1.0, Interval(0.2, 0.01), Interval(0.01), Slo(), 0.9)
    assert found is not None and not found.why and found.sure
    doubtful = probe(1.0, Interval(0.2, 0.01), Interval(0.01, 0.05), Slo(), 0.9)
    assert doubtful is not None and not doubtful.why and not doubtful.sure
    growing = probe(1.0, Interval(0.2, 0.01), Interval(0.2, 0.3), Slo(), 0.9)
    assert growing is not None and growing.why and not growing.sure
    assert probe(1.0, Interval(0.2, 0.01), Interval(None), Slo(), 0.9) is None


@pytest.mark.parametrize(
    ("ends", "expected"),
    [((0.5, 0.7), "0.5 to 0.7"), ((0.5, None), "above 0.5"), ((None, 0.7), "below 0.7"), ((None, None), "unknown")],
)
def test_ranges_in_words(ends: tuple[float | None, float | None], expected: str) -> None:
    assert between(ends) == expected
