"""The search finds what trying everything finds, whatever the number of processes, and says so when nothing holds."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from poise.experiment.workers import Workers
from poise.plan.change import headroom, squeezed
from poise.plan.confirm import confirm
from poise.plan.fleet import Fleet
from poise.plan.fleet_template import FleetTemplate
from poise.plan.goal import AIMS, Aim
from poise.plan.limits import Limits
from poise.plan.search import SearchResult, search
from poise.plan.size import climb
from poise.plan.space import space
from poise.plan.trial import Bench, SeedTrial, Trial, joined

from .cases import COST, a_bench, a_demand, a_goal, pools

RUNGS = 8


def everything(kinds: tuple[FleetTemplate, ...], bench: Bench) -> float:
    """The least value of any rung of any kind that holds: each rung of each ladder tried from the bottom."""
    least = float("inf")
    for kind in kinds:
        for rung in range(1, RUNGS + 1):
            trial = bench.trial(kind.fleet(rung))
            if trial.meets(bench.goal):
                least = min(least, trial.value(bench.goal))
                break
    return least


@pytest.mark.parametrize("aim", [aim if aim == "cost" else pytest.param(aim, marks=pytest.mark.slow) for aim in AIMS])
def test_the_best_is_the_best_of_all_rungs(aim: Aim) -> None:
    bench = a_bench(goal=a_goal(minimize=aim))
    where = space(pools(), bench.demand, bench.goal, COST, mix=False)
    found = search(where, bench, Limits(bench.goal))
    winner = found.winner
    assert winner is not None and winner.meets(bench.goal)
    best = everything(where.kinds, bench)
    assert winner.value(bench.goal) <= best * (1 + 1e-9)  # varied settings may do better than any rung


def test_jobs_change_nothing() -> None:
    bench = a_bench()
    where = space(pools(), bench.demand, bench.goal, COST, mix=False, split=False)
    alone, together = (search(where, bench, Limits(bench.goal), workers=Workers(jobs)).winner for jobs in (1, 2))
    assert alone == together


def test_every_better_fleet_is_reported_once_and_each_is_better() -> None:
    bench, seen = a_bench(), list[Trial]()
    where = space(pools(), bench.demand, bench.goal, COST)
    found = search(where, bench, Limits(bench.goal), better=seen.append)
    ranks = [found.rank(trial) for trial in seen]
    assert ranks == sorted(ranks, reverse=True) and len(set(ranks)) == len(ranks)
    assert seen[-1] is found.winner


def test_nothing_within_limits_is_nothing() -> None:
    bench = a_bench()
    where = space(pools(), bench.demand, bench.goal, COST)
    found = search(where, bench, Limits(bench.goal, {"H100-SXM-80GB": 0, "L40S": 0}))
    assert found.winner is None and not found.trials
    assert all("and there are 0" in why for why in found.why.values())


def test_the_time_limit_ends_it_with_what_there_is() -> None:
    bench = a_bench()
    where = space(pools(), bench.demand, bench.goal, COST)
    found = search(where, bench, Limits(bench.goal), time_s=0.0)
    assert found.interrupted
    assert found.winner is not None, "the first kind is always climbed"
    assert len(found.best) < len(where.kinds)


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_ends_it_with_the_best_so_far(jobs: int) -> None:
    bench = a_bench()
    where = space(pools(), bench.demand, bench.goal, COST)
    found = search(
        where, bench, Limits(bench.goal), workers=Workers(jobs), better=lambda _: signal.raise_signal(signal.SIGINT)
    )
    assert found.interrupted and found.winner is not None and found.winner.meets(bench.goal)
    assert len(found.best) < len(where.kinds)


class Stairs:
    """A ladder of one replica more on each rung, which the closed form begins at `first`."""

    name = "stairs"
    watts = 0.0

    def __init__(self, first: int, floor: int) -> None:
        self.first, self.floor = first, floor
        self.pool = pools(1)[0]

    def fleet(self, rung: int) -> Fleet:
        return Fleet((self.pool,)).with_replicas((rung,))


@pytest.mark.parametrize("holds_from", range(1, 14))
@pytest.mark.parametrize(("first", "floor"), [(1, 1), (3, 2), (5, 5), (4, 1)])
def test_a_climb_ends_on_the_lowest_rung_that_holds(holds_from: int, first: int, floor: int) -> None:
    bench = a_bench()
    trial = bench.trial(Stairs(1, 1).fleet(1))

    class Known(Bench):
        """A bench on which so many replicas hold."""

        def trial(self, fleet: Fleet, workloads: object = (), *, patience: float = 0.0) -> Trial:
            from dataclasses import replace

            return replace(trial, fleet=fleet, attainment=float(fleet.replicas >= holds_from))

    known = Known(bench.demand, bench.goal, bench.cost)
    sized = climb(Stairs(first, floor), known, lambda fleet: "")
    if holds_from > 4 * first + 2 * first:  # beyond where a climb gives up
        return
    reached = sized.best.fleet.replicas if sized.best else None
    wanted = max(holds_from, floor)
    assert reached == wanted or (reached is None and holds_from > 4 * first)
    assert len({each.fleet for each in sized.trials}) == len(sized.trials), "no fleet is tried twice"


def test_confirming_asks_for_fresh_seeds() -> None:
    bench = a_bench(a_demand(seeds=3))
    where = space(pools(), bench.demand, bench.goal, COST, split=False, mix=False)
    found = search(where, bench, Limits(bench.goal))
    confirmed = confirm(found, Limits(bench.goal), 20)
    best, fresh = confirmed.best, bench.demand.fresh
    assert best is not None and best.meets(bench.goal) and best.spread is not None
    assert fresh is not None and fresh.first == 3 and not bench.demand.recorded
    seeds = range(fresh.first, fresh.first + best.seeds)
    again = joined([bench.seed_trial(best.fleet, fresh.make(seed - fresh.first), seed) for seed in seeds], 0.95)
    assert replace(again, spread=best.spread) == best
    assert again.spread is not None and again.spread < best.spread, "several looks cost some of the confidence"
    if confirmed.sure is not None:
        assert confirmed.sure.side(bench.goal) == 1
        assert confirmed.sure is best or confirmed.sure.value(bench.goal) > best.value(bench.goal)


def test_workers_change_nothing_in_what_is_confirmed() -> None:
    bench = a_bench(a_demand(seeds=2), a_goal(attainment=0.98))
    where = space(pools(1), bench.demand, bench.goal, COST, split=False, mix=False)
    found = search(where, bench, Limits(bench.goal))
    alone, together = (confirm(found, Limits(bench.goal), 12, Workers(jobs)) for jobs in (1, 2))
    assert alone == together and alone.best is not None


class Shares(Bench):
    """A bench whose fleets meet the SLO in given shares of 100 independent requests a seed."""

    def seed_trial(self, fleet: Fleet, workload: object, seed: int) -> SeedTrial:
        share = SHARES[fleet.replicas](seed)
        return SeedTrial(replace(BLANK, fleet=fleet, attainment=share), 100.0, 100.0)


BLANK = Trial(Fleet(()), 0.0, None, None, None, None, None, 0.0, None, None, 0.0, None, {})
SHARES = {
    1: lambda seed: 0.95 + 0.01 * (seed % 2),  # plainly too small
    2: lambda seed: 0.98 + 0.01 * (seed % 3),  # on the edge
    3: lambda seed: 1.0,  # plainly enough
}


def on_shares(start: int) -> tuple[SearchResult, Bench]:
    """A search that found `start` replicas, on a bench of `SHARES`."""
    bench = a_bench(a_demand(requests=100, seeds=1), a_goal(attainment=0.99))
    known = Shares(bench.demand, bench.goal, bench.cost)
    found = SearchResult(known)
    found.best["stairs"] = replace(BLANK, fleet=Stairs(1, 1).fleet(start), attainment=1.0)
    return found, known


def test_seeds_are_added_until_they_decide() -> None:
    found, bench = on_shares(3)
    confirmed = confirm(found, Limits(bench.goal))
    assert confirmed.best is confirmed.sure and confirmed.sure is not None
    assert confirmed.sure.seeds == 10 and confirmed.times is None, "1,000 requests without a miss, 500 are too few"


def test_a_fleet_on_the_edge_is_not_sure_and_the_next_larger_is() -> None:
    found, bench = on_shares(2)
    confirmed = confirm(found, Limits(bench.goal))
    best, safe = confirmed.best, confirmed.sure
    assert best is not None and best.fleet.replicas == 2 and best.seeds == 30 and best.side(bench.goal) == 0
    assert safe is not None and safe.fleet.replicas == 3 and safe.side(bench.goal) == 1


def test_a_fleet_that_is_too_small_is_given_up_at_the_first_look() -> None:
    found, bench = on_shares(1)
    seen = list[int]()
    confirmed = confirm(found, Limits(bench.goal), progress=lambda _, done, most: seen.append(done))
    assert confirmed.best is not None and confirmed.best.fleet.replicas == 2
    assert seen[:6] == [1, 2, 3, 4, 5, 1]


def test_a_fleet_that_fails_fresh_seeds_is_not_given() -> None:
    bench = a_bench(a_demand(rate=60.0, seeds=2))
    found = SearchResult(bench)
    lucky = bench.trial(Stairs(1, 1).fleet(1))
    assert not lucky.meets(bench.goal)
    found.best["lucky"] = lucky  # as if the searched seed had been kind to it
    confirmed = confirm(found, Limits(bench.goal))
    assert confirmed.best is not None and confirmed.best.fleet.replicas > 1


def test_headroom_is_a_load_that_holds() -> None:
    bench = a_bench(a_demand(rate=12.0))
    fleet = Stairs(1, 1).fleet(4)
    load, beyond = headroom(fleet, bench)
    for factor in (load, *([] if beyond else [load + 1 / 16])):
        loads = [squeezed(each, factor) for each in bench.demand.stretches]
        assert bench.trial(fleet, loads).meets(bench.goal) is (factor == load)
