"""A fleet holds with a confidence: closed forms, monotone in what is asked and in how wide intervals are."""

from __future__ import annotations

from dataclasses import replace
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.spec import Slo
from poise.cost import Roofline
from poise.intervals.interval import LEVELS, Interval
from poise.plan import confidence
from poise.plan.alone import alone
from poise.plan.confidence import Doubt, doubt_of
from poise.plan.fleet import Fleet
from poise.plan.goal import Goal
from poise.plan.limits import Limits
from poise.plan.measure import measurement
from poise.plan.search import SearchResult, search
from poise.plan.share import in_list, in_table, in_words
from poise.plan.space import space
from poise.plan.trial import Trial
from poise.scenario.engine_cost import EngineCost

from .cases import COST, a_bench, a_demand, a_goal, pools

FLEET = Fleet((pools()[0],))
TRIAL = Trial(FLEET, 1.0, 0.007, 0.2, 0.02, 1.0, None, 300.0, 0.1, 1.0, 0.5, None, {}, confidence=0.9)


@pytest.fixture
def even(monkeypatch: pytest.MonkeyPatch) -> Width:
    """Intervals whose quantiles are even in logarithms: a share s of measured values lies below width^(s - 1/2)."""
    width = Width()
    monkeypatch.setattr(confidence, "_interval", lambda doubt, kind, pools: width.interval(doubt))
    return width


class Width:
    """The factor from the least to the greatest measured value; `more` points take the root of it."""

    factor = 4.0

    def interval(self, doubt: Doubt) -> Interval:
        """The interval."""
        wide = log(self.factor) / (2 if doubt.more else 1)
        return Interval(tuple(wide * (level - 0.5) for level in LEVELS))


def test_the_chances_to_pass_limits_add_up(even: Width) -> None:
    doubt = Doubt()
    one = doubt.confidence(FLEET, Slo(ttft_s=1.0), {"ttft_s": 4**-0.4})
    assert one == pytest.approx(0.9)
    both = doubt.confidence(FLEET, Slo(ttft_s=1.0, tpot_s=0.1), {"ttft_s": 4**-0.4, "tpot_s": 0.1 * 4**-0.3})
    assert both == pytest.approx(0.7)
    assert doubt.confidence(FLEET, Slo(ttft_s=1.0), {"ttft_s": None}) == 0.0


@given(value=st.floats(0.05, 2.0), wide=st.floats(1.05, 20.0), wider=st.floats(1.0, 5.0))
def test_a_wider_interval_is_never_more_sure_of_what_holds_by_prediction(
    value: float, wide: float, wider: float
) -> None:
    def below(width: float) -> float:
        return Interval(tuple(log(width) * (level - 0.5) for level in LEVELS)).below(1.0 / value)

    if value <= 1.0:
        assert below(wide * wider) <= below(wide) + 1e-12


def test_chance_and_the_model_s_error_add_up() -> None:
    goal = Goal(Slo(ttft_s=1.0), 0.99, confidence=0.8)
    at = replace(TRIAL, attainment=0.99, spread=0.01)
    assert at.surety(goal) == pytest.approx(0.9 - 0.5)  # on the edge chance misses half the time
    above = replace(TRIAL, attainment=0.995, spread=0.005)
    assert above.surety(goal) == pytest.approx(0.9 - 0.025)  # the end of a 95 % interval
    assert above.sure(goal) and not above.sure(replace(goal, confidence=0.89))
    assert replace(above, confidence=None).surety(goal) is None


def test_a_share_of_100_percent_is_a_lower_bound() -> None:
    assert (in_words(TRIAL), in_table(TRIAL), in_list(TRIAL)) == ("at least 99.3 %", "≥ 99.30 %", "at least 99.3 %")
    exact = replace(TRIAL, spread=None)
    assert in_table(exact) == "100.00 ± ? %" and "too short" in in_list(exact)
    assert in_table(replace(TRIAL, attainment=0.9, spread=0.02)) == "90.00 ± 2 %"
    assert in_table(replace(TRIAL, attainment=0.9, cut=True)) == "≤ 90.00 %"


def test_errors_are_stated_for_engines_without_drafts() -> None:
    assert doubt_of(EngineCost("vllm"), 0.99) == Doubt("vllm")
    assert doubt_of(EngineCost("vllm"), 0.5) == Doubt("vllm", tail=False)
    assert isinstance(doubt_of(Roofline(), 0.99), str)


def searched(wanted: float | None) -> SearchResult:
    """The search of a small space by devices."""
    goal = replace(a_goal(minimize="gpus"), confidence=wanted)
    bench = replace(a_bench(a_demand(60.0), goal), doubt=Doubt())
    small = [pool for pool in pools(1) if pool.device.name == "L40S"]
    kinds = space(small, bench.demand, goal, COST, split=False, mix=False)
    return search(kinds, bench, Limits(goal))


def devices(found: SearchResult) -> int:
    """Devices of the best."""
    assert found.winner is not None
    return found.winner.fleet.devices


def test_higher_confidence_never_takes_fewer_devices(even: Width) -> None:
    counts = [devices(searched(wanted)) for wanted in (None, 0.5, 0.7, 0.85, 0.95)]
    assert counts == sorted(counts)
    assert counts[-1] > counts[0]


def test_a_wider_interval_never_takes_a_smaller_fleet(even: Width) -> None:
    counts = []
    for even.factor in (1.01, 2.0, 6.0):
        counts.append(devices(searched(0.8)))
    assert counts == sorted(counts)
    assert counts[0] == devices(searched(None))


def test_what_predicted_values_alone_choose_is_what_a_search_without_confidence_finds(even: Width) -> None:
    found = searched(0.9)
    tried = alone(found, Limits(found.bench.goal), found.winner)
    assert tried is not None and tried.fleet.devices == devices(searched(None))
    assert alone(searched(None), Limits(a_goal())) is None


def test_a_measurement_is_named_where_a_cheaper_fleet_may_hold(even: Width) -> None:
    found = searched(0.9)
    tried = alone(found, Limits(found.bench.goal), found.winner)
    chosen = measurement(found, tried, found.winner)
    assert chosen is not None
    assert chosen.trial.fleet.devices < devices(found) and chosen.confidence >= 0.9
    assert chosen.after.high - chosen.after.low < chosen.before.high - chosen.before.low
    even.factor = 1.01  # nothing is cheaper than what holds by predicted values alone
    found = searched(0.9)
    assert measurement(found, alone(found, Limits(found.bench.goal), found.winner), found.winner) is None
