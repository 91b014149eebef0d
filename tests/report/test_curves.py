"""Thinned lines keep what is quoted of them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.records.records import ReplicaStats
from poise.core.units import SECOND, ps
from poise.report.curves import MOMENTS, POINTS, cdf, latency_curves, replica_curves, thinned
from poise.report.latency import PERCENTILES, nearest_rank
from tests.depth import examples

from .runs import Row, a_run


@given(st.integers(1, 5000), st.integers(0, 2**32 - 1))
def test_a_distribution_is_small_exact_and_holds_the_quoted_percentiles(count, seed):
    values = np.random.default_rng(seed).integers(0, 10**13, count)
    xs, shares = cdf(values)
    assert len(xs) == len(shares) <= POINTS
    assert xs == sorted(xs)
    assert shares == sorted(shares)
    ordered = np.sort(values)
    for x, share in zip(xs, shares, strict=True):
        assert x == ordered[round(share * count) - 1] / SECOND
    assert {value / SECOND for value in nearest_rank(values)} <= set(xs)
    assert (xs[0], xs[-1], shares[-1]) == (ordered[0] / SECOND, ordered[-1] / SECOND, 1.0)
    for percent in PERCENTILES:
        assert -(-percent * count // 100) / count in shares


def test_no_finished_request_has_empty_distributions():
    assert latency_curves(a_run([])) == {"ttft_s": ([], []), "tpot_s": ([], []), "e2e_s": ([], [])}


def test_warm_up_is_left_out_of_distributions():
    rows = [Row(0.0, 0.0, 4.0, 5.0, output=2), Row(2.0, 2.0, 3.0, 5.0, output=2)]
    assert latency_curves(a_run(rows), warmup_s=1.0)["ttft_s"] == ([1.0], [1.0])


def test_a_short_timeline_is_kept_as_it_is():
    samples = [(ps(0), 0, 1, 2, 5), (ps(1), 1, 7, 8, 10), (ps(2), 0, 3, 4, 0)]
    run = a_run([], replicas=[ReplicaStats(total_blocks=10), ReplicaStats(total_blocks=20)], samples=samples)
    curves = replica_curves(run)
    assert curves["waiting"]["replica 0"] == ([0.0, 1.0, 2.0], [1.0, 1.0, 3.0]), "holds until it changes"
    assert curves["kv"]["replica 0"] == ([0.0, 1.0, 2.0], [0.5, 0.5, 0.0])
    xs, ys = curves["running"]["replica 1"]
    assert xs == [0.0, 1.0, 2.0]
    assert math.isnan(ys[0])
    assert ys[1:] == [8.0, 8.0]


def test_a_replica_that_left_has_no_line_after():
    run = a_run([], samples=[(0, 0, 5, 0, 0), (ps(1), 1, 1, 0, 0), (ps(2), 1, 2, 0, 0)])
    run.replicas = [ReplicaStats(up_until=ps(1)), ReplicaStats()]
    _, ys = replica_curves(run)["waiting"]["replica 0"]
    assert ys[:2] == [5.0, 5.0]
    assert math.isnan(ys[2])


@pytest.mark.deep
@settings(max_examples=examples(100))
@given(st.lists(st.integers(0, 1000), min_size=MOMENTS + 1, max_size=3 * MOMENTS), st.integers(1, 10**12))
def test_thinning_a_timeline_keeps_its_peaks(waiting, step):
    run = a_run([], samples=[(at * step, 0, value, 0, 0) for at, value in enumerate(waiting)], until=1000.0)
    xs, ys = replica_curves(run)["waiting"]["replica 0"]
    assert len(xs) <= MOMENTS
    assert max(ys) == max(waiting)
    assert set(ys) <= set(waiting)


def test_a_sample_after_the_end_is_left_out():
    run = a_run([], samples=[(0, 0, 1, 1, 1), (ps(10), 0, 2, 1, 1), (ps(11), 0, 3, 1, 1)])
    assert replica_curves(run)["waiting"]["replica 0"] == ([0.0, 10.0], [1.0, 2.0])


@given(st.integers(1, 2000), st.integers(10, 300), st.integers(0, 2**32 - 1))
def test_a_distribution_thinned_again_keeps_its_ends_and_the_quoted_percentiles(count, points, seed):
    values = np.random.default_rng(seed).integers(0, 10**13, count)
    whole, (xs, shares) = cdf(values), thinned(cdf(values), points)
    assert len(xs) == len(shares) <= max(points + 1, 7)
    assert set(zip(xs, shares, strict=True)) <= set(zip(*whole, strict=True))
    assert (xs[0], xs[-1], shares[-1]) == (whole[0][0], whole[0][-1], 1.0)
    assert {value / SECOND for value in nearest_rank(values)} <= set(xs)


def test_no_samples_no_timeline():
    assert replica_curves(a_run([])) == {}


def test_a_cdf_of_a_million_keeps_exact_percentiles():
    values = np.random.default_rng(1).integers(0, 10**13, 1_000_000)
    xs, shares = cdf(values)
    at = dict(zip(shares, xs, strict=True))
    assert [at[p / 100] for p in PERCENTILES] == pytest.approx([v / SECOND for v in nearest_rank(values)], rel=0)
