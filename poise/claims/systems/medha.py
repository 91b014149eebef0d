"""Medha (Mnemosyne): adaptive chunks, and length-aware relative slack between long prompts and short ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

import poise as ps
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.core.units import SECOND
from poise.policies.batch.chunked import Chunked
from poise.policies.batch.medha import Medha

TBT_S, TTFT_S, STRETCH = 0.05, 2.0, 3.0
RATES = (1.0, 2.0, 2.5, 3.0)
REQUESTS, LONG, SHORT = 500, 0.05, 10000
LARS, NAIVE = "LARS", "chunks of 2,048 in order"
POLICIES: Mapping[str, Medha | Chunked] = {
    LARS: Medha(TBT_S, TTFT_S, STRETCH),
    "LARS, no shared steps": Medha(TBT_S, TTFT_S, STRETCH, long_tokens=0),
    "slack": Medha(TBT_S, TTFT_S, STRETCH, rank="lrs", long_tokens=0),
    "deadline": Medha(TBT_S, TTFT_S, STRETCH, rank="edf", long_tokens=0),
    "in order": Medha(TBT_S, TTFT_S, STRETCH, rank="fcfs", long_tokens=0),
    "in order, shared steps": Medha(TBT_S, TTFT_S, STRETCH, rank="fcfs"),
    NAIVE: Chunked(2048),
}
GUESSES: Mapping[str, Medha | Chunked] = {
    "the cost model": POLICIES[LARS],
    "off by a factor of 1.65": Medha(TBT_S, TTFT_S, STRETCH, sigma=0.5),
    "1 s for everybody": Medha(TBT_S, TTFT_S, STRETCH, constant_s=1.0),
}


class Metrics(NamedTuple):
    """Seconds to the first token: of shorts the median and the 90th percentile, of longs the mean over their own time.

    in_time: the part of shorts within their deadline.  step_s: the longest step with prompts.
    """

    p50: float
    p90: float
    long: float
    in_time: float
    step_s: float


@dataclass(frozen=True, slots=True)
class Experiment:
    """Runs of one replica."""

    bench: Bench

    def workload(self, rate: float, seed: int) -> ps.workload.Workload:
        """Shorts, and one long in twenty."""
        some = ps.workload.poisson(
            rate, requests=self.bench.requests(REQUESTS), prompt_tokens=ps.workload.lognormal(2000, 0.8, 8000),
            output_tokens=ps.workload.lognormal(150, 0.6, 600), seed=seed,
        )  # fmt: skip
        rng = np.random.default_rng(seed)
        rows = len(some.arrival)
        long = rng.random(rows) < LONG
        prompt = np.where(long, rng.integers(60_000, 120_000, rows), some.prompt)
        return replace(some, prompt=prompt.astype("i4"))

    def run(self, batcher: Medha | Chunked, rate: float, seed: int) -> Metrics:
        """At a rate of requests."""
        engine = ps.Engine(prefix_caching=False)
        cluster = ps.Cluster.of("H100", count=1).replicas(1, model="llama-3.1-8b", engine=engine)
        workload = self.workload(rate, seed)
        run = self.bench.simulate(cluster, workload, ps.Policies(batcher=batcher), slices=True).run
        took = (np.array(run.records.first_token_at) - np.array(run.records.arrived_at)) / SECOND
        short = took[workload.prompt < SHORT]
        long = took[workload.prompt >= SHORT]
        steps = [end - start for start, end, _, _, _, tokens in run.slices if tokens]
        return Metrics(
            float(np.quantile(short, 0.5)), float(np.quantile(short, 0.9)),
            float(long.mean()) if len(long) else 0.0, float((short <= TTFT_S).mean()), max(steps) / SECOND,
        )  # fmt: skip

    def mean(self, batcher: Medha | Chunked, rate: float) -> Metrics:
        """The means over seeds."""
        seen = [self.run(batcher, rate, seed) for seed in range(self.bench.seeds())]
        return Metrics(*(sum(each) / len(seen) for each in zip(*seen, strict=True)))


def measure(bench: Bench) -> Findings:
    """Loads × ranks, and predictions of three kinds."""
    experiment = Experiment(bench)
    found = {name: {rate: experiment.mean(each, rate) for rate in RATES} for name, each in POLICIES.items()}
    guesses = {name: experiment.mean(each, RATES[-1]) for name, each in GUESSES.items()}
    criteria = [
        *_against(found), _bounded(found), _shared(found), _steps(found), _in_time(found), _foresight(guesses, found),
    ]  # fmt: skip
    return Findings(criteria, [_curve(found, "p50", "the median"), _curve(found, "p90", "the 90th percentile")])


Found = Mapping[str, Mapping[float, Metrics]]


def _told(found: Found, figure: str, names: tuple[str, ...]) -> str:
    return "; ".join(
        f"{rate:g}: {', '.join(f'{name} {getattr(found[name][rate], figure):.2f}' for name in names)}" for rate in RATES
    )


def _against(found: Found) -> list[Answer]:
    """Shorts' medians, at the load where they are furthest apart: half of the published ratio or more."""
    criteria = []
    for name in ("in order", "deadline", "slack"):
        most = max(found[name][rate].p50 / found[LARS][rate].p50 for rate in RATES)
        told = f"{most:.1f} times (s, by req/s: {_told(found, 'p50', (LARS, name))})"
        criteria.append(Answer(f"against {name}", told, most))
    return criteria


def _bounded(found: Found) -> Answer:
    """LARS's tail from the lowest load to the highest, beside that of order."""
    growth = {name: found[name][RATES[-1]].p90 / found[name][RATES[0]].p90 for name in (LARS, "in order", "deadline")}
    told = ", ".join(f"{name} {each:.1f} times" for name, each in growth.items())
    return Answer(
        "bounded",
        f"from {RATES[0]:g} to {RATES[-1]:g} req/s: {told}",
        growth[LARS] / min(growth["in order"], growth["deadline"]),
    )


def _shared(found: Found) -> Answer:
    rate, apart = RATES[2], "LARS, no shared steps"
    ratio = found[apart][rate].p50 / found[LARS][rate].p50
    return Answer(
        "shared",
        f"{ratio:.2f} times; longs take {found[LARS][rate].long:.0f} s instead of {found[apart][rate].long:.0f}",
        ratio,
    )


def _steps(found: Found) -> Answer:
    longest = max(each.step_s for each in found[LARS].values())
    return Answer(
        "steps",
        f"{1000 * longest:.1f} ms of {1000 * TBT_S:g}; chunks of 2,048: "
        f"{1000 * max(each.step_s for each in found[NAIVE].values()):.1f}",
        longest / TBT_S,
    )


def _in_time(found: Found) -> Answer:
    """Its trade: it evens out relative lateness, and does not maximise what is in time."""
    names = (LARS, "slack", "deadline", "in order")
    return Answer(
        "in time",
        f"by req/s: {_told(found, 'in_time', names)}",
        [found[LARS][rate].in_time - found["in order"][rate].in_time for rate in RATES],
    )


def _foresight(guesses: Mapping[str, Metrics], found: Found) -> Answer:
    told = ", ".join(f"{name} {each.p50:.2f} s" for name, each in guesses.items())
    return Answer("foresight", told, max(each.p50 for each in guesses.values()) / found["in order"][RATES[-1]].p50)


def _curve(found: Found, figure: str, what: str) -> Curve:
    lines = {name: [Point(rate, getattr(seen, figure)) for rate, seen in line.items()] for name, line in found.items()}
    return Curve(f"Shorts' first token, {what}", "load, req/s", "seconds", lines)
