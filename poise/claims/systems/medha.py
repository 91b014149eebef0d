"""Medha (Mnemosyne): adaptive chunks, and length-aware relative slack between long prompts and short ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

import poise as ps
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Curve, Findings, Point
from poise.core.units import SECOND
from poise.policies.batch.chunked import Chunked
from poise.policies.batch.medha import Medha

CLAIM = Claim(
    system="Medha (Mnemosyne)",
    paper="arXiv 2409.17264",
    year=2024,
    slot="batcher",
    policies=("medha",),
    others=("batch/chunked",),
    headline="at high load first tokens of short prompts 16 to 91 times sooner in the median than in order of arrival "
    "or of deadlines, 1.6 to 1.8 times sooner than by relative slack without shared steps",
    conditions="Llama-3-8B on 16 A100-80GB; ShareGPT with 5 % of prompts of 128,000 to 1 million tokens; shorts and "
    "longs of one load; steps within 20 ms; sequence and KV parallelism beside it",
    here="one replica of Llama-3.1-8B on an H100 by roofline steps, so longs of 60,000 to 120,000 tokens (5 %) between "
    "shorts of some 2,000; steps within 50 ms; deadlines of 2 s or three times the prompt's own time; sequence and KV "
    "parallelism, and prompts beyond one device's KV cache, are not tried",
    trust="text",
)

TBT_S, TTFT_S, STRETCH = 0.05, 2.0, 3.0
RATES = (1.0, 2.0, 2.5, 3.0)
REQUESTS, SEEDS, LONG, SHORT = 500, 3, 0.05, 10_000
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


class Seen(NamedTuple):
    """Seconds to the first token: of shorts the median and the 90th percentile, of longs the mean over their own time.

    in_time: the part of shorts within their deadline.  step_s: the longest step with prompts.
    """

    p50: float
    p90: float
    long: float
    in_time: float
    step_s: float


@dataclass(frozen=True, slots=True)
class Trial:
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

    def run(self, batcher: Medha | Chunked, rate: float, seed: int) -> Seen:
        """At a rate of requests."""
        engine = ps.Engine(prefix_caching=False)
        cluster = ps.Cluster.of("H100", count=1).replicas(1, model="llama-3.1-8b", engine=engine)
        workload = self.workload(rate, seed)
        run = self.bench.simulate(cluster, workload, ps.Policies(batcher=batcher), slices=True).run
        took = (np.array(run.records.first_token_at) - np.array(run.records.arrived_at)) / SECOND
        short = took[workload.prompt < SHORT]
        long = took[workload.prompt >= SHORT]
        steps = [end - start for start, end, _, _, _, tokens in run.slices if tokens]
        return Seen(
            float(np.quantile(short, 0.5)), float(np.quantile(short, 0.9)),
            float(long.mean()) if len(long) else 0.0, float((short <= TTFT_S).mean()), max(steps) / SECOND,
        )  # fmt: skip

    def mean(self, batcher: Medha | Chunked, rate: float) -> Seen:
        """The means over seeds."""
        seen = [self.run(batcher, rate, seed) for seed in range(self.bench.seeds(SEEDS))]
        return Seen(*(sum(each) / len(seen) for each in zip(*seen, strict=True)))


def measure(bench: Bench) -> Findings:
    """Loads × ranks, and predictions of three kinds."""
    trial = Trial(bench)
    found = {name: {rate: trial.mean(each, rate) for rate in RATES} for name, each in POLICIES.items()}
    guesses = {name: trial.mean(each, RATES[-1]) for name, each in GUESSES.items()}
    criteria = [
        *_against(found), _bounded(found), _shared(found), _steps(found), _in_time(found), _foresight(guesses, found),
    ]  # fmt: skip
    return Findings(criteria, [_curve(found, "p50", "the median"), _curve(found, "p90", "the 90th percentile")])


Found = Mapping[str, Mapping[float, Seen]]


def _told(found: Found, figure: str, names: tuple[str, ...]) -> str:
    return "; ".join(
        f"{rate:g}: {', '.join(f'{name} {getattr(found[name][rate], figure):.2f}' for name in names)}" for rate in RATES
    )


def _against(found: Found) -> list[Criterion]:
    """Shorts' medians, at the load where they are furthest apart: half of the published ratio or more."""
    criteria = []
    for name, what, low, paper in (
        ("in order", "in order of arrival", 8.0, "16 to 91 times"),
        ("deadline", "by deadlines", 8.0, "16 to 91 times"),
        ("slack", "by plain slack", 1.0, "it collapses above a load"),
    ):
        most = max(found[name][rate].p50 / found[LARS][rate].p50 for rate in RATES)
        asks = f"Shorts' median first token {what} at some load {low:g} times as late or later"
        told = f"{most:.1f} times (s, by req/s: {_told(found, 'p50', (LARS, name))})"
        criteria.append(Criterion(asks, paper, told, most >= low, headline=name != "slack"))
    return criteria


