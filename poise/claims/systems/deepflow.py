"""DeepFlow: routing by a heat map; pre-warmed slots and quick loading where many replicas are needed at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import poise as ps
from poise.claims.answer import Answer, Findings, Ratio
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.heat_map import routed
from poise.claims.sweep import ratio, times, value_of
from poise.core.spec import Startup
from poise.core.units import SECOND
from poise.policies.scale.deepflow import Deepflow
from poise.report.intervals import Interval, over_seeds

if TYPE_CHECKING:
    from poise.scenario.python import Result


MODEL, TARGET, SIZES = "llama-3.1-8b", 16.0, (16, 32)
EACH = 3.2
"""Requests per second that keep about `TARGET` in flight at a replica: prompts of 300 and outputs of 400 tokens."""
LEAD_S, BURST_S, GAP_S = 30.0, 90.0, 900.0
SECOND_S = LEAD_S + BURST_S + GAP_S
SLOW = {"provision_s": 40.0, "image_s": 20.0, "engine_s": 15.0, "weights_s": 8.0, "capture_s": 7.0, "sigma": 0.2}
QUICK = SLOW | {"weights_s": 0.7, "capture_s": 0.5}
COLD, WARM, BOTH, ALL = "cold", "pre-warmed", "pre-warmed and quick", "all always"
WAYS = (COLD, WARM, BOTH)


@dataclass(frozen=True, slots=True)
class Metrics:
    """What the second burst met, seed by seed.

    reached_s: from its begin until nine tenths of the replicas serve.  tail_s: P99 time to first token.  hours: of
    replicas and pre-warmed slots over the whole run.
    """

    reached_s: list[float]
    tail_s: list[float]
    hours: list[float]


def setting(way: str, size: int) -> tuple[ps.Cluster, ps.Policies]:
    """A pool, and what decides on it."""
    cluster = ps.Cluster.of("A100", count=size)
    if way == ALL:
        return cluster.replicas(size, model=MODEL), ps.Policies()
    startup = Startup(**(QUICK if way == BOTH else SLOW))
    pool = cluster.replicas(1, model=MODEL, min_replicas=1, max_replicas=size, startup=startup)
    warm = 0 if way == COLD else size
    return pool, ps.Policies(scaler=Deepflow(target=TARGET, warm_least=0, warm_most=warm, memory_s=3600.0))


def load(size: int, seed: int) -> ps.workload.Workload:
    """One replica's load, with two bursts of all."""
    points, edge = [(0.0, EACH)], 0.001
    for begin in (LEAD_S, SECOND_S):
        end = begin + BURST_S
        points += [(begin, EACH), (begin + edge, size * EACH), (end, size * EACH), (end + edge, EACH)]
    return ps.workload.diurnal(
        [*points, (SECOND_S + BURST_S + 60.0, EACH)], prompt_tokens=300, output_tokens=400, seed=seed
    )


def measure(bench: Bench) -> Findings:
    """Rules of routing, and how many replicas × ways to start."""
    answers, curves = routed(bench)
    sizes = SIZES[:1] if bench.quick else SIZES
    found = {size: {way: _metrics(bench, way, size) for way in (*WAYS, ALL)} for size in sizes}
    criteria = [
        *answers,
        _seconds(found),
        *(_order(found, way, before) for before, way in pairwise(WAYS)),
        _hours(found, COLD),
        _hours(found, ALL),
    ]
    return Findings(
        criteria,
        [
            *curves,
            _curve(
                found, "Until nine tenths of the replicas serve", "seconds", WAYS, lambda metrics: metrics.reached_s
            ),
            _curve(found, "TTFT, P99", "seconds", (*WAYS, ALL), lambda metrics: metrics.tail_s),
            _curve(found, "Replica-hours", "number", (*WAYS, ALL), lambda metrics: metrics.hours),
        ],
    )


def _metrics(bench: Bench, way: str, size: int) -> Metrics:
    metrics = Metrics([], [], [])
    for seed in range(bench.seeds()):
        result = bench.simulate(*_with(way, size, seed), seed=seed)
        late = result.metrics(warmup_s=SECOND_S)
        metrics.reached_s.append(0.0 if way == ALL else _reached(result, size))
        metrics.tail_s.append(late.ttft_s.p99 or 0.0)
        metrics.hours.append(result.metrics().replica_hours or 0.0)
    return metrics


def _with(way: str, size: int, seed: int) -> tuple[ps.Cluster, ps.workload.Workload, ps.Policies]:
    cluster, policies = setting(way, size)
    return cluster, load(size, seed), policies


def _reached(result: Result, size: int) -> float:
    """Seconds from the second burst until nine tenths of the replicas serve; its length where they never do."""
    begin, notes = round(SECOND_S * SECOND), result.run.scaled
    ends = [*(note.at for note in notes[1:]), result.run.ended_at]
    reached = [
        max(note.at - begin, 0)
        for note, end in zip(notes, ends, strict=True)
        if end > begin and note.serving >= 0.9 * size
    ]
    return min(min(reached, default=result.run.ended_at) / SECOND, BURST_S)


def _interval(metrics: Metrics, values: Callable[[Metrics], list[float]]) -> Interval:
    return over_seeds(values(metrics))


def _seconds(found: Mapping[int, Mapping[str, Metrics]]) -> Answer:
    """Until nine tenths of the replicas serve."""
    text = "; ".join(
        f"{size}: " + ", ".join(f"{value_of(over_seeds(metrics[way].reached_s))} s {way}" for way in WAYS)
        for size, metrics in found.items()
    )
    return Answer("seconds", text)


def _order(found: Mapping[int, Mapping[str, Metrics]], way: str, before: str) -> Answer:
    """How much shorter the tail is at each size."""
    gains = {size: ratio(metrics[way].tail_s, metrics[before].tail_s) for size, metrics in found.items()}
    return Answer(f"tail, {way}", _text(gains))


def _hours(found: Mapping[int, Mapping[str, Metrics]], other: str) -> Answer:
    gains = {size: ratio(metrics[other].hours, metrics[BOTH].hours) for size, metrics in found.items()}
    return Answer(f"hours against {other}", _text(gains), list(gains.values()))


def _text(gains: Mapping[int, Ratio]) -> str:
    return "; ".join(f"{size} replicas: {times(each)} times" for size, each in gains.items())


def _curve(
    found: Mapping[int, Mapping[str, Metrics]], title: str, kind: str, ways: tuple[str, ...],
    values: Callable[[Metrics], list[float]],
) -> Curve:  # fmt: skip
    lines = {
        way: [
            Point(size, each.value, each.half)
            for size, metrics in found.items()
            for each in [_interval(metrics[way], values)]
        ]
        for way in ways
    }
    return Curve(title, "replicas that the burst needs", "seconds" if kind == "seconds" else "number", lines)
