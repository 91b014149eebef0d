"""PARALLELPROMPT: one request for each item of a prompt, and what becomes of the others meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import poise as ps
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.session_affinity import SessionAffinity
from poise.report.intervals import Interval, over_seeds
from poise.report.seeds import mean
from poise.workload.parallel_prompt import Way, fan_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from poise.scenario.python import Result


CLUSTER = ps.Cluster.of("H100", count=2).replicas(2, model="llama-3.1-8b")
RATES = (5.0, 20.0, 40.0, 60.0, 80.0, 100.0)
REQUESTS = 4000
SERIAL, TOGETHER, APART = "serial", "parallel, one replica", "parallel, unshared"
WAYS: dict[str, tuple[Way, type]] = {
    SERIAL: ("serial", LeastRequests), TOGETHER: ("parallel", SessionAffinity), APART: ("unshared", LeastRequests),
}  # fmt: skip

Runs = dict[tuple[str, float], list["Result"]]


def measure(bench: Bench) -> Findings:
    """Three ways at each rate, on the same prompts."""
    runs: Runs = {}
    for rate in RATES:
        for name, (way, router) in WAYS.items():
            runs[name, rate] = [_run(bench, way, router, rate, seed) for seed in range(bench.seeds())]
    criteria = [_faster(runs), _shrinks(runs), _prefill(runs), _bystanders(runs)]
    return Findings(criteria, _curves(runs))


def _run(bench: Bench, way: Way, router: type, rate: float, seed: int) -> Result:
    base = ps.workload.poisson(rate, requests=bench.requests(REQUESTS), seed=seed)
    return bench.simulate(CLUSTER, fan_out(base, way, seed=seed), ps.Policies(router=router()), seed=seed)


def _program(result: Result) -> float:
    found = result.program
    assert found is not None and found.mean is not None
    return found.mean


def _gain(runs: Runs, rate: float, name: str) -> list[float]:
    """How many times as fast prompts with items are, of each seed."""
    pairs = zip(runs[SERIAL, rate], runs[name, rate], strict=True)
    return [_program(slow) / _program(quick) for slow, quick in pairs]


def _tpot(result: Result) -> float:
    """Mean seconds between tokens of the requests without items."""
    records = result.run.records
    alone = np.asarray(result.run.programs) < 0
    gaps = np.asarray(records.output_tokens)[alone] - 1
    took = (np.asarray(records.ended_at) - np.asarray(records.first_token_at))[alone]
    return float((took[gaps > 0] / gaps[gaps > 0]).mean() / 1e12)


def _faster(runs: Runs) -> Answer:
    leads = {rate: over_seeds([each - 1 for each in _gain(runs, rate, TOGETHER)]) for rate in RATES}
    ahead = sum(lead.apart and (lead.value or 0) > 0 for lead in leads.values())
    return Answer(
        "faster", "; ".join(f"{rate:g}/s: {1 + (lead.value or 0):.2f} times" for rate, lead in leads.items()), ahead
    )


def _shrinks(runs: Runs) -> Answer:
    texts, falls = [], []
    for name in (TOGETHER, APART):
        idle, full = (_gain(runs, rate, name) for rate in (RATES[0], RATES[-1]))
        fall = over_seeds([one - other for one, other in zip(idle, full, strict=True)])
        falls.append(fall.value if fall.apart and fall.value is not None else 0.0)
        texts.append(f"{name}: {mean(idle):.2f} at {RATES[0]:g}/s, {mean(full):.2f} at {RATES[-1]:g}/s")
    met = falls[1] > max(falls[0], 0.0)
    return Answer("shrinks", "; ".join(texts), met)


def _prefill(runs: Runs) -> Answer:
    """Prompt tokens computed, of prompts with items."""

    def computed(result: Result) -> float:
        records, mine = result.run.records, np.asarray(result.run.programs) >= 0
        return float((np.asarray(records.prompt_tokens) - np.asarray(records.cached_tokens))[mine].sum())

    rate = RATES[0]
    tokens = {name: mean([computed(each) for each in runs[name, rate]]) for name in WAYS}
    return Answer(
        "prefill",
        ", ".join(f"{name} {each / tokens[SERIAL]:.2f} of the serial tokens" for name, each in tokens.items()),
        tokens[APART] > 2 * tokens[SERIAL] and tokens[TOGETHER] < 1.1 * tokens[SERIAL],
    )


def _bystanders(runs: Runs) -> Answer:
    """What the others pay, which the paper does not say; told, and no more than half of what there was."""
    costs: dict[tuple[str, float], Interval] = {}
    for name in (TOGETHER, APART):
        for rate in RATES:
            pairs = zip(runs[SERIAL, rate], runs[name, rate], strict=True)
            costs[name, rate] = over_seeds([_tpot(other) / _tpot(one) - 1 for one, other in pairs])
    texts = []
    for name in (TOGETHER, APART):
        each = ", ".join(f"{100 * (costs[name, rate].value or 0):+.1f} %" for rate in RATES)
        texts.append(f"{name}: {each}")
    return Answer("bystanders", "; ".join(texts), [each.value or 0 for each in costs.values()])


def _curves(runs: Runs) -> Sequence[Curve]:
    def line(values: dict[float, list[float]]) -> list[Point]:
        return [Point(rate, (found := over_seeds(each)).value, found.half) for rate, each in values.items()]

    gains = {name: line({rate: _gain(runs, rate, name) for rate in RATES}) for name in (TOGETHER, APART)}
    tpot = {name: line({rate: [_tpot(each) for each in runs[name, rate]] for rate in RATES}) for name in WAYS}
    return [
        Curve("Times as fast as one request with all items", "prompts/s", "number", gains),
        Curve("Time per token of the other requests", "prompts/s", "seconds", tpot),
    ]
