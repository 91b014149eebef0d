"""Pages made of runs by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from poise.core.records.blame import DECODE, QUEUE, Blame
from poise.core.records.records import ReplicaStats, Run
from poise.core.spec import Belief, Slo
from poise.core.units import ps
from poise.report.blame import samples
from poise.report.curves import latency_curves, replica_curves
from poise.report.figures import ATTAINMENT, Case
from poise.report.findings import Findings, Judged, Limit, Tried
from poise.report.html import About
from poise.report.intervals import Interval
from poise.report.metrics import combine, measure
from poise.report.verdict import judge
from poise.report.worst import as_rows, worst

from .runs import Row, a_cluster, a_run

SLO = Slo(ttft_s=2.0)


def about(**more: Any) -> About:
    return About("A title", Belief(), "vllm v1", {"kind": "table", "fit": {"error": 0.07}}, [3], **more)


def blamed(run: Run) -> Run:
    """The run with its time charged: until the first token to the queue, from there to decoding."""
    run.blame = Blame(run.records.rows)
    for row in range(run.records.rows):
        if run.records.first_token_at[row] >= 0:
            run.blame.ttft[QUEUE][row] = run.records.first_token_at[row] - run.records.arrived_at[row]
            run.blame.rest[DECODE][row] = run.records.ended_at[row] - run.records.first_token_at[row]
    return run


def case_of(policy: str, runs: list[Run], load: float | None, **more: Any) -> Case:
    """A case of some seeds, with everything that can be drawn of the first."""
    first = runs[0]
    return Case(
        policy,
        combine([measure(run, a_cluster(len(run.replicas), price=1.0), SLO) for run in runs]),
        load,
        None if load is None else 10 * load,
        latency_curves(first),
        replica_curves(first),
        {name: as_rows(each) for name, each in worst(first).items()},
        samples(first),
        **more,
    )


def case(policy: str, load: float | None, *first_at: float) -> Case:
    """Two requests a seed on one replica; the first has its first token at `first_at`."""
    rows = [[Row(0.0, 0.0, at, 5.0, prompt=10, output=3), Row(1.0, 1.0, 2.0, 2.0, output=1)] for at in first_at]
    samples = [(0, 0, 1, 1, 1), (ps(5), 0, 2, 2, 2)]
    return case_of(policy, [blamed(a_run(some, samples=samples)) for some in rows], load)


def findings(cases: list[Case], **more: Any) -> Findings:
    """What would be said of cases: each difference is known to ± 0.01."""
    loads = sorted({case.load for case in cases if case.load is not None})
    judged = []
    for load in loads:
        here = {case.policy: ATTAINMENT.value(case.result) for case in cases if case.load == load}
        gap = {(a, b): Interval(here[b] - here[a], 0.01) for a in here for b in here}
        judged.append(
            Judged(load, f"Load {load:g}: all of it", judge(ATTAINMENT, here, lambda a, b, _, gap=gap: gap[a, b]))
        )
    return Findings(judged, **more)


SWEEP = [
    case(name, load, 1.0, at)
    for name, late in (("fair", 1.5), ("greedy", 2.5))
    for load, at in ((1.0, 1.5), (2.0, late))
]
LIMITS = [
    Limit("fair", None, 2.0, None, 2.0, None, [Tried(1.0, "", True), Tried(2.0, "", True)]),
    Limit("greedy", 1.414, 1.0, 2.0, None, 2.0, [Tried(1.0, "", False), Tried(2.0, "SLO met by 50 %", True)]),
]


def crowd(replicas: int, instants: int, seed: int = 0) -> Run:
    """A run of one request whose replicas hold random numbers of requests."""
    draws = np.random.default_rng(seed).integers(0, 100, (instants, replicas, 3))
    samples = [(ps(at), replica, *draws[at, replica].tolist()) for at in range(instants) for replica in range(replicas)]
    stats = [ReplicaStats(total_blocks=100) for _ in range(replicas)]
    return a_run([Row(0.0, 0.0, 1.0, 5.0, output=3)], until=float(instants), replicas=stats, samples=samples)
