"""What a trial says is what the metrics of its runs say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poise.core.spec import Fault, Slo
from poise.plan.demand import demand_of
from poise.plan.fleet import Fleet, unit_name
from poise.plan.goal import Goal
from poise.plan.prices import Price
from poise.plan.spot import poisson_below, spot
from poise.plan.trial import Bench
from poise.report.metrics import measure
from poise.report.spending import IDLE_SHARE
from poise.scenario.simulate import simulate
from poise.workload import poisson, sessions

from .cases import COST, a_bench, a_demand, a_goal, pools


def test_a_trial_is_the_simulation_of_its_fleet() -> None:
    bench = a_bench()
    fleet = Fleet((replace(pools()[0], replicas=3),), "least_tokens")
    trial = bench.trial(fleet)
    load, warmup_s = bench.demand.stretches[0], bench.demand.warmup_s
    run = simulate(fleet.cluster(), load, fleet.policies(), cost=COST)
    figures = measure(run, fleet.cluster(), bench.goal.slo, warmup_s=warmup_s)
    assert trial.attainment == pytest.approx(figures.slo_attainment)
    assert trial.usd_per_mtok == figures.cost_usd_per_mtok and trial.j_per_mtok == figures.energy_j_per_mtok
    assert IDLE_SHARE * fleet.power_w <= trial.watts <= fleet.power_w
    at_99 = Bench(bench.demand, replace(bench.goal, attainment=0.99), COST).trial(fleet)
    assert at_99.ttft_s == pytest.approx(figures.ttft_s.p99) and at_99.tpot_s == pytest.approx(figures.tpot_s.p99)
    assert max(trial.misses.values()) <= 1 - trial.attainment <= sum(trial.misses.values()) + 1e-12


def test_what_the_server_adds_before_the_first_token_counts() -> None:
    fleet = Fleet((replace(pools()[0], replicas=3),))
    bench = a_bench()
    slower = replace(bench, front_s=0.1)
    plain, late = bench.trial(fleet), slower.trial(fleet)
    assert plain.ttft_s is not None and late.ttft_s == pytest.approx(plain.ttft_s + 0.1)
    assert late.tpot_s == plain.tpot_s and late.attainment <= plain.attainment


@pytest.mark.parametrize("stretches", [1, 3])
def test_a_share_of_all_is_not_certain(stretches: int) -> None:
    bench = a_bench(a_demand(rate=4.0), a_goal())
    fleet = Fleet((replace(pools()[0], replicas=8),))
    trial = bench.trial(fleet, bench.demand.stretches * stretches)
    arrivals = stretches * len(bench.demand.stretches[0])
    assert trial.attainment == 1.0 and trial.spread is not None
    assert trial.spread >= 1.96**2 / arrivals  # the score interval of so many independent requests, at least


def test_the_name_of_a_fleet_says_what_it_is() -> None:
    pool = replace(pools()[0], replicas=2, tensor=4, weights="fp8", role="decode", kv="fp8", data=2, expert=8)
    assert unit_name(pool) == "H100-SXM-80GB tp4 dp2 ep8 fp8 kv-fp8 decode"
    fleet = Fleet((pool,))
    assert fleet.written == f"2 × {unit_name(pool)}" and fleet.devices == 16
    assert fleet.price_per_hour == 16 * 3.0 and fleet.by_device == {"H100-SXM-80GB": 16}


def test_spares_follow_the_poisson_law() -> None:
    assert poisson_below(0.0, 0) == 1.0
    assert poisson_below(2.0, 1) == pytest.approx(3 * 2.718281828459045**-2)
    bench = a_bench(a_demand(rate=12.0), a_goal())
    fleet = Fleet((replace(pools()[0], replicas=4),))
    name = fleet.pools[0].device.name
    assert spot(fleet, {name: Price(3.0)}, bench) is None
    never, often = (spot(fleet, {name: Price(3.0, spot=1.0, reclaims_per_hour=rate)}, bench) for rate in (0.0, 0.5))
    assert never is not None and never.spares == 0 and never.price_per_hour == 4.0 and never.up == 1.0
    assert often is not None and often.spares >= 1 and often.up >= 0.999
    assert 0 <= often.reclaimed <= 1
    taken = bench.trial(replace(fleet, faults=(Fault(1.0, "reclaimed", 0, 0.0),)))
    assert taken.attainment <= bench.trial(fleet).attainment


def conversations() -> Bench:
    """Programs of three turns with two seconds between them, and a limit on their time that some of them miss."""
    starts = poisson(rate=8.0, requests=200, prompt_tokens={"lognormal": {"mean": 600, "cv": 0.8}}, output_tokens=60)
    load = sessions(starts, turns=3, think_s=2.0, user_tokens=100)
    return Bench(demand_of([load], name="load", requests=2000), Goal(Slo(program_s=5.5), 0.9), COST)


def test_programs_are_held_to_their_time() -> None:
    bench = conversations()
    fleet = Fleet((replace(pools()[0], replicas=1),))
    trial = bench.trial(fleet)
    load, warmup_s = bench.demand.stretches[0], bench.demand.warmup_s
    run = simulate(fleet.cluster(), load, fleet.policies(), cost=COST)
    figures = measure(run, fleet.cluster(), bench.goal.slo, warmup_s=warmup_s)
    assert trial.attainment == pytest.approx(figures.slo_attainment) and 0 < trial.attainment < 1
    assert set(trial.misses) == {"program_s"}
    at_99 = Bench(bench.demand, replace(bench.goal, attainment=0.99), COST).trial(fleet)
    assert figures.program_s is not None and at_99.program_s == pytest.approx(figures.program_s.p99)


def test_a_program_pays_for_the_server_once_a_turn() -> None:
    fleet, bench = Fleet((replace(pools()[0], replicas=1),)), conversations()
    plain, late = bench.trial(fleet), replace(bench, front_s=0.1).trial(fleet)
    assert bench.demand.turns == 3
    assert plain.program_s is not None and late.program_s == pytest.approx(plain.program_s + 0.3)
    assert late.attainment < plain.attainment
    assert a_bench().trial(fleet).program_s is None
