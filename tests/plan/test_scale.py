"""The plan under scalers: what is held and spent is what a simulation of the written scenario comes to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from poise.cli import main
from poise.core.errors import UserError
from poise.core.spec import Engine, Slo
from poise.cost.memory import footprint
from poise.plan import scale as scaling
from poise.plan.autoscale import Autoscale, autoscale
from poise.plan.demand import Demand, demand_of
from poise.plan.deploy import Setting
from poise.plan.deploy.gateway import gateway
from poise.plan.deploy.scenario import scenario
from poise.plan.fleet import Fleet
from poise.plan.goal import Goal
from poise.plan.scale import Scaled, scale, why_not
from poise.plan.start import Start, read_start
from poise.plan.trial import Bench
from poise.report.metrics import measure
from poise.report.spending import dollars
from poise.scenario.build import build
from poise.scenario.load import load
from poise.scenario.serve.build import plan as served
from poise.scenario.serve.load import load_gateway
from poise.scenario.simulate import simulate
from poise.workload import diurnal

from .cases import COST, a_demand, pools

POINTS = [[0, 0.5], [600, 0.5], [800, 2.5], [1300, 2.5], [1400, 0.5], [1800, 0.5]]
LOAD = {"points": POINTS, "prompt_tokens": 300, "output_tokens": 100, "duration_s": 1800}
GOAL = Goal(Slo(ttft_s=2.0), 0.9)
START = Start(provision_s=5.0)


def a_day() -> Demand:
    """Half an hour, eight minutes of which ask for five times as much as the rest."""
    return demand_of([diurnal(**LOAD, seed=0)], name="day", requests=800)  # type: ignore[arg-type]


def a_fleet(replicas: int = 4) -> Fleet:
    """Replicas that run two requests at once."""
    pool = next(each for each in pools(1) if each.device.name == "L40S" and each.weights == "bf16")
    return Fleet((replace(pool, replicas=replicas, engine=replace(Engine(), max_sequences=2)),))


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench(a_day(), GOAL, COST)


@pytest.fixture(scope="module")
def scaled(bench: Bench) -> Scaled:
    found = scale(a_fleet(), bench, START)
    assert found is not None
    return found


def test_the_constant_fleet_is_the_plain_simulation(scaled: Scaled, bench: Bench) -> None:
    constant, fleet = scaled.constant, a_fleet()
    run = simulate(fleet.cluster(), bench.demand.whole, fleet.policies(), cost=COST)
    figures = measure(run, fleet.cluster(), GOAL.slo, warmup_s=bench.demand.warmup_s)
    assert constant.attainment == figures.slo_attainment and constant.dollars == dollars(run, fleet.cluster())[0]
    assert constant.device_hours == pytest.approx(4 * scaled.hours)
    assert constant.dollars == pytest.approx(4 * scaled.hours * 1.0)


def test_the_best_holds_and_saves(scaled: Scaled, bench: Bench) -> None:
    best, bound = scaled.best, autoscale(bench.demand, 4)
    assert best is not None and bound is not None and not best.cut
    assert best.attainment >= GOAL.attainment and 0 < scaled.saved < 0.75, "one replica is always there"
    assert best.device_hours is not None and scaled.hours <= best.device_hours < 4 * scaled.hours
    assert best.ups >= 1 and best.downs >= 1
    holding = [each for each in scaled.tried if not each.cut and each.attainment >= GOAL.attainment]
    assert best.spent == min(each.spent for each in holding)
    assert all(each.attainment < GOAL.attainment for each in scaled.tried if each.cut)
    for scaler in scaling.SCALERS:
        own = [each for each in scaled.tried if each.scaler == scaler]
        assert [each in holding for each in own[:-1]] == [False] * (len(own) - 1), "the first that holds ends it"


def test_the_drawing_has_the_demand_and_the_replicas(scaled: Scaled, bench: Bench) -> None:
    at, rates = scaled.curves["load"]["arrivals per second"]
    assert sum(np.diff(at) * rates[:-1]) == pytest.approx(len(bench.demand.whole))
    serving = scaled.curves["replicas"]["serving"][1]
    assert min(serving) >= 1 and max(serving) <= 4


def test_the_scenario_and_the_gateway_say_it(scaled: Scaled, bench: Bench, tmp_path: Path) -> None:
    best = scaled.best
    assert best is not None
    setting = Setting(
        workload={"diurnal": LOAD}, slo=GOAL.slo, warmup_s=bench.demand.warmup_s, cost=COST,
        scaler={best.scaler: dict(best.settings)},
    )  # fmt: skip
    file = tmp_path / "scenario.yaml"
    file.write_text(scenario(scaled.fleet, setting), encoding="utf-8")
    problem = build(load(file))
    (_, policies), workload = problem.bundles[0], problem.traffic.make(0)
    assert problem.cluster.pools[0].stages == scaled.fleet.pools[0].startup
    run = simulate(problem.cluster, workload, policies, cost=problem.cost, belief=problem.belief)
    figures = measure(run, problem.cluster, GOAL.slo, warmup_s=bench.demand.warmup_s)
    assert figures.slo_attainment == best.attainment and dollars(run, problem.cluster)[0] == best.dollars
    file = tmp_path / "gateway.yaml"
    file.write_text(gateway(scaled.fleet, setting), encoding="utf-8")
    (pool,) = served(load_gateway(file)).pools
    assert (pool.min_replicas, pool.max_replicas) == (1, 4)
    assert pool.start_s == pytest.approx(scaled.start_s, abs=0.1)


def test_a_start_that_takes_too_long_is_held_by_no_thrifty_target(bench: Bench) -> None:
    """With starts longer than the rise nothing thrifty holds, and what does costs more."""
    strict = replace(bench, goal=replace(GOAL, attainment=0.999))
    late = scale(a_fleet(), strict, Start(provision_s=900.0))
    assert late is not None and late.tried
    assert late.best is None or late.saved < 0.5
    assert sum(each.cut for each in late.tried) >= len(scaling.SCALERS)


def test_no_pool_of_several_is_no_scaler(bench: Bench) -> None:
    assert scale(a_fleet(1), bench, START) is None
    assert scale(a_fleet(), bench, START, stopped=lambda: True) is None


def test_requests_in_flight_by_hand() -> None:
    since, until = np.array([0, 2, 2]), np.array([4, 4, 3])
    held = scaling._held(since, until, np.array([0.0, 2.0, 4.0, 8.0]))
    assert held == pytest.approx([1.0, 2.5, 0.0])


def test_when_scalers_are_simulated() -> None:
    day, much, little = a_day(), Autoscale(60.0, 4, 1, 2.0, 4), Autoscale(60.0, 4, 3, 3.9, 4)
    assert why_not(much, day, None) == "" == why_not(little, day, True)
    assert "save little" in why_not(little, day, None) and "not asked" in why_not(much, day, False)
    assert "too short" in why_not(autoscale(a_demand(), 4), day, True)
    assert "one replica" in why_not(Autoscale(60.0, 1, 1, 1.0, 1), day, True)
    loose = autoscale(day, 4, 2.0)
    tight = autoscale(day, 4)
    assert loose is not None and tight is not None and loose.mean < tight.mean, "slack can be scaled away, too"


def test_starts() -> None:
    pool = a_fleet().pools[0]
    start = read_start("provision_s=300, weights_gb_s=4").of(pool)
    assert (start.provision_s, start.image_s) == (300.0, Start().image_s)
    assert start.weights_s == pytest.approx(footprint(pool).weights / 4e9)
    assert read_start(None) == Start()
    for text, expected in [
        ("boot_s=3", "there is no 'boot_s'"),
        ("image_s=x", "'x' is not a number"),
        ("weights_gb_s=0", "above it"),
    ]:
        with pytest.raises(UserError, match=expected):
            read_start(text)


def test_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaling, "SCALERS", ("kpa",))
    file = tmp_path / "day.yaml"
    points = [[0, 1], [600, 1], [800, 6], [1100, 6], [1300, 1], [1500, 1]]
    file.write_text(
        json.dumps({"workload": {"diurnal": {**LOAD, "prompt_tokens": 1500, "points": points, "duration_s": 1500}}})
    )
    out = tmp_path / "out"
    argv = [str(file), "--model", "llama-3.1-8b", "--devices", "L4", "--slo", "ttft_s=4,attainment=0.9", "--jobs", "1"]
    argv += ["--formats", "bf16", "--widest", "1", "--no-split", "--no-mix", "--requests", "800", "--seeds", "2"]
    assert main(["plan", *argv, "--scale", "--start", "provision_s=5", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    result = json.loads((out / "plan.json").read_text())
    assert "simulations of" in printed and result["scaled"]["constant"]["attainment"] >= 0.9
    page = (out / "plan.html").read_text()
    assert ">Arrivals<" in page and "Replicas of L4" in page
    if result["scaled"]["best"] is not None:
        assert "scaler:" in (out / "scenario.yaml").read_text() and "startup:" in (out / "scenario.yaml").read_text()
    assert result["scaled"]["wall_s"] > 0
