"""A run is cut only where it could not hold, and a search that cuts runs finds what one that does not finds."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from poise.core.records.records import Run
from poise.core.spec import Slo
from poise.plan.change import changes
from poise.plan.confirm import confirm
from poise.plan.demand import Demand, demand_of
from poise.plan.early_stop import SloFeasibility, looser
from poise.plan.fleet import Fleet
from poise.plan.goal import Aim
from poise.plan.limits import Limits
from poise.plan.near_misses import closest, smaller
from poise.plan.search import Job, SearchResult, search
from poise.plan.space import space
from poise.plan.trial import Bench
from poise.scenario.simulate import simulate
from poise.sim.terms import Stopping
from poise.workload import poisson, shared_prefixes

from .cases import COST, a_bench, a_demand, a_goal, pools


def a_prefix_demand(rate: float = 30.0) -> Demand:
    """Prompts of which half is shared by some of the others."""
    load = poisson(rate=rate, requests=600, prompt_tokens={"lognormal": {"mean": 400, "cv": 0.8}}, output_tokens=80)
    return demand_of([shared_prefixes(load, groups=20, prefix_tokens=400, zipf=1.0)], name="load", requests=600)


@pytest.mark.parametrize(
    "slo",
    [
        Slo(0.2, 0.03, 3.0),
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in (Slo(0.2, 0.03), Slo(ttft_s=0.1), Slo(tpot_s=0.02), Slo(e2e_s=1.0))
        ),
    ],
)
def test_what_is_cut_could_not_have_held(slo: Slo) -> None:
    bench = Bench(a_prefix_demand(60.0), replace(a_goal(), slo=slo), COST, front_s=0.02)
    cuts = 0
    for pool in pools(1):
        for fleet in [Fleet((replace(pool, replicas=n),), "prefix_cache") for n in (1, 2, 4, 7)]:
            whole = bench.trial(fleet)
            for patience in (1.0, 1.5):
                trial = bench.trial(fleet, patience=patience)
                if not trial.cut:
                    assert trial == whole
                    continue
                cuts += 1
                assert whole.attainment <= trial.attainment, "it is what it could have reached at most"
                assert not whole.meets(bench.goal)
                assert bench.whole(trial) == whole
                limits = looser(slo, patience)
                reached = {name: getattr(whole, name) for name in ("ttft_s", "tpot_s", "e2e_s")}
                over = [
                    v is None or v > getattr(limits, k) for k, v in reached.items() if getattr(limits, k) is not None
                ]
                assert any(over), "the goal's share passed one limit by the factor"
    assert cuts >= 3


def test_what_has_not_come_yet_is_counted_as_met() -> None:
    bench = a_bench()
    fleet = Fleet((replace(pools(1)[0], replicas=1),))
    feasibility, shares = SloFeasibility(bench.slo, 0.95, bench.demand.warmup_s), list[float]()

    def look(run: Run, now: int) -> bool:
        shares.append(feasibility.left(run, now))
        return False

    load = bench.demand.stretches[0]
    run = simulate(fleet.cluster(), load, fleet.policies(), cost=COST, stopping=Stopping(enough=look))
    assert len(shares) > 1 and shares == sorted(shares, reverse=True), "what is missed is missed for good"
    assert feasibility.left(run, run.ended_at) == pytest.approx(bench.trial(fleet).attainment)


def test_a_run_ends_where_enough_was_seen() -> None:
    fleet, load, requests = Fleet((pools(1)[0],)), a_demand().stretches[0], list[int]()

    def enough(run: Run, now: int) -> bool:
        requests.append(now)
        return len(requests) == 2

    run = simulate(fleet.cluster(), load, fleet.policies(), cost=COST, stopping=Stopping(enough=enough))
    assert run.interrupted and len(requests) == 2 and run.ended_at == requests[1]


@pytest.mark.parametrize(
    ("aim", "prefixes"),
    [
        ("cost", True),
        pytest.param("gpus", False, marks=pytest.mark.slow),
        pytest.param("energy", False, marks=pytest.mark.slow),
    ],
)
def test_cuts_change_no_answer(aim: Aim, prefixes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = a_bench(a_prefix_demand(120.0) if prefixes else a_demand(120.0), a_goal(0.15, 0.03, aim))
    where = space(pools(1), bench.demand, bench.goal, COST, mix=False, split=aim != "energy")
    cut = search(where, bench, Limits(bench.goal))
    monkeypatch.setattr(Job, "patience", lambda job, fleet: inf)
    whole = search(where, bench, Limits(bench.goal))
    assert sum(trial.cut for trial in cut.trials) > 3 and not any(trial.cut for trial in whole.trials)
    assert [each.fleet for each in cut.trials] == [each.fleet for each in whole.trials]
    assert cut.best == whole.best and cut.left_out == whole.left_out
    best = confirm(cut, Limits(bench.goal)).best
    assert best is not None and confirm(whole, Limits(bench.goal)).best == best
    assert changes(best, cut.trials, bench) == changes(best, whole.trials, bench)
    bound, again = smaller(best, bench.goal), smaller(best, bench.goal)
    assert cut.settle(bound) == whole.settle(again)


def test_the_closest_to_an_impossible_slo_is_whole() -> None:
    bench = a_bench(goal=a_goal(ttft_s=0.035))
    where = space(pools(), bench.demand, bench.goal, COST, mix=False, split=False)
    found = search(where, bench, Limits(bench.goal))
    if found.winner is not None:
        pytest.skip("the SLO can be met")
    near = found.settle(closest)
    assert near is not None and not near.cut and near == bench.trial(near.fleet)
    assert isinstance(found, SearchResult)
