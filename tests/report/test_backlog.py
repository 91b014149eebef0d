"""The growth of the backlog against what it must be: a server that takes c of the one request that come a second."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.units import ps
from poise.report.backlog import GROWTH, backlog_growth

from .runs import Row, a_run


def served(rate: float, requests: int = 200, warm: float = 0.0):
    """One request a second, of which `rate` are finished a second; the share of them that stays."""
    done, rows = 0.0, []
    for at in range(requests):
        done = max(done, float(at)) + 1 / rate
        rows.append(Row(float(at), float(at), done, done, output=1))
    return backlog_growth(a_run(rows, until=done), ps(float(requests - 1)), warmup_s=warm).value


@given(st.floats(0.05, 0.95), st.sampled_from([0.0, 40.0]))
def test_an_overloaded_server_keeps_what_it_cannot_take(rate, warm):
    assert served(rate, warm=warm) == pytest.approx(1 - rate, abs=0.02)


@given(st.floats(1.0, 50.0))
def test_a_server_that_keeps_up_keeps_nothing(rate):
    assert abs(served(rate)) < GROWTH / 2


@pytest.mark.parametrize("lasting", [3.0, 30.0, 60.0, 90.0])
def test_long_answers_that_all_run_at_once_are_no_growing_queue(lasting):
    """With as many servers as requests nobody waits: where answers outlast the half, nothing is said."""
    rows = [Row(float(at), float(at), float(at), at + lasting, output=9) for at in range(100)]
    growth = backlog_growth(a_run(rows, until=200.0), ps(99.0)).value
    assert growth is None if lasting > 50 else growth is not None and abs(growth) <= GROWTH


def talks(lasting: float):
    """A conversation begins each second; it asks every 10 seconds, until `lasting` seconds are over."""
    rows = [Row(float(at), float(at), at + 0.1, at + 0.5) for at in range(100)]
    leaders = list(range(100))
    for at in range(100):
        for later in range(10, int(lasting), 10):
            rows.append(Row(at + later, at + later, at + later + 0.1, at + later + 0.5))
            leaders.append(at)
    return a_run(rows, until=300.0), np.array(leaders)


@pytest.mark.parametrize("lasting", [11.0, 41.0, 91.0, 151.0])
def test_conversations_that_pile_up_are_no_growing_queue(lasting):
    run, leaders = talks(lasting)
    growth = backlog_growth(run, ps(99.0), leaders=leaders).value
    assert growth is None if lasting > 50 else growth is not None and abs(growth) <= GROWTH


def test_conversations_whose_first_answer_never_comes_are():
    rows = [Row(float(at)) for at in range(100)] + [Row(-1.0) for _ in range(100)]
    assert (
        backlog_growth(a_run(rows, until=300.0), ps(99.0), leaders=np.r_[np.arange(100), np.arange(100)]).value == 1.0
    )


def test_requests_without_end_stay():
    stuck = [Row(float(at)) for at in range(100)]
    assert backlog_growth(a_run(stuck, until=100.0), ps(99.0)).value == 1.0
    answering = [Row(float(at), float(at), float(at)) for at in range(100)]
    assert backlog_growth(a_run(answering, until=100.0), ps(99.0)).value is None


def test_no_request_or_no_time_is_no_growth():
    assert backlog_growth(a_run([]), 0).value is None
    assert backlog_growth(a_run([Row(0.0, 0.0, 1.0, 1.0)]), 0).value is None


@pytest.mark.parametrize("requests", [4, 20, 30])
def test_the_one_that_has_just_come_is_no_growing_queue(requests):
    """Each is answered long before the next one comes, so at most the last is under way."""
    rows = [Row(float(at), float(at), at + 0.1, at + 0.1) for at in range(requests)]
    growth = backlog_growth(a_run(rows, until=100.0), ps(requests - 1.0))
    assert growth.value is not None and growth.half is not None
    assert growth.value > GROWTH
    assert growth.value - GROWTH < growth.half


@pytest.mark.parametrize("busy", [0.5, 5.0, 25.0])
@pytest.mark.parametrize("requests", [20, 100])
def test_without_waiting_requests_few_runs_seem_to_grow(requests, busy):
    """As many servers as requests: they come at random, and `busy` of them are under way in the mean after warm-up."""
    draw, runs, beyond, warm = np.random.default_rng(requests), 150, 0, 6 * busy
    for _ in range(runs):
        came = np.sort(draw.uniform(0, warm + requests, int(warm + requests))).tolist()
        took = draw.exponential(busy, len(came)).tolist()
        rows = [Row(at, at, at + long, at + long) for at, long in zip(came, took, strict=True)]
        growth = backlog_growth(a_run(rows, until=1e6), ps(came[-1]), warmup_s=warm)
        if growth.value is not None and growth.half is not None:
            beyond += growth.value - GROWTH > growth.half
    assert beyond <= 0.05 * runs


@pytest.mark.parametrize("rate", [0.25, 0.5])
def test_a_queue_that_keeps_half_grows_beyond_chance(rate):
    done, rows = 0.0, []
    for at in range(100):
        done = max(done, float(at)) + 1 / rate
        rows.append(Row(float(at), float(at), done, done))
    growth = backlog_growth(a_run(rows, until=done), ps(99.0))
    assert growth.value is not None and growth.half is not None
    assert growth.value - GROWTH > growth.half
