"""Rates count over the time in which requests arrived: closed forms, runs by hand, and what no figure may exceed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import poise as ps
from poise.core.records.records import ReplicaStats
from poise.core.spec import Slo
from poise.core.units import SECOND
from poise.core.units import ps as picoseconds
from poise.report.metrics import Metrics, measure
from poise.report.rates import works

from .runs import Row, a_cluster, a_run

CLUSTER = ps.Cluster.of("H100", count=1).replicas(1, model="llama-3.1-8b")


def quick(count: int, gap_s: float, *, begin: float = 0.0, output: int = 11) -> list[Row]:
    """Requests `gap_s` apart that have their first token at once and their last one a second later."""
    return [
        Row(begin + at * gap_s, begin + at * gap_s, begin + at * gap_s, begin + at * gap_s + 1, output=output)
        for at in range(count)
    ]


def test_when_all_meet_their_slo_goodput_is_what_was_offered():
    """Ten requests a second for ten seconds; one answer takes a hundred."""
    rows = quick(101, 0.1)
    rows[50] = replace(rows[50], ended=105.0)
    run = a_run(rows, until=105.0, arrivals_end=picoseconds(10))
    measured = measure(run, a_cluster(), Slo(ttft_s=1.0))
    assert measured.slo_attainment == 1.0
    assert measured.goodput_rps == measured.offered_rps == 10.0
    assert measured.window_s == 10.0 and measured.duration_s == 105.0


def test_goodput_is_the_share_that_met_the_slo_of_what_was_offered():
    rows = [replace(row, first=row.arrived + 0.5) if at % 4 else row for at, row in enumerate(quick(41, 0.25))]
    measured = measure(a_run(rows, until=30.0, arrivals_end=picoseconds(10)), a_cluster(), Slo(ttft_s=0.1))
    assert measured.goodput_rps == pytest.approx(4.0 * 11 / 41)


def test_what_is_made_in_the_drain_is_not_in_the_rates():
    """Twice what can be done: a request each half second, one served each second, ten tokens in it."""
    rows = [Row(0.5 * at, float(at), at + 0.1, at + 1.0, prompt=90, output=10) for at in range(20)]
    stats = ReplicaStats(busy=picoseconds(20), arriving=picoseconds(9.5), up_until=picoseconds(20))
    run = a_run(rows, until=20.0, arrivals_end=picoseconds(9.5), replicas=[stats])
    measured = measure(run, a_cluster(price=3600.0, tdp_w=100.0), Slo())
    assert measured.offered_rps == 2.0
    assert measured.requests_per_s == 1.0, "nine in 9.5 seconds, and 20 in 20"
    made = 9 * 100 + 90 + 1 + 9 * 4 / 9
    assert measured.total_tokens_per_s == pytest.approx(made / 9.5)
    assert measured.cost_usd_per_mtok == pytest.approx(9.5 / made * 1e6)
    assert measured.energy_j_per_mtok == pytest.approx(100 * 9.5 / made * 1e6)
    assert measured.busy_time.mean == 1.0


def test_the_idle_drain_dilutes_neither_price_nor_energy_nor_busy_time():
    """A minute in which one answer goes on after ten busy seconds."""
    rows = quick(101, 0.1)
    rows[0] = replace(rows[0], ended=70.0)
    stats = ReplicaStats(busy=picoseconds(70), arriving=picoseconds(5), up_until=picoseconds(70))
    idle = replace(stats, busy=picoseconds(5))
    long = a_run(rows, until=70.0, arrivals_end=picoseconds(10), replicas=[stats, idle])
    measured = measure(long, a_cluster(2, price=3600.0, tdp_w=10.0), Slo())
    assert measured.busy_time.per_replica == [0.5, 0.5]
    made = measured.total_tokens_per_s * 10
    assert measured.cost_usd_per_mtok == pytest.approx(2 * 10 / made * 1e6)
    assert measured.energy_j_per_mtok == pytest.approx(2 * 10 * 10 * 0.6 / made * 1e6)


def test_a_burst_that_is_worked_off_later_counts_over_the_whole_run():
    """Nothing is made in the tenth of a second in which the requests come; all at once have no time of their own."""
    for gap_s, ended in ((0.01, 0.1), (0.0, 0.0)):
        rows = [Row(at * gap_s, 0.0, 1.0 + at, 2.0 + at, prompt=50, output=50) for at in range(11)]
        stats = ReplicaStats(busy=picoseconds(6), arriving=picoseconds(ended))
        run = a_run(rows, until=12.0, arrivals_end=picoseconds(ended), replicas=[stats])
        measured = measure(run, a_cluster(), Slo())
        assert measured.window_s == (ended or 12.0)
        assert (measured.total_tokens_per_s, measured.output_tokens_per_s, measured.requests_per_s) == (
            1100 / 12,
            550 / 12,
            11 / 12,
        )
        assert measured.busy_time.mean == 0.5


def test_prompts_that_are_computed_sooner_do_not_hide_what_answers_take():
    """Each figure counts over the arrivals or over the run, whichever shows more: prompts here, answers there."""
    rows = [Row(float(at), at, at + 0.1, 40.0, prompt=1000, output=100) for at in range(11)]
    measured = measure(a_run(rows, until=40.0, arrivals_end=picoseconds(10)), a_cluster(price=3600.0), Slo())
    assert measured.total_tokens_per_s > 1000.0
    assert measured.output_tokens_per_s == 1100 / 40
    assert measured.cost_usd_per_mtok_output == pytest.approx(1e6 / measured.output_tokens_per_s)


def test_warm_up_counts_what_is_made_after_it_whenever_its_request_came():
    """A steady stream has the same rates over any part of it."""
    rows = quick(201, 0.1)
    run = a_run(rows, until=21.0, arrivals_end=picoseconds(20))
    late = measure(run, a_cluster(), Slo(), warmup_s=10.0)
    assert late.offered_rps == pytest.approx(10.0)
    assert late.output_tokens_per_s == pytest.approx(110.0, rel=0.01)
    assert late.requests_per_s == pytest.approx(10.0, rel=0.02)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 200), min_size=2, max_size=30), st.integers(0, 300), st.integers(1, 10**6))
def test_a_run_that_begins_later_has_the_same_rates(tenths, lasting, later_s):
    """Moved in time, with the fleet idle before."""

    def texts(begin: float) -> Metrics:
        rows = [
            Row(came, came, came + 1, came + 1 + lasting / 10, prompt=5, output=7)
            for came in [begin + at / 10 for at in tenths]
        ]
        end = picoseconds(begin + 60)
        stats = ReplicaStats(busy=4 * SECOND, arriving=2 * SECOND, up_until=end)
        run = a_run(rows, until=begin + 60, arrivals_end=picoseconds(begin + max(tenths) / 10), replicas=[stats])
        return measure(run, a_cluster(price=2.0, tdp_w=100.0), Slo(e2e_s=5.0))

    early, late = texts(0.0), texts(float(later_s))
    for name in (
        "window_s", "offered_rps", "goodput_rps", "requests_per_s", "total_tokens_per_s", "cost_usd_per_mtok",
        "energy_j_per_mtok_output",
    ):  # fmt: skip
        assert getattr(late, name) == pytest.approx(getattr(early, name), rel=1e-5), name
    assert late.busy_time.mean == pytest.approx(early.busy_time.mean, rel=1e-5)


@pytest.mark.parametrize("load", [0.5, 3.0])
def test_simulated_rates_are_what_is_offered_or_what_can_be_done(load):
    """What can be done is measured by a closed load. What is in the batch when arrivals end is not finished then."""
    full = ps.simulate(CLUSTER, ps.workload.closed(256, requests=2000, prompt_tokens=500, output_tokens=20)).metrics()
    rate = load * full.requests_per_s
    workload = ps.workload.poisson(rate, requests=4000, prompt_tokens=500, output_tokens=20, seed=1)
    measured = ps.simulate(CLUSTER, workload).metrics(Slo(e2e_s=1e6))
    assert measured.offered_rps == measured.goodput_rps == pytest.approx(workload.rate)
    assert 0.8 < measured.requests_per_s / (min(load, 1.0) * full.requests_per_s) < 1.02
    assert measured.total_tokens_per_s == pytest.approx(min(load, 1.0) * full.total_tokens_per_s, rel=0.06)
    dollars_per_s = CLUSTER.pools[0].device.price_per_hour / 3600
    assert measured.cost_usd_per_mtok == pytest.approx(dollars_per_s / measured.total_tokens_per_s * 1e6)


def test_a_workload_that_begins_late_has_the_same_rates_in_python():
    workload = ps.workload.poisson(10, requests=400, prompt_tokens=500, output_tokens=100)
    late = replace(workload, arrival=workload.arrival + 2400 * SECOND)
    at_once, later = (ps.simulate(CLUSTER, each).metrics(Slo(ttft_s=1.0)) for each in (workload, late))
    for name in ("offered_rps", "goodput_rps", "total_tokens_per_s", "cost_usd_per_mtok", "energy_j_per_mtok"):
        assert getattr(later, name) == pytest.approx(getattr(at_once, name), rel=1e-3), name
    assert later.busy_time.mean == pytest.approx(at_once.busy_time.mean, rel=1e-3)


@pytest.mark.parametrize("until", [None, 10.0])
@pytest.mark.parametrize("drain", [True, False])
def test_a_world_knows_when_its_arrivals_end(until, drain):
    if until is None and not drain:
        return
    workload = ps.workload.poisson(20, requests=400, prompt_tokens=500, output_tokens=100)
    run = ps.simulate(CLUSTER, workload, until=until, drain=drain).run
    stamps = workload.arrival if until is None else workload.arrival[workload.arrival <= until * SECOND]
    assert run.arrivals_end == stamps[-1] == np.max(run.records.arrived_at)
    (stats,) = run.replicas
    assert 0 < stats.arriving <= min(stats.busy, run.arrivals_end)


@pytest.mark.parametrize(
    "workload",
    [
        ps.workload.closed(8, requests=60, prompt_tokens=500, output_tokens=100),
        ps.workload.sessions(
            ps.workload.poisson(5, requests=30, prompt_tokens=500, output_tokens=100), turns=3, think_s=1.0
        ),
    ],
    ids=["closed", "sessions"],
)
def test_where_requests_wait_for_others_rates_count_over_the_whole_run(workload):
    run = ps.simulate(CLUSTER, workload).run
    assert run.arrivals_end < 0
    (done,) = works(run)
    assert (done.window.begin, done.window.end) == (min(run.records.arrived_at), run.ended_at)
    assert done.output_tokens == sum(run.records.output_tokens)
