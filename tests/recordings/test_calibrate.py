"""Calibrating on a simulation finds the coefficients that it was made with, and says where it cannot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from poise.core.errors import TraceError
from poise.core.spec import Belief
from poise.cost import Fitted, Roofline
from poise.cost.fitted import COEFFICIENTS
from poise.recordings.calibrate import calibrate
from poise.recordings.recording import recorded
from poise.sim.terms import Saving
from poise.workload import constant
from tests.recordings.days import TRUE, a_day, cluster_of

TOLERANCE = 0.04
"""The first fit is off by up to 7 %; a round leaves the part of it that the simulation does not share, measured over
loads and seeds at 2.2 % at most. Coefficients of which little is in latencies may be off by their standard error."""


def near(found: Any, true: Fitted) -> None:
    for name in COEFFICIENTS:
        error = found.errors.get(name) or 0.0
        assert abs(getattr(found.cost, name) - getattr(true, name)) <= max(
            TOLERANCE * getattr(true, name), 2 * error
        ), name


@pytest.mark.parametrize(("rate", "cost"), [(10.0, TRUE), (40.0, TRUE), (20.0, Fitted(0.02, 1e-5, 0.0, 5e-4, 1e-8))])
def test_the_coefficients_of_a_simulation_are_found(rate: float, cost: Fitted) -> None:
    found = calibrate(recorded(a_day(rate=rate, requests=600, cost=cost).trace))
    near(found, cost)
    assert not found.kept and found.requests == 600 and 1 <= found.rounds <= 8
    # What is left is which step a request happened to meet, of which its end feels little.
    assert found.held_out["e2e_s"]["median"] < 0.02
    assert found.held_out["tpot_s"]["median"] < 0.01
    assert all(abs(ratio - 1) < 0.02 for ratio in found.bias.values())


def test_where_engines_often_rest_every_request_is_reproduced() -> None:
    """An idle engine forgets in which step it was, so small errors do not add up."""
    found = calibrate(recorded(a_day(rate=3.0, requests=300).trace))
    assert found.held_out["ttft_s"]["median"] < 0.002 and found.held_out["e2e_s"]["p90"] < 0.002


def test_it_is_the_same_every_time() -> None:
    day = recorded(a_day(requests=150).trace)
    assert calibrate(day).as_dict() == calibrate(day).as_dict()


def test_a_cost_of_another_form_comes_near() -> None:
    """A roofline is no straight line, but over one load it is close to one."""
    day = a_day(rate=30.0, requests=400, cost=Roofline())  # type: ignore[arg-type]
    found = calibrate(recorded(day.trace))
    assert found.held_out["e2e_s"]["median"] < 0.03


def even_day() -> Any:
    """Requests one at a time, all alike: nothing varies."""
    from poise.core.records.trace import Trace
    from poise.policies import Policies
    from poise.scenario.record import simulation_header
    from poise.scenario.simulate import simulate

    cluster = cluster_of(1)
    trace = Trace(simulation_header(cluster, TRUE, {"router": {"least_requests": {}}}, Belief()))
    workload = constant(2.0, requests=100, prompt_tokens=500, output_tokens=20)
    simulate(cluster, workload, Policies(), cost=TRUE, saving=Saving(trace=trace))
    return recorded(trace)


@pytest.mark.parametrize("prior", [None, TRUE])
def test_what_the_load_does_not_tell_is_kept_and_named(prior: Fitted | None) -> None:
    found = calibrate(even_day(), prior=prior)
    assert set(found.kept) == {"pair_s", "sequence_s", "kv_token_s"}
    assert found.kept["kv_token_s"] == f"the load hardly varies in it; kept at {prior.kv_token_s if prior else 0:g} s"
    assert set(found.errors) == {"step_s", "prompt_token_s"}
    assert found.held_out["e2e_s"]["p90"] < 1e-4, "alike requests are told right all the same"
    if prior is not None:
        near(found, TRUE)


def test_slow_engines_among_others_are_named() -> None:
    day = recorded(a_day(rate=15.0, requests=250).trace)
    records = day.observed.records
    rows = np.flatnonzero(np.asarray(records.replica) == 1)
    for row in rows.tolist():  # as if its answers came over a slow line
        records.ended_at[row] += (records.ended_at[row] - records.first_token_at[row]) // 2
    found = calibrate(day)
    assert found.bias[1] < 0.9 < 1.0 < found.bias[0]


def test_what_cannot_be_calibrated() -> None:
    with pytest.raises(TraceError, match=r"has 20 requests to fit to, and it takes 50; record"):
        calibrate(recorded(a_day(requests=20).trace))
    day = recorded(a_day(requests=60).trace)
    pairs = [spec._replace(role="prefill") for spec in day.replicas]
    with pytest.raises(TraceError, match="prefill and decode"):
        calibrate(replace(day, replicas=pairs))
