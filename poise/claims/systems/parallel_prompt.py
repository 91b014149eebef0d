"""PARALLELPROMPT: one request for each item of a prompt, and what becomes of the others meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import poise as ps
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Curve, Findings, Point
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.session_affinity import SessionAffinity
from poise.report.intervals import Interval, over_seeds
from poise.report.seeds import mean
from poise.workload.parallel_prompt import Way, fan_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from poise.scenario.python import Result

CLAIM = Claim(
    system="PARALLELPROMPT",
    paper="arXiv 2506.18728",
    year=2025,
    slot="workload",
    policies=("parallel_prompt",),
    others=("least_requests", "session_affinity"),
    headline="up to 5 times lower latency by asking for each item of a prompt by itself; 10.3 % of prompts have items",
    conditions="37,000 prompts of LMSYS-Chat-1M and WildChat-1M, by category; serial and parallel calls of models",
    here="two replicas of Llama-3.1-8B on an H100 each; Poisson arrivals, 512/128 tokens; 10.3 % of the prompts have 2 "
    "to 10 items, 400 shared tokens, 40 and 60 each; as one request, as one for each on the same replica (shared "
    "prefix), or anywhere without one. Splitting and joining take no time, and the quality of answers is not tried",
    trust="abstract",
)

CLUSTER = ps.Cluster.of("H100", count=2).replicas(2, model="llama-3.1-8b")
RATES = (5.0, 20.0, 40.0, 60.0, 80.0, 100.0)
REQUESTS, SEEDS = 4000, 3
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
            runs[name, rate] = [_run(bench, way, router, rate, seed) for seed in range(bench.seeds(SEEDS))]
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


def _faster(runs: Runs) -> Criterion:
    leads = {rate: over_seeds([each - 1 for each in _gain(runs, rate, TOGETHER)]) for rate in RATES}
    ahead = sum(lead.apart and (lead.value or 0) > 0 for lead in leads.values())
    return Criterion(
        "Faster at 3 loads or more, with a shared prefix", "faster in every category",
        "; ".join(f"{rate:g}/s: {1 + (lead.value or 0):.2f} times" for rate, lead in leads.items()),
        ahead >= 3, headline=True,
    )  # fmt: skip


def _shrinks(runs: Runs) -> Criterion:
    told, falls = [], []
    for name in (TOGETHER, APART):
        idle, full = (_gain(runs, rate, name) for rate in (RATES[0], RATES[-1]))
        fall = over_seeds([one - other for one, other in zip(idle, full, strict=True)])
        falls.append(fall.value if fall.apart and fall.value is not None else 0.0)
        told.append(f"{name}: {mean(idle):.2f} at {RATES[0]:g}/s, {mean(full):.2f} at {RATES[-1]:g}/s")
    met = falls[1] > max(falls[0], 0.0)
    return Criterion(
        "The gain shrinks as the engines fill, and more without a shared prefix", "not published", "; ".join(told), met,
        why="" if met else "the engines are not full enough at the highest rate",
    )  # fmt: skip


def _prefill(runs: Runs) -> Criterion:
    """Prompt tokens computed, of prompts with items."""

    def computed(result: Result) -> float:
        records, mine = result.run.records, np.asarray(result.run.programs) >= 0
        return float((np.asarray(records.prompt_tokens) - np.asarray(records.cached_tokens))[mine].sum())

    rate = RATES[0]
    tokens = {name: mean([computed(each) for each in runs[name, rate]]) for name in WAYS}
    return Criterion(
        "Without a shared prefix the context is computed for each item; with one, once",
        "prefill tokens times n without sharing",
        ", ".join(f"{name} {each / tokens[SERIAL]:.2f} of the serial tokens" for name, each in tokens.items()),
        tokens[APART] > 2 * tokens[SERIAL] and tokens[TOGETHER] < 1.1 * tokens[SERIAL],
    )  # fmt: skip


def _bystanders(runs: Runs) -> Criterion:
    """What the others pay, which the paper does not say; told, and no more than half of what there was."""
    costs: dict[tuple[str, float], Interval] = {}
    for name in (TOGETHER, APART):
        for rate in RATES:
            pairs = zip(runs[SERIAL, rate], runs[name, rate], strict=True)
            costs[name, rate] = over_seeds([_tpot(other) / _tpot(one) - 1 for one, other in pairs])
    told = []
    for name in (TOGETHER, APART):
        each = ", ".join(f"{100 * (costs[name, rate].value or 0):+.1f} %" for rate in RATES)
        told.append(f"{name}: {each}")
    met = all((each.value or 0) < 0.5 for each in costs.values())
    return Criterion(
        "Other requests' time per token is at most 1.5 times what it was", "not published; must be told",
        "; ".join(told), met, why="" if met else "without a shared prefix the context is computed again for each item",
    )  # fmt: skip


def _curves(runs: Runs) -> Sequence[Curve]:
    def line(values: dict[float, list[float]]) -> list[Point]:
        return [Point(rate, (found := over_seeds(each)).value, found.half) for rate, each in values.items()]

    gains = {name: line({rate: _gain(runs, rate, name) for rate in RATES}) for name in (TOGETHER, APART)}
    tpot = {name: line({rate: [_tpot(each) for each in runs[name, rate]] for rate in RATES}) for name in WAYS}
    return [
        Curve("Times as fast as one request with all items", "prompts/s", "number", gains),
        Curve("Time per token of the other requests", "prompts/s", "seconds", tpot),
    ]
