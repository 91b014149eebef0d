"""Power of two choices: the less loaded of two drawn servers is nearly as good as the least loaded of all."""

from __future__ import annotations

import numpy as np

import poise as ps
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.sweep import value_of
from poise.core.policy import Router
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.power_of_two import PowerOfTwo
from poise.policies.route.random_choice import RandomChoice
from poise.report.intervals import Interval, over_seeds
from poise.report.wording import write

SERVERS, LOADS = 64, (0.5, 0.7, 0.8, 0.9)
REQUESTS, STEPS = 60000, 200
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
    return Findings([_close(found["two"], 2), _close(found["random"], 1), _between(found)], [curve])


def _service(bench: Bench) -> float:
    """Seconds of one output step of a lone request."""
    alone = ps.workload.constant(0.01, requests=2, prompt_tokens=1, output_tokens=STEPS + 1)
    return (bench.simulate(CLUSTER, alone).tpot.mean or 0.0) * STEPS


def _times(bench: Bench, load: float, kind: type[Router], service: float) -> Interval:
    """The mean time in the system over the mean service, the first tenth of the requests left out."""
    told = []
    for seed in range(bench.seeds()):
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


def _close(found: dict[float, Interval], choices: int) -> Answer:
    off = {load: (each.value or 0.0) / expected(load, choices) - 1 for load, each in found.items()}
    name = {1: "Random choice", 2: "Two choices"}[choices]
    return Answer(
        name,
        "; ".join(f"{load:g}: {value_of(found[load])} ({write(off[load], 'share', 2)} off)" for load in found),
        [abs(each) for each in off.values()],
    )


def _between(found: dict[str, dict[float, Interval]]) -> Answer:
    """Two choices close most of the gap between random and all."""
    closed = {
        load: ((found["random"][load].value or 0) - (found["two"][load].value or 0))
        / ((found["random"][load].value or 0) - (found["all"][load].value or 0))
        for load in LOADS
    }
    return Answer("between", "; ".join(f"{load:g}: {each:.0%}" for load, each in closed.items()), list(closed.values()))
