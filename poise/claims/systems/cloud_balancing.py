"""Balancing by moving tasks: a search over the whole cluster, and agents that negotiate in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import poise as ps
from poise.claims.answer import Answer, Findings, Ratio
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.sweep import ratio, times, value_of
from poise.core.action import Move
from poise.core.policy import Mover
from poise.core.view import ClusterView
from poise.policies.move.central_search import CentralSearch
from poise.policies.move.negotiation import Negotiation
from poise.policies.route.random_choice import RandomChoice
from poise.report.intervals import Interval, over_seeds

REPLICAS = 16
SIZES = (8, 16, 32)
BELIEF = ps.Belief(period_s=1.0)
RATES = (20.0, 30.0, 40.0)
REQUESTS = 4000
STILL, SEARCH, AGENTS = "no moves", "central_search", "negotiation"


class Tally(list[int]):
    """Numbers that are shared with the copies of whoever writes them."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Tally:
        return self


@dataclass(slots=True)
class Counted:
    """Agents whose messages of each round are written down."""

    agents: Negotiation = field(default_factory=Negotiation)
    rounds: Tally = field(default_factory=Tally)

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return self.agents.needs

    def move(self, cluster: ClusterView) -> Sequence[Move]:
        """The hand-overs of the agents."""
        before = self.agents.messages
        moves = self.agents.move(cluster)
        self.rounds.append(self.agents.messages - before)
        return moves


@dataclass(frozen=True, slots=True)
class Metrics:
    """One run: imbalance, moves for each request, P99 TTFT, and messages of each round and replica."""

    imbalance: float
    moves: float
    tail_s: float
    messages: float = 0.0


def measure(bench: Bench) -> Findings:
    """Loads × movers."""
    movers: dict[str, type[CentralSearch] | type[Counted] | None] = {
        STILL: None, SEARCH: CentralSearch, AGENTS: Counted,
    }  # fmt: skip
    seen = {
        name: {rate: [_run(bench, rate, seed, mover) for seed in range(bench.seeds())] for rate in RATES}
        for name, mover in movers.items()
    }
    counts = {size: _message_counts(bench, size) for size in SIZES}
    criteria = [_evens(seen), _alike(seen), _messages(counts), _few(seen)]
    curves = [
        _curve("Imbalance: variation of used KV over replicas", "number", "imbalance", seen),
        _curve("Moves for each request", "number", "moves", seen),
        _curve("TTFT, 99th percentile", "seconds", "tail_s", seen),
        Curve(
            "Messages for each round and replica",
            "replicas",
            "number",
            {AGENTS: [Point(size, each.value, each.half) for size, each in counts.items()]},
        ),
    ]
    return Findings(criteria, curves)


def _run(
    bench: Bench, rate: float, seed: int, kind: type[CentralSearch] | type[Counted] | None, replicas: int = REPLICAS
) -> Metrics:
    cluster = ps.Cluster.of("A100", count=replicas).replicas(replicas, model="llama-3.1-8b")
    workload = ps.workload.poisson(
        rate, requests=bench.requests(REQUESTS), prompt_tokens=ps.workload.lognormal(1500, 2.0),
        output_tokens=ps.workload.lognormal(300, 1.5), seed=seed,
    )  # fmt: skip
    mover: Mover | None = kind() if kind is not None else None
    policies = ps.Policies(router=RandomChoice(), mover=mover)
    result = bench.simulate(cluster, workload, policies, belief=BELIEF, seed=seed, sample_s=1.0)
    messages = float(np.mean(mover.rounds)) / replicas if isinstance(mover, Counted) else 0.0
    moves = result.metrics().migrations / len(workload)
    return Metrics(imbalance(result, int(workload.arrival[-1])), moves, result.ttft.p99 or 0.0, messages)


def imbalance(result: ps.Result, last: int) -> float:
    """The coefficient of variation of used blocks over replicas, in the mean of samples until the last arrival."""
    used: dict[int, list[int]] = {}
    for at, _, _, _, blocks in result.run.samples:
        if at <= last:
            used.setdefault(at, []).append(blocks)
    return float(np.mean([np.std(each) / np.mean(each) for each in used.values() if sum(each)]))


Runs = dict[str, dict[float, list[Metrics]]]


def _ratio(runs: Runs, own: str, other: str, rate: float) -> Ratio:
    """Imbalance under one mover over that under another."""
    one, two = ([each.imbalance for each in runs[name][rate]] for name in (own, other))
    return ratio(two, one)


def _text(ratios: dict[float, Ratio]) -> str:
    return "; ".join(f"{rate:g}: {times(ratio)}" for rate, ratio in ratios.items())


def _evens(runs: Runs) -> Answer:
    ratios = {name: {rate: _ratio(runs, name, STILL, rate) for rate in RATES} for name in (SEARCH, AGENTS)}
    return Answer(
        "evens",
        "of that without moves: " + "; ".join(f"{name} {_text(each)}" for name, each in ratios.items()),
        [ratio for each in ratios.values() for ratio in each.values()],
    )


def _alike(runs: Runs) -> Answer:
    ratios = {rate: _ratio(runs, AGENTS, SEARCH, rate) for rate in RATES}
    return Answer("alike", f"times that of central search: {_text(ratios)}", list(ratios.values()))


def _message_counts(bench: Bench, replicas: int) -> Interval:
    """Messages of each round and replica in a cluster of another size under the same load for each replica."""
    rate = RATES[1] * replicas / REPLICAS
    return over_seeds([_run(bench, rate, seed, Counted, replicas).messages for seed in range(bench.seeds())])


def _messages(counts: dict[int, Interval]) -> Answer:
    least, most = counts[SIZES[0]].value or 0.0, counts[SIZES[-1]].value or 0.0
    text = "; ".join(f"{size} replicas: {value_of(each)}" for size, each in counts.items())
    return Answer("messages", text, most / least)


def _few(runs: Runs) -> Answer:
    counts = {
        name: {rate: over_seeds([each.moves for each in runs[name][rate]]) for rate in RATES}
        for name in (SEARCH, AGENTS)
    }
    return Answer(
        "few",
        "moves for each request: " + "; ".join(f"{name} {_listed(each)}" for name, each in counts.items()),
        [count for each in counts.values() for count in each.values()],
    )


def _listed(counts: dict[float, Interval]) -> str:
    return "; ".join(f"{rate:g}: {value_of(count)}" for rate, count in counts.items())


def _curve(title: str, kind: Any, figure: str, runs: Runs) -> Curve:
    lines = {
        name: [
            Point(rate, found.value, found.half)
            for rate, seen in by_rate.items()
            for found in [over_seeds([getattr(each, figure) for each in seen])]
        ]
        for name, by_rate in runs.items()
    }
    return Curve(title, "load, req/s", kind, lines)
