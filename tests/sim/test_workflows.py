"""Programs in simulation: their time is that of their longest way, and their figures are what the records say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import poise as ps
from poise.core.records.records import FINISHED
from poise.report.programs import spans
from poise.workload.paths import critical_path
from tests.workload.test_programs import SEARCH

CLUSTER = ps.Cluster.of("H100", count=1).replicas(1, model="llama-3.1-8b")


def _took(result: ps.Result) -> np.ndarray:
    records = result.run.records
    return np.asarray(records.ended_at) - np.asarray(records.arrived_at)


@settings(max_examples=10)
@given(st.integers(0, 99), st.sampled_from((0.2, 2.0, 20.0)))
def test_a_program_takes_its_longest_way(seed: int, rate: float) -> None:
    """To the picosecond with the times of the run; never less than with each request alone."""
    made = ps.workload.workflows(ps.workload.poisson(rate, requests=5, seed=seed), SEARCH, seed=seed)
    result = ps.simulate(CLUSTER, made, seed=seed)
    found = spans(result.run)
    assert found is not None and found.finished.all()
    assert critical_path(made, _took(result)) == dict(enumerate(found.took.tolist()))


def test_no_program_beats_its_requests_alone() -> None:
    made = ps.workload.workflows(ps.workload.poisson(3.0, requests=6, seed=1), SEARCH, seed=1)
    made.prefixes = None
    apart = ps.workload.constant(60.0, requests=len(made))
    apart.prompt, apart.output = made.prompt, made.output
    alone = critical_path(made, _took(ps.simulate(CLUSTER, apart)))
    found = spans(ps.simulate(CLUSTER, made).run)
    assert found is not None
    assert all(found.took[each] >= least for each, least in alone.items())
    assert any(found.took[each] > least for each, least in alone.items())


def test_a_program_is_in_time_whole_or_not_at_all() -> None:
    made = ps.workload.workflows(ps.workload.poisson(3.0, requests=20, seed=2), SEARCH, seed=2)
    result = ps.simulate(CLUSTER, made)
    whole = result.metrics()
    assert whole.programs is not None and whole.program_s is not None and whole.program_s.p50 is not None
    assert (whole.programs.begun, whole.programs.finished, whole.programs.attainment) == (20, 20, 1.0)
    half = result.metrics(ps.Slo(program_s=whole.program_s.p50))
    assert half.programs is not None and half.programs.attainment == pytest.approx(0.5)
    found = spans(result.run)
    assert found is not None
    good = found.took[found.of] <= round(whole.program_s.p50 * 1e12)
    assert half.slo_attainment == pytest.approx(good.mean())


def test_what_was_cut_off_is_begun_and_not_finished() -> None:
    made = ps.workload.workflows(ps.workload.poisson(3.0, requests=20, seed=2), SEARCH, seed=2)
    result = ps.simulate(CLUSTER, made, until=3.0, drain=False)
    metrics = result.metrics().programs
    assert metrics is not None and 0 < metrics.finished + 1 < metrics.begun < 20
    later = result.metrics(warmup_s=1.0).programs
    assert later is not None and later.begun < metrics.begun


def test_requests_without_a_program_have_no_such_figure() -> None:
    result = ps.simulate(CLUSTER, ps.workload.poisson(3.0, requests=5))
    assert result.program is None and "program_s" not in result.metrics().as_dict()
    assert (np.asarray(result.run.records.status) == FINISHED).all()
    metrics = result.metrics(ps.Slo(program_s=result.e2e.p50))
    assert metrics.slo_attainment == pytest.approx(0.6), "each is a program by itself"
