"""A run cut into bins of time: its figures over the whole are those of the run, over a choice of bins those of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.spec import Slo
from poise.core.units import SECOND
from poise.report.blocks import BINS, REQUESTS, Bins, bins_of, cut
from poise.report.latency import column, nearest_rank
from poise.report.metrics import measure

from .queues import mm1, run_of
from .runs import Row, a_cluster, a_run

SLO = Slo(e2e_s=1.0)


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=3000), st.integers(0, 10**15))
def test_bins_are_equal_a_power_of_two_and_filled_on_average(stamps, since):
    instants = np.array(stamps)
    bins = bins_of(instants, since)
    later = instants[instants >= since]
    if bins is None:
        assert not len(later) or later.max() == max(since, instants.min())
        return
    assert bins.start == max(since, instants.min())
    assert bins.count <= BINS and bins.count & (bins.count - 1) == 0
    assert bins.count == 1 or len(later) >= REQUESTS * bins.count
    place = bins.of(instants)
    assert place.min() >= 0 and place.max() < bins.count
    assert (np.diff(place[np.argsort(instants)]) >= 0).all()


def test_bins_have_a_length():
    bins = Bins(0, 8 * SECOND, 4)
    assert bins.seconds == 2.0
    assert bins.of(np.array([-1, 0, 2 * SECOND, 5 * SECOND, 8 * SECOND, 99 * SECOND])).tolist() == [0, 0, 0, 2, 3, 3]


@pytest.mark.parametrize("requests", [40, 200, 1000, 5000])
def test_every_bin_once_is_the_run_itself(requests):
    run = run_of(*mm1(1, requests, 0.6)[:2])
    figures = measure(run, a_cluster(price=2.0), SLO).as_dict()
    stamps = column(run.records.arrived_at)
    bins = bins_of(stamps, 0)
    blocks = cut(run, SLO, stamps, bins)
    once = np.ones((2, blocks.bins))
    for (name,), sample in blocks.resample("", figures, once).items():
        assert sample.values == pytest.approx(figures[name]), name
    e2e = blocks.resample("e2e_s", figures, once)
    assert e2e["e2e_s", "mean"].values == pytest.approx(figures["e2e_s"]["mean"])
    ordered = np.sort(column(run.records.ended_at) - stamps) / SECOND
    for percent in (50, 90, 95, 99):
        found = e2e["e2e_s", f"p{percent}"].values[0]
        group = 1 + (0.009 if percent <= 90 else 0.002) * requests  # the most neighbours that are counted together
        low, high = (int(np.clip(percent / 100 * requests + way * group, 0, requests - 1)) for way in (-1, 1))
        assert ordered[low] <= found <= ordered[high], percent


@settings(max_examples=40)
@given(st.lists(st.integers(0, 3), min_size=8, max_size=8).filter(any), st.integers(0, 100))
def test_a_choice_of_bins_is_a_run_of_their_requests(times, seed):
    """Weighted sums against the slow way: every request as often as its bin."""
    stamps, sojourns, _ = mm1(seed, 40, 0.7)
    run = run_of(stamps, sojourns)
    figures = measure(run, a_cluster(), SLO).as_dict()
    bins = Bins(0, int(column(run.records.arrived_at).max()), 8)
    blocks = cut(run, SLO, column(run.records.arrived_at), bins)
    weights = np.array([times, times], dtype=float)
    often = np.array(times)[bins.of(column(run.records.arrived_at))]
    taken = np.repeat(column(run.records.ended_at) - column(run.records.arrived_at), often)
    if not len(taken):
        return
    resampled = blocks.resample("", figures, weights) | blocks.resample("e2e_s", figures, weights)
    assert resampled["slo_attainment",].values[0] == pytest.approx((taken <= SECOND).mean())
    assert resampled["e2e_s", "mean"].values[0] == pytest.approx(taken.mean() / SECOND)
    for percent, exact in zip((50, 90), nearest_rank(taken, (50, 90)), strict=True):
        assert resampled["e2e_s", f"p{percent}"].values[0] <= exact / SECOND + 1e-9  # on the line up to that rank


def test_warm_up_and_losses_count_as_they_do_in_the_figures():
    rows = [Row(0.5, 0.5, 1.0, 1.2, output=2), Row(2.0, 2.0, 2.5, 2.7, prompt=10, cached=5, output=3), Row(3.0)]
    run = a_run(rows)
    stamps = column(run.records.arrived_at)
    blocks = cut(run, SLO, stamps, Bins(1 * SECOND, 3 * SECOND, 2), warmup_s=1.0)
    assert blocks.sums["counted"].tolist() == [0, 2] or blocks.sums["counted"].tolist() == [1, 1]
    assert blocks.sums["counted"].sum() == 2 and blocks.sums["finished"].sum() == blocks.sums["met"].sum()
    assert (blocks.sums["prompt"].sum(), blocks.sums["cached"].sum(), blocks.sums["output"].sum()) == (10, 5, 3)


def test_no_request_leaves_no_bins():
    assert bins_of(np.array([], dtype=np.int64), 0) is None and bins_of(np.array([5, 5]), 5) is None
