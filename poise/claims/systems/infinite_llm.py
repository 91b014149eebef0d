"""Infinite-LLM: KV of long requests lent to instances that have room, against instances by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from math import exp, log, sqrt
from random import Random
from statistics import fmean
from typing import NamedTuple

import poise as ps
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Curve, Findings, Point
from poise.claims.sweep import Ratio, at_least, ratio, times
from poise.core.estimate import StepShape
from poise.cost.infinite_llm import Cluster, Fleet, Outcome, Running, Told
from poise.cost.memory import kv_blocks
from poise.cost.roofline import Roofline
from poise.policies.lending import Greedy, Loan, Status

CLAIM = Claim(
    system="Infinite-LLM",
    paper="arXiv 2401.02669",
    year=2024,
    slot="cost",
    policies=("infinite_llm", "lending"),
    headline="1.03 to 2.4 times the throughput of instances by themselves (first version; 1.35 to 1.73 times in the "
    "second), contexts 2 to 19 times as long",
    conditions="4 servers of 8 A100-80GB, 125 MB/s between servers; LLaMA2-7B, 13B and 70B; 18 sets of requests from "
    "ShareGPT4, L-Eval and production, up to 2M tokens",
    here="decoding alone, by an event model with the step times of LLaMA2-7B on an A100 by roofline: 2 to 16 "
    "instances, 200 requests for each, all there at the start and dealt out in turn, lognormal prompts of 2,000 tokens "
    "in the mean up to 100,000 and outputs of 300; throughput until all are done; KV of prompts comes from elsewhere; "
    "20 µs a layer to ask and to merge; plans every second; the links' bandwidth, prefill and one large instance are "
    "not tried",
    trust="notes",
)

SIZES, SPREADS, AGES, BUDGETS = (2, 4, 8, 16), (0.0, 1.0, 2.0, 4.0), (0, 2, 5), (0, 16, 64)
REQUESTS, SEEDS, MOST, LAYERS = 200, 5, 256, 32
MEAN, LONGEST, OUTPUT = 2000, 100_000, 300
CROWD = 16


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


class Planner(NamedTuple):
    """The planner, asked by the event model."""

    greedy: Greedy

    def plan(self, table: Sequence[Told]) -> list[Loan]:
        """The loans of one round."""
        return self.greedy.plan([Status(*each) for each in table])


class Trial(NamedTuple):
    """A fleet and its requests."""

    steps: Steps
    requests: int
    instances: int
    spread: float = 4.0
    age: int = 0
    move_tokens: int = 16

    def run(self, seed: int, *, lend: bool) -> Outcome:
        """Until all requests are done."""
        steps, size = self.steps, self.instances
        fleet = Fleet(
            size, steps.capacity, MOST, steps, LAYERS * 20e-6, age=self.age, move_tokens=self.move_tokens
        )  # fmt: skip
        chance, sigma = Random(seed), sqrt(log(1 + self.spread**2))
        prompts = [MEAN * exp(sigma * chance.gauss(0, 1) - sigma**2 / 2) for _ in range(self.requests * size)]
        rows = [Running(min(LONGEST, max(16, int(each))), OUTPUT) for each in prompts]
        planner = Planner(Greedy(steps, steps.capacity, MOST)) if lend else None
        return Cluster(fleet, [iter(rows[place::size]) for place in range(size)], planner).run(1e9)

    def gain(self, seeds: int) -> tuple[Ratio, list[Outcome]]:
        """How many times the throughput, and what came of lending."""
        ours = [self.run(seed, lend=True) for seed in range(seeds)]
        theirs = [self.run(seed, lend=False) for seed in range(seeds)]
        return ratio([each.tokens_per_s for each in theirs], [each.tokens_per_s for each in ours]), ours


def measure(bench: Bench) -> Findings:
    """Sizes × spreads of lengths, old tables, budgets of moves, and the longest request."""
    steps, requests, seeds = Steps(), bench.requests(REQUESTS), bench.seeds(SEEDS)
    grid = {(n, cv): Trial(steps, requests, n, cv).gain(seeds)[0] for n in SIZES for cv in SPREADS}
    ages = {age: Trial(steps, requests, CROWD, age=age).gain(seeds) for age in AGES}
    moves = {each: Trial(steps, requests, CROWD, move_tokens=each).gain(seeds)[0] for each in BUDGETS}
    criteria = [_spread(grid), _size(grid), _equal(grid), _band(grid), *_stale(ages), _moves(moves), _longest(steps)]
    lines = {f"spread {cv:g}": [Point(float(n), grid[n, cv].value) for n in SIZES] for cv in SPREADS}
    return Findings(criteria, [Curve("Throughput over that of instances by themselves", "instances", "number", lines)])


Grid = Mapping[tuple[int, float], Ratio]


def _value(found: Ratio) -> float:
    return found.value or 0.0


def _rises(row: Sequence[Ratio]) -> bool:
    return all(_value(one) <= _value(two) for one, two in pairwise(row))


def _rows(rows: Mapping[str, Sequence[Ratio]]) -> str:
    return "; ".join(f"{name}: {', '.join(f'{_value(each):.3f}' for each in row)}" for name, row in rows.items())


def _spread(grid: Grid) -> Criterion:
    rows = {f"{n} instances": [grid[n, cv] for cv in SPREADS] for n in SIZES}
    rises = sum(map(_rises, rows.values()))
    return Criterion(
        "The gain grows with the spread of lengths (standard deviation 0, 1, 2 and 4 times the mean), at 3 sizes or "
        "more", "grows with variance", f"{_rows(rows)} times", rises >= 3, headline=True,
        why="" if rises >= 3 else "the few longest requests decide, and they differ from seed to seed",
    )  # fmt: skip


def _size(grid: Grid) -> Criterion:
    rows = {f"spread {cv:g}": [grid[n, cv] for n in SIZES] for cv in SPREADS[1:]}
    rises = sum(map(_rises, rows.values()))
    return Criterion(
        "It grows with the number of instances (2, 4, 8, 16), at each spread above 0", "grows with instances",
        f"{_rows(rows)} times", rises == len(rows), headline=True,
        why="" if rises == len(rows) else "the few longest requests decide, and they differ from seed to seed",
    )  # fmt: skip


def _equal(grid: Grid) -> Criterion:
    gains = {n: _value(grid[n, 0.0]) for n in SIZES}
    told = ", ".join(f"{n}: {each:.3f}" for n, each in gains.items())
    met = all(abs(each - 1) <= 0.01 for each in gains.values())
    return Criterion("No gain where all lengths are equal", "1.0 times", f"{told} times", met, headline=True)


def _band(grid: Grid) -> Criterion:
    best = max(grid, key=lambda each: _value(grid[each]))
    met = 1.2 <= _value(grid[best]) <= 4.8
    return Criterion(
        "The largest gain is within a factor 2 of that", "up to 2.4 times",
        f"{times(grid[best])} times, of {best[0]} instances at spread {best[1]:g}", met, headline=True,
        why="" if met else "KV is read as slowly where it is lent, and requests dealt out in turn leave little idle",
    )  # fmt: skip


def _stale(ages: Mapping[int, tuple[Ratio, Sequence[Outcome]]]) -> list[Criterion]:
    told = "; ".join(
        f"{age} s: {times(gain)} times, {fmean(each.refused for each in some):.1f} of "
        f"{fmean(each.loans for each in some):.1f} refused" for age, (gain, some) in ages.items()
    )  # fmt: skip
    refused = {age: sum(each.refused for each in some) for age, (_, some) in ages.items()}
    return [
        Criterion("By an old table some loans are refused, by a new one none", "a table may be stale", told,
                  not refused[0] and all(refused[age] for age in AGES[1:])),
        Criterion("It does not lose by an old table: at least 0.99 times", "wait for the next round", told,
                  all(_value(gain) >= 0.99 for gain, _ in ages.values())),
    ]  # fmt: skip


def _moves(moves: Mapping[int, Ratio]) -> Criterion:
    told = ", ".join(f"{each}: {times(gain)}" for each, gain in moves.items())
    return Criterion(
        "Moving 16 tokens of KV a step loses nothing: at least 0.99 times", "16 are free, 32 cost 8.6 %",
        f"tokens a step: {told} times", at_least(moves[16], 0.99),
    )  # fmt: skip


def _longest(steps: Steps) -> Criterion:
    """One request alone among instances that are otherwise idle."""
    found = {}
    for size in (2, 8, 20):
        fleet = Fleet(size, steps.capacity, MOST, steps, LAYERS * 20e-6)
        long = Running(int(0.96 * size * steps.capacity) - 10, 10)
        queues = [iter([long])] + [iter([Running(100, 10)]) for _ in range(size - 1)]
        planner = Planner(Greedy(steps, steps.capacity, MOST))
        found[size] = Cluster(fleet, queues, planner).run(1e6).longest / steps.capacity
    told = ", ".join(f"{size} instances: {each:.1f}" for size, each in found.items())
    return Criterion(
        "Requests longer than an instance's memory are decoded: 1.9 times with 2 instances, 19 times with 20",
        "2 to 19 times", f"{told} times", found[2] >= 1.9 and found[20] >= 19, headline=True,
    )  # fmt: skip
