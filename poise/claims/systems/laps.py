"""LAPS: short prompts and long ones in batches of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

import poise as ps
from poise.claims.answer import Answer, Findings, Ratio
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.sweep import at_least, ratio, times
from poise.core.units import SECOND
from poise.policies.batch.chunked import Chunked
from poise.policies.batch.laps import Laps

SHORT, LONG, PART = 128, 3000, 0.75
LOADS = (0.3, 0.5, 0.7, 0.85)
"""Parts of the rate at which prompts fill the device by their tokens."""
REQUESTS = 6000
LAPS, MIXED = "LAPS", "mixed batches"
POLICIES: Mapping[str, Laps | Chunked] = {LAPS: Laps(), "LAPS without a window": Laps(window_s=0.0), MIXED: Chunked()}


class Metrics(NamedTuple):
    """Mean seconds to the first token of short prompts, of long ones and of all."""

    short: float
    long: float
    all: float


@dataclass(frozen=True, slots=True)
class Experiment:
    """Runs of one replica. spread: whether lengths are of two kinds, or all of their mean."""

    bench: Bench
    spread: bool = True

    def run(self, batcher: Laps | Chunked, load: float, seed: int) -> Metrics:
        """At a part of the device's capacity."""
        cluster = ps.Cluster.of("H200", count=1).replicas(1, model="qwen2.5-7b", engine=ps.Engine(prefix_caching=False))
        mean = PART * SHORT + (1 - PART) * LONG
        requests = self.bench.requests(REQUESTS)
        some = ps.workload.poisson(
            load * _tokens_per_second(cluster) / mean, requests=requests, prompt_tokens=1, output_tokens=1, seed=seed
        )
        rng = np.random.default_rng(seed)
        short = rng.random(requests) < PART
        prompt = np.full(requests, mean)
        if self.spread:
            sigma = 0.5
            means = np.where(short, SHORT, LONG)
            prompt = np.maximum(means * np.exp(sigma * rng.standard_normal(requests) - sigma**2 / 2), 8)
        records = self.bench.simulate(
            cluster, replace(some, prompt=prompt.astype("i4")), ps.Policies(batcher=batcher)
        ).run.records
        took = (np.array(records.first_token_at) - np.array(records.arrived_at)) / SECOND
        return Metrics(float(took[short].mean()), float(took[~short].mean()), float(took.mean()))


def _tokens_per_second(cluster: ps.Cluster) -> float:
    """What the device computes of prompts at a full budget."""
    from poise.core.estimate import Chunk, StepShape
    from poise.core.units import seconds
    from poise.cost import Roofline

    (pool,) = cluster.pools
    budget = pool.engine.token_budget
    return budget / seconds(Roofline().build(pool).step(StepShape(0, (Chunk(budget, 0),))).base)


Found = Mapping[str, Mapping[float, list[Metrics]]]


def measure(bench: Bench) -> Findings:
    """Loads × batchers, with lengths of two kinds and with one."""
    seeds = range(bench.seeds())
    experiment, alike = Experiment(bench), Experiment(bench, spread=False)
    found = {
        name: {load: [experiment.run(each, load, seed) for seed in seeds] for load in LOADS}
        for name, each in POLICIES.items()
    }
    equal = {name: [alike.run(POLICIES[name], LOADS[2], seed) for seed in seeds] for name in (LAPS, MIXED)}
    criteria = [_short(found), _long(found), _alike(equal), _window(found)]
    return Findings(criteria, [_curve(found, "short"), _curve(found, "long")])


def _ratio(found: Found, load: float, figure: str, other: str = MIXED) -> Ratio:
    """How many times as long it is without LAPS."""
    return ratio(*([getattr(each, figure) for each in found[name][load]] for name in (LAPS, other)))


def _told(found: Found, figure: str, other: str = MIXED) -> str:
    return "; ".join(f"{load:g}: {times(_ratio(found, load, figure, other))}" for load in LOADS)


def _short(found: Found) -> Answer:
    [at_least(_ratio(found, load, "short"), 1.25) for load in LOADS]
    return Answer(
        "short",
        f"times, by part of capacity: {_told(found, 'short')}",
        [_ratio(found, load, "short") for load in LOADS],
    )


def _long(found: Found) -> Answer:
    return Answer(
        "long",
        f"times as late without, by part of capacity: {_told(found, 'long')}",
        [_ratio(found, load, "long") for load in LOADS],
    )


def _alike(equal: Mapping[str, list[Metrics]]) -> Answer:
    """Prompts of one length are all of one class."""
    found = ratio(*([each.all for each in equal[name]] for name in (LAPS, MIXED)))
    return Answer("alike", f"{times(found)} times as late without", found)


def _window(found: Found) -> Answer:
    return Answer(
        "window",
        f"times as late without the window: {_told(found, 'short', 'LAPS without a window')}",
        [_ratio(found, load, "short", "LAPS without a window") for load in LOADS],
    )


def _curve(found: Found, figure: str) -> Curve:
    lines = {
        name: [Point(load, sum(getattr(each, figure) for each in seen) / len(seen)) for load, seen in line.items()]
        for name, line in found.items()
    }
    return Curve(f"First token of {figure} prompts", "part of capacity", "seconds", lines)
