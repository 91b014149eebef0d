"""FlowPrefill: prompts computed whole, left between layers for those that are more urgent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

import poise as ps
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.stalls import capacity
from poise.claims.sweep import ratio, times
from poise.core.view import LaneView
from poise.policies.batch.chunked import Chunked
from poise.policies.batch.flow_prefill import FlowPrefill

KINDS = ((0.70, 500, 0.5), (0.25, 4000, 2.0), (0.05, 24_000, 15.0))
"""Part of the requests, mean prompt and limit of the first token in seconds, of each type of task."""
CV, MET = 0.4, 0.9
REQUESTS, MOST, EPSILON = 1000, 16.0, 0.1
LOADS = (2.0, 3.0, 4.0, 5.0, 7.0)
WHOLE = 65_536
FLOW, DUE, ORDER = "FlowPrefill", "FlowPrefill by deadline", "in order"
SMALL, LARGE = "chunks of 2,048, EDF", "chunks of 8,192, EDF"


class Counted(FlowPrefill):
    """Counts how often it is asked where there is something to choose."""

    asked = 0

    def batch(self, lane: LaneView) -> Any:
        """As it would, counted for all copies together."""
        Counted.asked += bool(lane.prefilling or lane.waiting)
        return FlowPrefill.batch(self, lane)


def batchers() -> dict[str, Any]:
    """The systems by name."""
    return {
        FLOW: FlowPrefill(),
        DUE: FlowPrefill(rank="deadline"),
        SMALL: FlowPrefill(leave=False, chunk=2048, rank="edf"),
        LARGE: FlowPrefill(leave=False, chunk=8192, rank="edf"),
        ORDER: Chunked(WHOLE),
    }


FORESIGHTS = {
    "predictions by the cost model": FlowPrefill(),
    "off by a factor of 1.65": FlowPrefill(sigma=0.5),
    "0.1 s for everybody": FlowPrefill(constant_s=0.1),
}


@dataclass(frozen=True, slots=True)
class Experiment:
    """Runs of one replica. kinds: as in `KINDS`."""

    bench: Bench
    kinds: Sequence[tuple[float, int, float]] = KINDS

    def in_time(self, batcher: Any, rate: float, seed: int) -> float:
        """The part of requests whose first token is in time."""
        engine = ps.Engine(token_budget=2048 if _chunked(batcher, 2048) else WHOLE, prefix_caching=False)
        cluster = ps.Cluster.of("A100", count=1).replicas(1, model="llama-3.1-8b", engine=engine)
        workload = self.workload(rate, seed)
        assert workload.deadline is not None
        records = self.bench.simulate(cluster, workload, ps.Policies(batcher=batcher)).run.records
        took = np.array(records.first_token_at) - np.array(records.arrived_at)
        return float(((took <= workload.deadline) & (np.array(records.first_token_at) >= 0)).mean())

    def workload(self, rate: float, seed: int) -> ps.workload.Workload:
        """Requests of all types at random, each with the limit of its own."""
        requests = self.bench.requests(REQUESTS)
        some = ps.workload.poisson(rate, requests=requests, prompt_tokens=1, output_tokens=1, seed=seed)
        rng = np.random.default_rng(seed)
        kind = rng.choice(len(self.kinds), requests, p=[part for part, _, _ in self.kinds])
        sigma = np.sqrt(np.log1p(CV**2))
        means = np.array([mean for _, mean, _ in self.kinds])[kind]
        prompt = np.clip(means * np.exp(sigma * rng.standard_normal(requests) - sigma**2 / 2), 16, 60_000)
        due = (np.array([limit for _, _, limit in self.kinds])[kind] * 1e12).astype("i8")
        return replace(some, prompt=prompt.astype("i4"), deadline=due)

    def capacity(self, batcher: Any) -> list[float]:
        """The highest rate with enough in time, for each seed."""

        def meets(rate: float, seed: int) -> bool:
            return self.in_time(batcher, rate, seed) >= MET

        return capacity(meets, self.bench.seeds(), MOST, EPSILON)


def _chunked(batcher: Any, tokens: int) -> bool:
    return getattr(batcher, "chunk", 0) == tokens


def measure(bench: Bench) -> Findings:
    """Highest rates of all systems; one limit for all; predictions; how often it is asked."""
    experiment = Experiment(bench)
    found = {name: experiment.capacity(each) for name, each in batchers().items()}
    alike = Experiment(bench, ((1.0, 1000, 1.0),))
    one = {name: alike.capacity(each) for name, each in batchers().items() if name in (FLOW, ORDER)}
    shares = _shares(bench)
    guesses = {name: experiment.capacity(each) for name, each in FORESIGHTS.items()}
    criteria = [
        *_over(found), _order(shares), _one_limit(one), _foresight(guesses, found), _asked(bench),
    ]  # fmt: skip
    return Findings(criteria, [_curve(shares)])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _over(found: Mapping[str, Sequence[float]]) -> list[Answer]:
    """The highest rate beside those of the others, each within its published band by half as much again."""
    told = ", ".join(f"{name} {_mean(each):.2f}" for name, each in found.items())
    return [
        Answer(
            f"over {name}", f"{times(each)} times (req/s: {told})" if name == ORDER else f"{times(each)} times", each
        )
        for name in (ORDER, SMALL, LARGE)
        for each in [ratio(found[name], found[FLOW])]
    ]


Shares = Mapping[str, Mapping[float, float]]
"""By system and load the part of first tokens in time."""


def _order(shares: Shares) -> Answer:
    """The order of systems, load by load."""
    systems = (FLOW, SMALL, LARGE, ORDER)  # by deadline it is no system of the paper's
    ordered = [
        load for load in LOADS
        if all(shares[one][load] >= shares[two][load] - 0.005 for one, two in pairwise(systems))
    ]  # fmt: skip
    told = "; ".join(f"{load:g}: {', '.join(f'{100 * shares[each][load]:.1f}' for each in systems)}" for load in LOADS)
    return Answer("order", f"%, by req/s: {told}", len(ordered))


def _shares(bench: Bench) -> Shares:
    experiment, seeds = Experiment(bench), range(bench.seeds())
    return {
        name: {load: _mean([experiment.in_time(each, load, seed) for seed in seeds]) for load in LOADS}
        for name, each in batchers().items()
    }


def _one_limit(one: Mapping[str, Sequence[float]]) -> Answer:
    found = ratio(one[ORDER], one[FLOW])
    return Answer("one limit", f"{times(found)} times", found)


def _foresight(guesses: Mapping[str, Sequence[float]], found: Mapping[str, Sequence[float]]) -> Answer:
    told = ", ".join(f"{name} {_mean(each):.2f}" for name, each in guesses.items())
    return Answer("foresight", f"req/s: {told}", min(map(_mean, guesses.values())) / _mean(found[ORDER]))


def _asked(bench: Bench) -> Answer:
    Counted.asked = 0
    Experiment(bench).in_time(Counted(), 4.0, 0)
    each = Counted.asked / bench.requests(REQUESTS)
    return Answer("asked", f"{each:.2f} times", each)


def _curve(shares: Shares) -> Curve:
    lines = {name: [Point(load, each) for load, each in line.items()] for name, line in shares.items()}
    return Curve("First tokens in time", "load, req/s", "share", lines)
