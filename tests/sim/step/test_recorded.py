"""A layout's step with recorded times: that of its schedule, with what the cost model says behind it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from poise.catalogue import device, model
from poise.core.errors import ScenarioError, ScheduleError
from poise.cost.training import Job, Layout, predict
from poise.pipeline import Costs
from poise.sim.step.layout import Draw
from poise.sim.step.recorded import fitted, recorded

JOB = Job(model("llama-3.1-8b"), device("H100"), 16, 4096, 32, nic_bw=50e9)
LAYOUT = Layout(tensor=8, pipeline=2)
COSTS = Costs.of(["0.004", "0.004"], "0.004", "0.004")


def test_it_is_the_closed_form_of_its_schedule() -> None:
    """(m + p - 1)(f + b + w) of 1F1B, behind it the cost model's optimizer and fixed time."""
    found = predict(JOB, LAYOUT)
    run = recorded(JOB, found, fitted(COSTS, LAYOUT))
    behind = sum(found.parts[name] for name in ("gradients", "optimizer", "fixed"))
    assert run.seconds == pytest.approx((32 + 2 - 1) * 0.012 + behind)
    assert run.parts["bubble"] == pytest.approx(0.012) and run.parts["messages"] == 0


def test_messages_are_what_they_lengthen_it_by() -> None:
    found, late = predict(JOB, LAYOUT), replace(COSTS, comm=(Fraction(1, 1000),) * 2)
    quick, slow = (recorded(JOB, found, fitted(each, LAYOUT)) for each in (COSTS, late))
    assert slow.parts["messages"] == pytest.approx(slow.seconds - quick.seconds) and slow.seconds > quick.seconds


def test_the_slowest_draw_decides() -> None:
    found, costs = predict(JOB, LAYOUT), fitted(COSTS, LAYOUT)
    one, two = (Draw((Fraction(1),) * 2, (Fraction(each),) * 32) for each in (1, 2))
    alone, both = (recorded(JOB, found, costs, draws) for draws in ((two,), (one, two)))
    assert recorded(JOB, found, costs) == recorded(JOB, found, costs, (one,))
    assert both == alone and both.seconds > recorded(JOB, found, costs).seconds


def test_costs_of_chunks_are_those_of_full_stages_elsewhere() -> None:
    chunks = Costs.of(["0.001", "0.002", "0.003", "0.004"], 1, 1)
    assert [*fitted(chunks, LAYOUT).f] == [3000, 7000]
    own = fitted(chunks, replace(LAYOUT, chunks=2, schedule="zb_v")).f
    assert [*own] == [1000, 2000, 3000, 4000]
    with pytest.raises(ScheduleError, match="4 values for 3 stages"):
        fitted(chunks, Layout(tensor=8, pipeline=3))


def test_too_many_operations_are_refused() -> None:
    job = replace(JOB, batch=20000)
    with pytest.raises(ScenarioError, match="no more than 60,000 are run one by one; give fewer"):
        recorded(job, predict(job, LAYOUT), fitted(COSTS, LAYOUT))
