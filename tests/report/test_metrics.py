"""The figures of a run, worked out on paper and against slow references."""

import json
import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.core.records.records import (
    CANCELLED,
    FINISHED,
    LOST,
    NOT_YET,
    REJECTED,
    STATUS,
    TIMED_OUT,
    UNFINISHED,
    ReplicaStats,
)
from poise.core.spec import Cluster, Slo
from poise.core.units import ps
from poise.report.latency import PERCENTILES, nearest_rank, summary
from poise.report.metrics import measure

from .runs import Row, a_cluster, a_run

LAX = Slo()


def by_definition(values: list[int], percent: int) -> int:
    """The smallest value that at least `percent` % of the values do not exceed."""
    return min(v for v in values if sum(w <= v for w in values) * 100 >= percent * len(values))


@given(st.lists(st.integers(0, 10**17), min_size=1, max_size=250))
def test_percentiles_are_by_nearest_rank(values):
    expected = [by_definition(values, percent) for percent in PERCENTILES]
    assert nearest_rank(np.array(values, dtype=np.int64)) == expected


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=50))
def test_means_are_exact_where_64_bits_overflow(values):
    assert summary(np.array(values, dtype=np.int64)).mean == sum(values) / (len(values) * 10**12)


seconds = st.floats(0, 20).map(lambda value: round(value, 3))
rows = st.builds(
    lambda arrived, waits, status, prompt, cached, output: Row(
        arrived,
        arrived + waits[0],
        arrived + sum(waits[:2]),
        arrived + sum(waits),
        status,
        prompt + cached,
        output,
        cached,
    ),
    seconds,
    st.tuples(seconds, seconds, seconds),
    st.sampled_from(range(len(STATUS))),
    st.integers(0, 1000),
    st.integers(0, 1000),
    st.integers(1, 5),
)


def tokens_since(row: Row, begin: float) -> float:
    """The prompt with the first token, which is one of output; the other ones evenly until the end."""
    first, ended, since = ps(row.first), ps(row.ended), ps(begin)
    if first >= since:
        return row.prompt + row.output
    return row.output - 1 - (row.output - 1) * (since - 1 - first) / (ended - first)


@given(st.lists(rows, max_size=30), seconds, st.floats(0, 5), st.floats(0, 5))
def test_against_a_slow_reference(requests, warmup_s, ttft_s, tpot_s):
    run = a_run(requests, until=80.0)
    metrics = measure(run, a_cluster(), Slo(ttft_s, tpot_s), warmup_s=warmup_s)
    counted = [row for row in requests if ps(row.arrived) >= ps(warmup_s)]
    done = [row for row in counted if row.status == FINISHED]

    def meets(row: Row) -> bool:
        first, ended = ps(row.first), ps(row.ended)
        quick = first - ps(row.arrived) <= ps(ttft_s)
        return quick and (row.output < 2 or ended - first <= (row.output - 1) * ps(tpot_s))

    assert metrics.requests == len(counted)
    ends = (metrics.finished, metrics.rejected, metrics.timed_out, metrics.cancelled, metrics.lost, metrics.unfinished)
    assert sum(ends) == metrics.requests
    assert ends == tuple(sum(row.status == end for row in counted) for end in range(len(STATUS)))
    good = sum(map(meets, done))
    assert metrics.slo_attainment == (good / len(counted) if counted else None)
    begin = max(warmup_s, min((row.arrived for row in requests), default=80.0))
    if begin < 80.0:
        window_s = 80.0 - begin
        ends = [row for row in requests if row.status == FINISHED and ps(row.ended) >= ps(begin)]
        assert metrics.goodput_rps == pytest.approx(good / window_s)
        assert metrics.requests_per_s == pytest.approx(len(ends) / window_s)
        assert metrics.total_tokens_per_s == pytest.approx(sum(tokens_since(row, begin) for row in ends) / window_s)
    prompts = sum(row.prompt for row in counted)
    hits = sum(row.cached for row in counted)
    assert metrics.prefix_hit_rate == (hits / prompts if prompts else None)
    if done:
        assert metrics.ttft_s.mean == pytest.approx(statistics.fmean(r.first - r.arrived for r in done), abs=1e-9)
        assert metrics.e2e_s.p50 == pytest.approx(
            by_definition([ps(r.ended) - ps(r.arrived) for r in done], 50) / 1e12, abs=1e-12
        )