def _bounded(found: Found) -> Criterion:
    """LARS's tail from the lowest load to the highest, beside that of order."""
    growth = {name: found[name][RATES[-1]].p90 / found[name][RATES[0]].p90 for name in (LARS, "in order", "deadline")}
    told = ", ".join(f"{name} {each:.1f} times" for name, each in growth.items())
    met = growth[LARS] < min(growth["in order"], growth["deadline"])
    lowest = found["in order"][RATES[0]].p90
    return Criterion(
        "Shorts' P90 grows less with load than in order and by deadlines", "it stays bounded, the others collapse",
        f"from {RATES[0]:g} to {RATES[-1]:g} req/s: {told}", met,
        why="" if met else f"in order of arrival it is {lowest:.0f} s at the lowest load already",
    )  # fmt: skip


def _shared(found: Found) -> Criterion:
    rate, apart = RATES[2], "LARS, no shared steps"
    ratio = found[apart][rate].p50 / found[LARS][rate].p50
    return Criterion(
        "Sharing steps between a long prompt and short ones brings shorts forward", "1.6 to 1.8 times",
        f"{ratio:.2f} times; longs take {found[LARS][rate].long:.0f} s instead of {found[apart][rate].long:.0f}",
        ratio > 1.0,
    )  # fmt: skip


def _steps(found: Found) -> Criterion:
    longest = max(each.step_s for each in found[LARS].values())
    return Criterion(
        "No step with prompts takes longer than asked for, but for chunks of the least size", "within the budget",
        f"{1000 * longest:.1f} ms of {1000 * TBT_S:g}; chunks of 2,048: "
        f"{1000 * max(each.step_s for each in found[NAIVE].values()):.1f}", longest <= TBT_S * 1.001,
    )  # fmt: skip


def _in_time(found: Found) -> Criterion:
    """Its trade: it evens out relative lateness, and does not maximise what is in time."""
    names = (LARS, "slack", "deadline", "in order")
    return Criterion(
        "More shorts in time than in order at every load", "reported beside: it evens out lateness",
        f"by req/s: {_told(found, 'in_time', names)}",
        all(found[LARS][rate].in_time >= found["in order"][rate].in_time for rate in RATES),
    )  # fmt: skip


def _foresight(guesses: Mapping[str, Seen], found: Found) -> Criterion:
    told = ", ".join(f"{name} {each.p50:.2f} s" for name, each in guesses.items())
    return Criterion(
        "Shorts' median is ahead of order of arrival with wrong predictions too", "predictions within 5 %", told,
        max(each.p50 for each in guesses.values()) < found["in order"][RATES[-1]].p50,
    )  # fmt: skip


def _curve(found: Found, figure: str, what: str) -> Curve:
    lines = {name: [Point(rate, getattr(seen, figure)) for rate, seen in line.items()] for name, line in found.items()}
    return Curve(f"Shorts' first token, {what}", "load, req/s", "seconds", lines)
