"""Infinite-LLM: KV of long requests lent to instances that have room, against instances by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from math import exp, log, sqrt
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

import poise as ps
from poise.claims.answer import Answer, Findings, Ratio
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.lent_kv import Cluster, Fleet, Running
from poise.claims.sweep import ratio, times
from poise.core.estimate import StepShape
from poise.core.records.records import Run
from poise.cost.memory import kv_blocks
from poise.cost.roofline import Roofline
from poise.policies.kit.lending import Greedy
from poise.policies.lend.infinite_llm import InfiniteLlm
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.round_robin import RoundRobin
from poise.workload.table import Workload

SIZES, SPREADS, AGES, BUDGETS = (2, 4, 8, 16), (0.0, 1.0, 2.0, 4.0), (0.0, 2.0, 5.0), (0, 16, 64)
ROUTERS: Mapping[str, type[Any]] = {"round_robin": RoundRobin, "least_requests": LeastRequests}
REQUESTS, MOST, LAYERS = 200, 256, 32
MEAN, LONGEST, OUTPUT = 2000, 100_000, 300
CROWD = 16


def measure(bench: Bench) -> Findings:
    """Sizes × spreads of lengths × routers, late reports; budgets of moves and the longest by the event model."""
    requests, seeds = bench.requests(REQUESTS), bench.seeds()
    grids = {
        name: {(n, cv): _Experiment(bench, requests, n, name, cv).gain(seeds)[0] for n in SIZES for cv in SPREADS}
        for name in ROUTERS
    }
    ages = {age: _Experiment(bench, requests, CROWD, "round_robin", 4.0, age).gain(seeds) for age in AGES}
    steps = Steps()
    moves = {each: _moved(steps, requests, each, seeds) for each in BUDGETS}
    criteria = [
        _spread(grids),
        _size(grids),
        _equal(grids),
        _band(grids),
        *_stale(ages),
        _moves(moves),
        _longest(steps),
    ]
    lines = {
        f"spread {cv:g}, {name}": [Point(float(n), grid[n, cv].value) for n in SIZES]
        for name, grid in grids.items()
        for cv in SPREADS
    }
    return Findings(criteria, [Curve("Throughput over that of instances by themselves", "instances", "number", lines)])


def _prompts(requests: int, spread: float, seed: int) -> list[int]:
    """Lognormal lengths; their standard deviation is `spread` times the mean, but for those cut short."""
    chance, sigma = Random(seed), sqrt(log(1 + spread**2))
    drawn = (MEAN * exp(sigma * chance.gauss(0, 1) - sigma**2 / 2) for _ in range(requests))
    return [min(LONGEST, max(16, int(each))) for each in drawn]


class _Experiment(NamedTuple):
    """Simulated instances and their requests. age: seconds by which reports come late."""

    bench: Bench
    requests: int
    instances: int
    router: str
    spread: float
    age: float = 0.0

    def run(self, seed: int, *, lend: bool) -> Run:
        """Until all requests are done."""
        size = self.instances
        model = replace(ps.models("llama-2-7b"), max_context=1 << 20)
        cluster = ps.Cluster.of("A100", count=size).replicas(size, model=model)
        prompts = np.array(_prompts(self.requests * size, self.spread, seed), "i4")
        load = Workload(np.zeros(len(prompts), "i8"), prompts, np.full(len(prompts), OUTPUT, "i4"))
        policies = ps.Policies(router=ROUTERS[self.router](), lender=InfiniteLlm(most=MOST) if lend else None)
        belief = ps.Belief(period_s=1.0, delay_s=self.age)
        return self.bench.simulate(cluster, load, policies, belief=belief, seed=seed).run

    def gain(self, seeds: int) -> tuple[Ratio, list[Run]]:
        """How many times the throughput, and what came of lending."""
        ours = [self.run(seed, lend=True) for seed in range(seeds)]
        theirs = [self.run(seed, lend=False) for seed in range(seeds)]
        return ratio([1 / each.ended_at for each in theirs], [1 / each.ended_at for each in ours]), ours


Grids = Mapping[str, Mapping[tuple[int, float], Ratio]]


def _value(found: Ratio) -> float:
    return found.value or 0.0


def _rises(row: Sequence[Ratio]) -> bool:
    """It never falls, and is more at its end."""
    return _value(row[0]) < _value(row[-1]) and all(_value(one) <= _value(two) for one, two in pairwise(row))


def _rows(rows: Mapping[str, Sequence[Ratio]]) -> str:
    return "; ".join(f"{name}: {', '.join(f'{_value(each):.3f}' for each in row)}" for name, row in rows.items())


def _spread(grids: Grids) -> Answer:
    rows = {f"{router}, {n}": [grid[n, cv] for cv in SPREADS] for router, grid in grids.items() for n in SIZES}
    rises = [sum(_rises(rows[f"{router}, {n}"]) for n in SIZES) for router in grids]
    return Answer("spread", f"{_rows(rows)} times", rises)


def _size(grids: Grids) -> Answer:
    rows = {
        f"{router}, spread {cv:g}": [grid[n, cv] for n in SIZES] for router, grid in grids.items() for cv in SPREADS[1:]
    }
    met = all(map(_rises, rows.values()))
    return Answer("size", f"{_rows(rows)} times", met)


def _equal(grids: Grids) -> Answer:
    rows = {router: [grid[n, 0.0] for n in SIZES] for router, grid in grids.items()}
    return Answer("equal", f"{_rows(rows)} times", [abs(_value(each) - 1) for row in rows.values() for each in row])


def _band(grids: Grids) -> Answer:
    places = [(router, *key) for router, grid in grids.items() for key in grid]
    best = max(places, key=lambda place: _value(_at(grids, place)))
    router, size, spread = best
    return Answer(
        "band",
        f"{times(_at(grids, best))} times, of {size} instances at spread {spread:g} under {router}",
        _value(_at(grids, best)),
    )


def _at(grids: Grids, place: tuple[str, int, float]) -> Ratio:
    router, size, spread = place
    return grids[router][size, spread]


def _stale(ages: Mapping[float, tuple[Ratio, Sequence[Run]]]) -> list[Answer]:
    parts = {age: _refused(runs) for age, (_, runs) in ages.items()}
    text = "; ".join(
        f"{age:g} s: {times(gain)} times, {fmean(each.loans_refused for each in runs):.1f} of "
        f"{fmean(each.loans_refused + each.loans for each in runs):.1f} refused" for age, (gain, runs) in ages.items()
    )  # fmt: skip
    return [
        Answer("refused", text, [parts[age] - parts[AGES[0]] for age in AGES[1:]]),
        Answer("late", text, [_value(gain) for gain, _ in ages.values()]),
    ]


def _refused(runs: Sequence[Run]) -> float:
    refused = sum(each.loans_refused for each in runs)
    return refused / max(1, refused + sum(each.loans for each in runs))


# By the event model --------------------------------------------------------------------------------------------------


class Steps:
    """Seconds of steps, by batch and KV tokens."""

    def __init__(self) -> None:
        pool = ps.Cluster.of("A100", count=1).replicas(1, model="llama-2-7b").pools[0]
        self.capacity = kv_blocks(pool) * pool.engine.block_tokens
        self._pieces = cache(Roofline().build(pool).step)

    def __call__(self, batch: int, read: float) -> float:
        """A step of so many decodes that reads so many KV tokens."""
        piece = self._pieces(StepShape(max(batch, 1))).at(int(read))
        return (piece.base + piece.per_kv * read) / 1e12

    def fleet(self, instances: int, move_tokens: int = 16) -> Fleet:
        """So many instances."""
        return Fleet(instances, self.capacity, MOST, self, LAYERS * 20e-6, move_tokens=move_tokens)

    def planner(self) -> Greedy:
        """The planner of one run."""
        return Greedy(self, self.capacity, MOST)


def _moved(steps: Steps, requests: int, move_tokens: int, seeds: int) -> Ratio:
    """How many times the throughput where so many KV tokens move in a step."""

    def rate(seed: int, planner: Greedy | None) -> float:
        rows = [Running(each, OUTPUT) for each in _prompts(requests * CROWD, 4.0, seed)]
        queues = [iter(rows[place::CROWD]) for place in range(CROWD)]
        return Cluster(steps.fleet(CROWD, move_tokens), queues, planner).run(1e9).tokens_per_s

    return ratio(
        [rate(seed, None) for seed in range(seeds)], [rate(seed, steps.planner()) for seed in range(seeds)]
    )  # fmt: skip


def _moves(moves: Mapping[int, Ratio]) -> Answer:
    text = ", ".join(f"{each}: {times(gain)}" for each, gain in moves.items())
    return Answer("moves", f"tokens a step: {text} times", moves[16])


def _longest(steps: Steps) -> Answer:
    """One request alone among instances that are otherwise idle."""
    found = {}
    for size in (2, 8, 20):
        long = Running(int(0.96 * size * steps.capacity) - 10, 10)
        queues = [iter([long])] + [iter([Running(100, 10)]) for _ in range(size - 1)]
        found[size] = Cluster(steps.fleet(size), queues, steps.planner()).run(1e6).longest / steps.capacity
    text = ", ".join(f"{size} instances: {each:.1f}" for size, each in found.items())
    return Answer("longest", f"{text} times", [found[2] / 1.9, found[20] / 19])
