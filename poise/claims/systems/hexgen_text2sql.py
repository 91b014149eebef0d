"""HexGen-Text2SQL: steps of queries to the replica that is fast for them and not too busy, the most urgent first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

import poise as ps
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.programs import Ladder, completion_s
from poise.claims.sweep import ratio, times
from poise.core.policy import Predictor
from poise.core.spec import Cluster
from poise.policies.predict.by_stage import ByStage
from poise.policies.predict.constant import Constant
from poise.policies.predict.noisy import Noisy
from poise.policies.predict.oracle import Oracle
from poise.policies.queue.hexgen_text2sql import HexgenText2sql as Urgency
from poise.policies.route.hexgen_text2sql import HexgenText2sql as Dispatch
from poise.policies.route.round_robin import RoundRobin
from poise.report.intervals import over_seeds

if TYPE_CHECKING:
    from poise.workload import Workload


DEVICES = ("H100", "A100", "L40S", "A40")
ENGINE = ps.Engine(prefix_caching=False)
CLUSTER = Cluster(
    tuple(
        pool
        for device in DEVICES
        for pool in ps.Cluster.of(device, count=1).replicas(1, model="llama-3.1-8b", engine=ENGINE).pools
    )
)
LOADS = (0.1, 0.2, 0.35, 0.5, 0.65)
GRID = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
GRID_LOAD = 0.5
ALPHA, SLO_S = 0.4, 52.95
QUERIES = 150
RATES = (12_000.0, 80.0)
"""Prompt and output tokens per second by which stages are weighed for the urgency: of a middling replica."""

ROUND, DISPATCH, URGENT = "round robin, FCFS", "dispatch, FCFS", "dispatch, urgency"
TAILS = Mapping[float, Sequence[float]]


def measure(bench: Bench) -> Findings:
    """Loads × systems, the weight of speed, and how outputs are foretold."""
    trace = bench.trace()
    bundles = {
        ROUND: ps.Policies(router=RoundRobin()),
        DISPATCH: ps.Policies(router=Dispatch(ALPHA), predictor=ByStage()),
        URGENT: ps.Policies(router=Dispatch(ALPHA), predictor=ByStage(), queue=_urgency(trace)),
    }
    tails = Ladder("load, queries/s", {name: {load: _tails(bench, trace, load, each) for load in LOADS}
                                       for name, each in bundles.items()})  # fmt: skip
    grid = {alpha: _tails(bench, trace, GRID_LOAD, _weighed(alpha, ByStage())) for alpha in GRID}
    foretellers: dict[str, Predictor] = {"oracle": Oracle(), "with error": Noisy(), "constant": Constant(256)}
    told = {name: _tails(bench, trace, GRID_LOAD, _weighed(ALPHA, each)) for name, each in foretellers.items()}
    criteria = [
        tails.faster("dispatch", DISPATCH, ROUND),
        tails.faster("urgency", URGENT, DISPATCH),
        _interior(grid),
        _deadline(tails),
        _foretold(told, tails.runs[DISPATCH][GRID_LOAD]),
    ]
    lines = {"dispatch, FCFS": [Point(alpha, found.value, found.half) for alpha, seeds in grid.items()
                                for found in [over_seeds(list(seeds))]]}  # fmt: skip
    weights = Curve(f"The same by the weight of speed, {GRID_LOAD:g} queries/s", "alpha", "seconds", lines)
    return Findings(criteria, [tails.curve("95th percentile of queries' time"), weights])


def _weighed(alpha: float, predictor: Predictor) -> ps.Policies:
    return ps.Policies(router=Dispatch(alpha), predictor=predictor)


def _tails(bench: Bench, trace: Workload, load: float, policies: ps.Policies) -> list[float]:
    """The 95th percentile of the time of queries, for each seed."""
    found = []
    for seed in range(bench.seeds()):
        starts = ps.workload.poisson(load, requests=bench.requests(QUERIES), seed=seed)
        queries = ps.workload.recorded_sessions(starts, trace, seed=seed)
        result = bench.simulate(CLUSTER, queries, policies, seed=seed)
        found.append(float(np.quantile(completion_s(result, queries), 0.95)))
    return found


def _urgency(trace: Workload) -> Urgency:
    """The order with the mean seconds of each stage, and of what is left of a query at it."""
    assert trace.stage is not None and trace.session is not None
    took = trace.prompt / RATES[0] + trace.output / RATES[1]
    stages = range(len(trace.stages))
    seconds = {stage: float(took[trace.stage == stage].mean()) for stage in stages}
    mean = np.array([seconds[stage] for stage in stages])[trace.stage]
    total = np.bincount(trace.session, mean)
    done = np.array([mean[:row][trace.session[:row] == trace.session[row]].sum() for row in range(len(trace))])
    rest = total[trace.session] - done
    return Urgency(SLO_S, seconds, {stage: float(rest[trace.stage == stage].mean()) for stage in stages})


def _interior(grid: TAILS) -> Answer:
    means = {alpha: sum(seeds) / len(seeds) for alpha, seeds in grid.items()}
    best = min(means, key=lambda alpha: means[alpha])
    ends = {alpha: ratio(grid[best], grid[alpha]) for alpha in (GRID[0], GRID[-1])}
    inside = best not in ends
    sure = inside and all(each.low is not None and each.low > 1 for each in ends.values())
    return Answer(
        "interior",
        f"best at {best:g}; over it: " + "; ".join(f"{alpha:g} {times(each)}" for alpha, each in ends.items()),
        True if sure else None if inside else False,
    )


def _deadline(tails: Ladder) -> Answer:
    """How much tighter a deadline that 95 % keep may be, at the load where the gain is least unlike the published."""
    ratios = tails.ratios(URGENT, ROUND)
    [each.value for each in ratios.values() if each.value]
    return Answer(
        "deadline", "; ".join(f"at {load:g}: {times(each)}" for load, each in ratios.items()), list(ratios.values())
    )


def _foretold(told: Mapping[str, Sequence[float]], own: Sequence[float]) -> Answer:
    ratios = {name: ratio(own, each) for name, each in told.items()}
    return Answer(
        "foretold",
        "over means by stage: " + "; ".join(f"{name} {times(each)}" for name, each in ratios.items()),
        list(ratios.values()),
    )
