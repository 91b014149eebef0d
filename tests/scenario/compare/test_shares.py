"""Coverage of shares of M/M/1, where the truth is known: their own and of two policies, near 0 and 1 too.

Nominally 5 % of the intervals miss the truth. Those of shares near 0 and 1 are wider on purpose, so that fewer do.
"""

from __future__ import annotations

import pytest

from poise.report.figures import ATTAINMENT

from ...report.queues import band, quantile
from .planted import comparison

SLOWER = 1.1


def missed(trials: int, requests: int, seeds: int, load: float, share: float) -> tuple[int, int]:
    """How often the intervals of a share, and of the difference to a slower policy, miss the truth."""
    limit = quantile(load, share)
    truth = share, 1 - (1 - share) ** (1 / SLOWER) - share
    misses = [0, 0]
    for key in range(trials):
        found = comparison(key, requests, SLOWER, seeds=seeds, load=load, slo_s=limit)
        interval = found.interval("A", ATTAINMENT.name), found.interval("B", ATTAINMENT.name, against="A")
        for at, (each, true) in enumerate(zip(interval, truth, strict=True)):
            assert each.low is not None and each.high is not None
            misses[at] += not each.low <= true <= each.high
    return misses[0], misses[1]


@pytest.mark.parametrize(
    ("requests", "seeds"), [pytest.param(3_000, 1, id="recording"), pytest.param(600, 5, id="seeds")]
)
@pytest.mark.parametrize("share", [0.5, 0.999])
def test_intervals_cover_the_truth(requests: int, seeds: int, share: float) -> None:
    most = band(40, 0.05)[-1]
    assert max(missed(40, requests, seeds, 0.5, share)) <= most


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.01, 0.5, 0.9, 0.99, 0.999])
@pytest.mark.parametrize(
    ("requests", "seeds", "load"),
    [
        pytest.param(1_000, 1, 0.3, id="a short recording"),
        pytest.param(3_000, 1, 0.5, id="a recording"),
        pytest.param(3_000, 1, 0.8, id="a recording of a busy queue"),
        pytest.param(10_000, 1, 0.8, id="a long recording of a busy queue"),
        pytest.param(1_000, 3, 0.5, id="three seeds"),
        pytest.param(1_000, 5, 0.8, id="five seeds of a busy queue"),
    ],
)
def test_intervals_cover_the_truth_at_any_load(requests: int, seeds: int, load: float, share: float) -> None:
    assert max(missed(300, requests, seeds, load, share)) <= band(300, 0.05)[-1]


def test_all_of_many_requests_that_met_it_are_no_certainty() -> None:
    """At load 0.3 nobody of 1,000 waits for 40 times the mean, nor did under the other policy."""
    found = comparison(1, 1_000, 1.0, load=0.3, slo_s=40.0)
    alone, gap = found.interval("A", ATTAINMENT.name), found.interval("B", ATTAINMENT.name, against="A")
    assert alone.value == 1.0 and alone.half is not None and 3.8 / 1_000 < alone.half < 0.05
    assert gap.value == 0.0 and gap.half is not None and gap.half >= 3.8 / 1_000 and not gap.apart
    assert found.result("A", 1.0)["interval"]["slo_attainment"] == alone.half


def test_seeds_that_all_met_it_are_no_certainty_in_tables_either() -> None:
    found = comparison(1, 600, 1.0, seeds=3, load=0.3, slo_s=40.0)
    half = found.interval("A", ATTAINMENT.name).half
    assert half is not None and 3.8 / 1_800 < half < 0.05
    assert found.result("A", 1.0)["interval"]["slo_attainment"] == half


def test_a_share_that_all_seeds_saw_both_kinds_of_is_as_sharp_as_the_seeds() -> None:
    found = comparison(1, 600, 1.0, seeds=5, load=0.5, slo_s=quantile(0.5, 0.5))
    interval = found.interval("A", ATTAINMENT.name)
    t = 2.776  # Student's, of 4 degrees of freedom
    assert interval.half == pytest.approx(t * interval.error, rel=0.05)
