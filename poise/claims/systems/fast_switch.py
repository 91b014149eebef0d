"""FastSwitch: swaps of few large copies, beside the steps and of new KV alone, where priorities change at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

import poise as ps
from poise.claims.answer import Answer, Findings, Ratio
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.sweep import at_least, ratio, times
from poise.policies.preempt.fast_switch import FastSwitch

RATES = (0.4, 0.5, 0.6)
FREQUENCIES = (0.0, 0.01, 0.02, 0.04)
CHURN = 0.04
LAUNCHES_US = (2.0, 5.0, 10.0, 20.0)
GROUPS = (1, 4, 16, 64, 256)
LAUNCH_US = 10.0
REQUESTS = 400
OURS, VLLM = "FastSwitch", "vLLM"
PAGED: Mapping[str, Any] = {"run_blocks": 1, "beside": False, "keeps": False}
ALONE: Mapping[str, Mapping[str, Any]] = {
    "block groups alone": {"beside": False, "keeps": False},
    "beside the steps alone": {"run_blocks": 1, "keeps": False},
    "kept copies alone": {"run_blocks": 1, "beside": False},
}


class Metrics(NamedTuple):
    """Seconds to the first token (P95, P99, P99.9) and per output token (P99), and output tokens a second."""

    p95: float
    p99: float
    p999: float
    tpot: float
    rate: float


TAILS = ("p95", "p99", "p999")


@dataclass(frozen=True, slots=True)
class Experiment:
    """Runs of one replica, a seed each."""

    bench: Bench
    launch_us: float = LAUNCH_US
    rate: float = 0.5
    pattern: str = "random"

    def runs(self, frequency: float = CHURN, **how: Any) -> list[Metrics]:
        """Under new priorities so often, with copies like that."""
        policy = FastSwitch(frequency, self.pattern, **how)  # type: ignore[arg-type]
        return [self._run(policy, seed) for seed in range(self.bench.seeds())]

    def _run(self, policy: FastSwitch, seed: int) -> Metrics:
        engine = ps.Engine(prefix_caching=False, host_kv_bytes=60 * 10**9, swap_launch_s=self.launch_us / 1e6)
        cluster = ps.Cluster.of("A10", count=1).replicas(1, model="llama-3.1-8b", engine=engine)
        workload = ps.workload.poisson(
            self.rate, requests=self.bench.requests(REQUESTS), prompt_tokens=ps.workload.lognormal(1300, 1.0, 6000),
            output_tokens=ps.workload.lognormal(500, 0.6, 1500), seed=seed,
        )  # fmt: skip
        records = self.bench.simulate(cluster, workload, ps.Policies(preempt=policy)).run.records
        arrived, first, ended = (
            np.array(each) / 1e12 for each in (records.arrived_at, records.first_token_at, records.ended_at)
        )
        made = np.array(records.output_tokens)
        tails = np.quantile(first - arrived, (0.95, 0.99, 0.999), method="inverted_cdf")
        per_token = np.quantile((ended - first) / np.maximum(made - 1, 1), 0.99, method="inverted_cdf")
        p95, p99, p999 = map(float, tails)
        return Metrics(p95, p99, p999, float(per_token), float(made.sum() / ended.max()))


Grid = Mapping[tuple[float, float], Mapping[str, Sequence[Metrics]]]
"""By rate and frequency: the runs of both."""


def measure(bench: Bench) -> Findings:
    """Frequencies × loads, the parts by themselves, and what a copy costs to begin."""
    grid: dict[tuple[float, float], Mapping[str, Sequence[Metrics]]] = {}
    for rate in RATES:
        experiment = Experiment(bench, rate=rate)
        for frequency in FREQUENCIES:
            grid[rate, frequency] = {OURS: experiment.runs(frequency), VLLM: experiment.runs(frequency, **PAGED)}
    criteria = [_grows(grid), _none_at_rest(grid), _band(grid), _ahead(grid), _per_token(grid), _throughput(grid)]
    parts = {name: Experiment(bench).runs(**how) for name, how in ALONE.items()}
    criteria += [_markov(bench), *_parts(grid, parts), _granularity(bench), _launches(bench)]
    return Findings(criteria, [_curve(grid)])


def gain(runs: Mapping[str, Sequence[Metrics]], figure: str, ours: str = OURS) -> Ratio:
    """How many times as long it takes with vLLM."""
    return ratio(*([float(getattr(seen, figure)) for seen in runs[name]] for name in (ours, VLLM)))


def _value(found: Ratio) -> float:
    return found.value or 0.0


def _gains(grid: Grid, figure: str) -> dict[float, list[Ratio]]:
    """By rate, over the frequencies."""
    return {rate: [gain(grid[rate, each], figure) for each in FREQUENCIES] for rate in RATES}


def _told(gains: Mapping[float, Sequence[Ratio]]) -> str:
    return "; ".join(f"{rate:g} req/s: {', '.join(f'{_value(each):.2f}' for each in gains[rate])}" for rate in gains)


def _grows(grid: Grid) -> Answer:
    gains = _gains(grid, "p99")
    published = {rate: [each[0], *each[2:]] for rate, each in gains.items()}
    met = all(_value(low) < _value(high) for each in published.values() for low, high in pairwise(each))
    return Answer("grows", f"at 0, 0.01, 0.02 and 0.04, {_told(gains)} times", met)


def _none_at_rest(grid: Grid) -> Answer:
    gains = {rate: [gain(grid[rate, 0.0], each) for each in TAILS[:2]] for rate in RATES}
    return Answer(
        "none at rest",
        f"P95, P99: {_told(gains)} times",
        [abs(_value(each) - 1) for both in gains.values() for each in both],
    )


def _band(grid: Grid) -> Answer:
    """The largest gain of all is within a factor 2 of the published one, and those at the published load are gains."""
    tails = {(rate, each): gain(grid[rate, CHURN], each) for rate in RATES for each in TAILS}
    best = max(tails, key=lambda each: _value(tails[each]))
    told = "; ".join(f"{rate:g} req/s: " + ", ".join(times(tails[rate, each]) for each in TAILS) for rate in RATES)
    return Answer("band", f"{_value(tails[best]):.3g} times; P95, P99, P99.9 at {CHURN:g}, {told}", _value(tails[best]))


def _ahead(grid: Grid) -> Answer:
    gains = {(rate, each): gain(grid[rate, each], "p99") for rate in RATES for each in (0.02, 0.04)}
    told = "; ".join(f"{rate:g} req/s, {frequency:g}: {times(found)}" for (rate, frequency), found in gains.items())
    return Answer("ahead", f"{told} times", list(gains.values()))


def _per_token(grid: Grid) -> Answer:
    gains = _gains(grid, "tpot")
    best = max(_value(each) for some in gains.values() for each in some)
    return Answer("per token", f"{best:.3g} times; at 0, 0.01, 0.02 and 0.04, {_told(gains)} times", best)


def _throughput(grid: Grid) -> Answer:
    found = {rate: ratio(*([seen.rate for seen in grid[rate, CHURN][name]] for name in (VLLM, OURS))) for rate in RATES}
    best = max(_value(each) for each in found.values())
    told = "; ".join(f"{rate:g} req/s: {times(each)}" for rate, each in found.items())
    return Answer("throughput", f"{told} times, at {CHURN:g}", best)


def _markov(bench: Bench) -> Answer:
    experiment = Experiment(bench, pattern="markov")
    gains = [
        gain({OURS: experiment.runs(each), VLLM: experiment.runs(each, **PAGED)}, "p99") for each in FREQUENCIES
    ]  # fmt: skip
    met = all(_value(low) < _value(high) for low, high in pairwise(gains))
    return Answer("markov", f"at 0, 0.01, 0.02 and 0.04, 0.5 req/s: {', '.join(map(times, gains))} times", met)


def _parts(grid: Grid, parts: Mapping[str, Sequence[Metrics]]) -> list[Answer]:
    """Each of the three by itself, at 0.5 req/s."""
    runs = {**grid[0.5, CHURN], **parts}
    found = {name: gain(runs, "p99", name) for name in (*ALONE, OURS)}
    told = "; ".join(f"{name} {times(each)}" for name, each in found.items())
    less = {name: _value(each) <= _value(found[OURS]) for name, each in found.items()}
    return [
        Answer("parts", f"P99 to the first token, {told} times", [found[name] for name in ALONE]),
        Answer("together", f"{told} times", all(less.values())),
    ]


def _granularity(bench: Bench) -> Answer:
    means = {
        size: float(np.mean([seen.p99 for seen in Experiment(bench).runs(**{**PAGED, "run_blocks": size})]))
        for size in GROUPS
    }
    falls = [means[size] for size in GROUPS]
    return Answer(
        "granularity",
        ", ".join(f"{size}: {each:.3g} s" for size, each in means.items()),
        falls[0] > falls[1] > falls[2] and falls[2] - falls[4] < falls[0] - falls[2],
    )


def _launches(bench: Bench) -> Answer:
    found = {}
    for each in LAUNCHES_US:
        experiment = Experiment(bench, launch_us=each)
        found[each] = gain({OURS: experiment.runs(), VLLM: experiment.runs(**PAGED)}, "p99")
    told = "; ".join(f"{each:g} µs: {times(one)}" for each, one in found.items())
    gains = [_value(each) for each in found.values()]
    return Answer("launches", f"{told} times", gains == sorted(gains) and at_least(found[LAUNCHES_US[0]], 1.0) is True)


def _curve(grid: Grid) -> Curve:
    lines = {
        f"{name}, {rate:g} req/s": [
            Point(each, float(np.mean([seen.p99 for seen in grid[rate, each][name]]))) for each in FREQUENCIES
        ]
        for rate in (RATES[0], RATES[-1])
        for name in (OURS, VLLM)
    }
    return Curve("P99 to the first token by frequency of new priorities", "new priorities a step", "seconds", lines)