def test_one_request_on_paper():
    """Arrives at 1, is sent at 1.5, first token at 2, four more tokens until 4; the run ends at 11."""
    run = a_run([Row(1.0, 1.5, 2.0, 4.0, prompt=100, output=5, cached=40)], until=11.0)
    metrics = measure(run, a_cluster(), Slo(ttft_s=1.0, tpot_s=0.5, e2e_s=3.0))
    assert (metrics.queue_s.p50, metrics.ttft_s.p99, metrics.tpot_s.mean, metrics.e2e_s.p90) == (0.5, 1.0, 0.5, 3.0)
    assert metrics.slo_attainment == 1.0, "limits are inclusive"
    assert (metrics.goodput_rps, metrics.output_tokens_per_s, metrics.total_tokens_per_s) == (0.1, 0.5, 10.5)
    assert metrics.prefix_hit_rate == 0.4


@pytest.mark.parametrize("slo", [Slo(ttft_s=0.999), Slo(tpot_s=0.4999), Slo(e2e_s=2.999)])
def test_every_part_of_the_slo_can_fail_alone(slo):
    run = a_run([Row(1.0, 1.5, 2.0, 4.0, prompt=100, output=5)])
    assert measure(run, a_cluster(), slo).slo_attainment == 0.0


def test_one_token_has_no_tpot_and_meets_it():
    run = a_run([Row(0.0, 0.0, 1.0, 9.0, output=1)])
    metrics = measure(run, a_cluster(), Slo(tpot_s=1e-6))
    assert metrics.tpot_s.mean is None
    assert metrics.slo_attainment == 1.0


def test_rejected_and_unfinished_miss_even_the_laxest_slo():
    served = Row(0.0, 0.0, 1.0, 2.0, output=2)
    others = [Row(0.0, status=end) for end in (REJECTED, TIMED_OUT, CANCELLED, LOST, UNFINISHED)]
    assert measure(a_run([served, *others]), a_cluster(), LAX).slo_attainment == 1 / 6


def test_rows_that_never_arrived_do_not_count_wherever_they_stand():
    """With joins a later row may arrive while an earlier one never does."""
    run = a_run([Row(0.0, 0.0, 1.0, 2.0), Row(None, status=UNFINISHED), Row(3.0, 3.0, 4.0, 5.0)], offered=2)
    metrics = measure(run, a_cluster(), LAX)
    assert (metrics.requests, metrics.finished, metrics.unfinished) == (2, 2, 0)


def test_what_was_dispatched_but_never_computed_is_not_in_the_hit_rate():
    run = a_run([Row(0.0, 0.0, 1.0, 2.0, prompt=10, cached=5), Row(0.0, 1.0, status=TIMED_OUT, prompt=90)])
    assert measure(run, a_cluster(), LAX).prefix_hit_rate == 0.5


def test_nothing_finished_gives_nulls_and_a_reason():
    run = a_run([Row(0.0, status=UNFINISHED), Row(1.0, status=REJECTED, replica=-1)], drained=False)
    metrics = measure(run, a_cluster(price=1.0, tdp_w=100), LAX)
    plain = json.loads(json.dumps(metrics.as_dict()))
    assert plain == metrics.as_dict()
    for name in ("ttft_s", "tpot_s", "e2e_s", "queue_s"):
        assert set(plain[name].values()) == {None}
    assert plain["cost_usd_per_mtok"] is plain["energy_j_per_mtok_output"] is None
    assert plain["slo_attainment"] == 0.0
    assert {"ttft_s", "unfinished"} <= plain["notes"].keys()


def test_an_empty_run_and_a_run_shorter_than_its_warm_up():
    for run, warmup_s in ((a_run([], until=0.0), 0.0), (a_run([Row(0.0, 0.0, 1.0, 2.0)]), 99.0)):
        metrics = measure(run, a_cluster(), LAX, warmup_s=warmup_s)
        assert (metrics.requests, metrics.slo_attainment, metrics.requests_per_s) == (0, None, None)
        assert {"requests", "requests_per_s"} <= metrics.notes.keys()


@pytest.mark.parametrize("warmup_s", [-1.0, math.nan, math.inf])
def test_warm_up_must_be_a_duration(warmup_s):
    with pytest.raises(UserError, match=r"warmup_s = .*give 0"):
        measure(a_run([]), a_cluster(), LAX, warmup_s=warmup_s)


