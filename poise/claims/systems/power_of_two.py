"""Power of two choices: the less loaded of two drawn servers is nearly as good as the least loaded of all."""

from __future__ import annotations

import numpy as np

import poise as ps
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Curve, Findings, Point
from poise.claims.sweep import value_of
from poise.core.policy import Router
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.power_of_two import PowerOfTwo
from poise.policies.route.random_choice import RandomChoice
from poise.report.intervals import Interval, over_seeds
from poise.report.wording import write

CLAIM = Claim(
    system="Power of two choices",
    paper="Mitzenmacher, IEEE TPDS 12(10)",
    year=2001,
    slot="router",
    policies=("power_of_two",),
    others=("random_choice", "least_requests"),
    headline="time in the system of Σ λ^(2^i − 2) services in place of 1/(1 − λ), over i from 1: exponentially less",
    conditions="many servers, Poisson arrivals at λ of their capacity, exponential service, exact loads",
    here="64 replicas that serve one request at a time, outputs geometric with a mean of 200 steps, true loads; "
    "a service is measured on a request alone",
    trust="text",
)

SERVERS, LOADS = 64, (0.5, 0.7, 0.8, 0.9)
REQUESTS, SEEDS, STEPS = 60_000, 3, 200
CLUSTER = ps.Cluster.of("H100", count=SERVERS).replicas(
    SERVERS, model="llama-3.1-8b", engine=ps.Engine(max_sequences=1, prefix_caching=False)
)
ROUTERS: dict[str, type[Router]] = {"random": RandomChoice, "two": PowerOfTwo, "all": LeastRequests}


def expected(load: float, choices: int) -> float:
    """Time in the system over service for many servers: the supermarket model's closed form."""
    if choices == 1:
        return 1 / (1 - load)
    return float(sum(load ** ((choices**each - choices) / (choices - 1)) for each in range(1, 12)))


def measure(bench: Bench) -> Findings:
    """Loads × routers."""
    service = _service(bench)
    found = {name: {load: _times(bench, load, kind, service) for load in LOADS} for name, kind in ROUTERS.items()}
    curve = Curve(
        "Time in the system, in services", "load", "number",
        {
            **{name: [Point(x, each.value, each.half) for x, each in told.items()] for name, told in found.items()},
            "random, formula": [Point(load, expected(load, 1)) for load in LOADS],
            "two, formula": [Point(load, expected(load, 2)) for load in LOADS],
        },
    )  # fmt: skip
    return Findings([_close(found["two"], 2, True), _close(found["random"], 1, False), _between(found)], [curve])


def _service(bench: Bench) -> float:
    """Seconds of one output step of a lone request."""
    alone = ps.workload.constant(0.01, requests=2, prompt_tokens=1, output_tokens=STEPS + 1)
    return (bench.simulate(CLUSTER, alone).tpot.mean or 0.0) * STEPS


def _times(bench: Bench, load: float, kind: type[Router], service: float) -> Interval:
    """The mean time in the system over the mean service, the first tenth of the requests left out."""
    told = []
    for seed in range(bench.seeds(SEEDS)):
        requests = bench.requests(REQUESTS)
        workload = ps.workload.poisson(
            load * SERVERS / service, requests=requests, prompt_tokens=1,
            output_tokens=ps.workload.geometric(STEPS), seed=seed,
        )  # fmt: skip
        belief = ps.Belief(period_s=0.0, delay_s=0.0)
        records = bench.simulate(CLUSTER, workload, ps.Policies(router=kind()), belief=belief, seed=seed).run.records
        spent = np.array(records.ended_at) - np.array(records.arrived_at)
        own = np.array(records.output_tokens).mean() / STEPS * service
        told.append(float(spent[requests // 10 :].mean()) / 1e12 / own)
    return over_seeds(told)


def _close(found: dict[float, Interval], choices: int, headline: bool) -> Criterion:
    off = {load: (each.value or 0.0) / expected(load, choices) - 1 for load, each in found.items()}
    name = {1: "Random choice", 2: "Two choices"}[choices]
    return Criterion(
        f"{name}: within 10 % of the formula at every load",
        ", ".join(f"{load:g}: {expected(load, choices):.3f}" for load in found),
        "; ".join(f"{load:g}: {value_of(found[load])} ({write(off[load], 'share', 2)} off)" for load in found),
        all(abs(each) <= 0.1 for each in off.values()), headline=headline,
    )  # fmt: skip


def _between(found: dict[str, dict[float, Interval]]) -> Criterion:
    """Two choices close most of the gap between random and all."""
    closed = {
        load: ((found["random"][load].value or 0) - (found["two"][load].value or 0))
        / ((found["random"][load].value or 0) - (found["all"][load].value or 0))
        for load in LOADS
    }
    return Criterion(
        "The second choice closes half or more of the gap to the least loaded of all, at every load",
        "the second choice is worth most", "; ".join(f"{load:g}: {each:.0%}" for load, each in closed.items()),
        all(each >= 0.5 for each in closed.values()),
    )  # fmt: skip