def test_money_energy_and_busy_time_on_paper():
    """Two replicas of two devices for an hour, the second from half-time on; 2 $ and 100 W a device."""
    hour = 3600.0
    replicas = [ReplicaStats(busy=ps(1800)), ReplicaStats(busy=ps(1800), up_from=ps(1800))]
    run = a_run([Row(0.0, 0.0, 1.0, 2.0, prompt=900_000, output=100_000)], until=hour, replicas=replicas)
    metrics = measure(run, a_cluster(2, price=2.0, tdp_w=100.0, tensor=2), LAX)
    assert metrics.busy_time.per_replica == [0.5, 1.0]
    assert metrics.busy_time.mean == pytest.approx(2 / 3)
    assert metrics.cost_usd_per_mtok == pytest.approx(2 * 2 * 1.0 + 2 * 2 * 0.5)
    assert metrics.cost_usd_per_mtok_output == pytest.approx(10 * metrics.cost_usd_per_mtok)
    first, second = 2 * 3600 * (20 + 80 * 0.5), 2 * 1800 * 100
    assert metrics.energy_j_per_mtok == pytest.approx(first + second)
    assert metrics.energy_j_per_mtok_output == pytest.approx(10 * (first + second))


def test_a_replica_that_left_or_never_came_costs_only_its_time():
    replicas = [ReplicaStats(busy=ps(1), up_until=ps(2)), ReplicaStats(up_from=NOT_YET)]
    run = a_run([Row(0.0, 0.0, 1.0, 2.0, prompt=500_000, output=500_000)], replicas=replicas)
    metrics = measure(run, a_cluster(2, price=3600.0, tdp_w=10.0), LAX)
    assert metrics.busy_time.per_replica == [0.5, None]
    assert metrics.cost_usd_per_mtok == pytest.approx(2.0)
    late = measure(run, a_cluster(2, price=3600.0), LAX, warmup_s=2.5)
    assert late.cost_usd_per_mtok is None, "no token after warm-up, so no price of one"


def test_money_and_energy_are_those_after_warm_up():
    """Half of the ten seconds is warm-up; the replica was busy half of all its time."""
    run = a_run([Row(0.0, 0.0, 1.0, 2.0), Row(6.0, 6.0, 7.0, 8.0, prompt=10**6)], replicas=[ReplicaStats(busy=ps(5))])
    metrics = measure(run, a_cluster(price=3600.0, tdp_w=10.0), LAX, warmup_s=5.0)
    assert metrics.cost_usd_per_mtok == pytest.approx(5.0)
    assert metrics.energy_j_per_mtok == pytest.approx(5 * 10 * (0.2 + 0.8 * 0.5))


def test_unknown_prices_and_powers_are_none_with_a_cure():
    run = a_run([Row(0.0, 0.0, 1.0, 2.0, prompt=10, output=10)])
    notes = measure(run, a_cluster(), LAX).notes
    assert "price_per_hour" in notes["cost_usd_per_mtok"]
    assert "tdp_w" in notes["energy_j_per_mtok"]


@pytest.mark.parametrize(("own", "expected"), [(1.0, 1.0), (0.0, 0.0), (None, 5.0)])
def test_a_pool_price_comes_before_the_device_price(own, expected):
    run = a_run([Row(0.0, 0.0, 1.0, 2.0, output=10**6)], until=3600.0)
    cluster = a_cluster(price=5.0, price_per_hour=own)
    assert measure(run, cluster, LAX).cost_usd_per_mtok == pytest.approx(expected)


def test_prices_of_two_bases_are_not_added():
    """A pool with its own price needs no basis."""
    pool = a_cluster(price=5.0).pools[0]
    other = replace(pool, device=replace(pool.device, price_basis="spot 2025-01"))
    run = a_run([Row(0.0, 0.0, 1.0, 2.0, output=10**6)], until=3600.0, replicas=[ReplicaStats(), ReplicaStats()])
    mixed = measure(run, Cluster((pool, other)), LAX)
    assert mixed.cost_usd_per_mtok is None
    assert "spot 2025-01" in mixed.notes["cost_usd_per_mtok"]
    given_price = measure(run, Cluster((pool, replace(other, price_per_hour=1.0))), LAX)
    assert given_price.cost_usd_per_mtok == pytest.approx(6.0)
