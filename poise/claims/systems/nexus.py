"""Nexus: prompts and decodes on shares of one device, which follow predicted times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import poise as ps
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.policies.batch.chunked import Chunked
from poise.policies.batch.nexus import Nexus
from poise.policies.batch.semi_pd import SemiPd
from poise.policies.queue.shortest_prompt import ShortestPrompt

LOADS = (0.4, 0.7, 1.0, 1.3)
REQUESTS = 800
LANES = (ps.Lane("prompts", decode=False, share=0.5), ps.Lane("decodes", prefill=False, share=0.5))
SLO = ps.Slo(1.0, 0.08)


class System(NamedTuple):
    """A batcher, a queue order, and whether two lanes share the device."""

    batcher: Any
    queue: Any = None
    lanes: bool = True


NEXUS, ORDER, REACTS, STILL, VLLM = "Nexus", "Nexus in order", "semi-PD", "shares of one half", "vLLM"
SHORTEST, BOLD = "vLLM, shortest first", "Nexus, decodes up to 3 times as long"
SYSTEMS = {
    NEXUS: System(Nexus(), ShortestPrompt()),
    ORDER: System(Nexus()),
    BOLD: System(Nexus(decode_slowdown=3.0), ShortestPrompt()),
    REACTS: System(SemiPd(ttft_s=1.0, tpot_s=0.08)),
    STILL: System(SemiPd(most_steps=0)),
    VLLM: System(Chunked(2048), lanes=False),
    SHORTEST: System(Chunked(2048), ShortestPrompt(), lanes=False),
}


class Metrics(NamedTuple):
    """Mean seconds to the first token and per token, and the part within both limits: before the change, and after."""

    ttft: float
    tpot: float
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Experiment:
    """Runs of one replica."""

    bench: Bench

    def workload(self, rate: float, seed: int) -> ps.workload.Workload:
        """Two kinds of prompts; half way all become shorter, and outputs longer."""
        requests = self.bench.requests(REQUESTS)
        some = ps.workload.poisson(
            rate, requests=requests, prompt_tokens=1, output_tokens=ps.workload.lognormal(200, 0.6, 1000), seed=seed
        )
        rng = np.random.default_rng(seed)
        means = np.where(rng.random(requests) < 0.6, 300, 6000)
        prompt = np.clip(means * np.exp(0.5 * rng.standard_normal(requests) - 0.125), 16, 16_000)
        late = np.arange(requests) >= requests // 2
        some.prompt = np.where(late, prompt / 2, prompt).astype("i4")
        some.output = np.where(late, some.output * 2, some.output).astype("i4")
        return some

    def run(self, system: System, rate: float, seed: int) -> Metrics:
        """At a rate of requests."""
        engine = ps.Engine(prefix_caching=False)
        if system.lanes:
            engine = ps.Engine(prefix_caching=False, lanes=LANES)
        cluster = ps.Cluster.of("L20", count=1).replicas(1, model="llama-3.1-8b", engine=engine)
        policies = ps.Policies(batcher=system.batcher, queue=system.queue)
        records = self.bench.simulate(cluster, self.workload(rate, seed), policies).run.records
        arrived, first, ended = (
            np.array(each) / 1e12 for each in (records.arrived_at, records.first_token_at, records.ended_at)
        )
        ttft, tpot = first - arrived, (ended - first) / np.maximum(np.array(records.output_tokens) - 1, 1)
        met = (ttft <= (SLO.ttft_s or 0)) & (tpot <= (SLO.tpot_s or 0))
        half = len(met) // 2
        return Metrics(float(ttft.mean()), float(tpot.mean()), float(met[:half].mean()), float(met[half:].mean()))

    def mean(self, system: System, rate: float) -> Metrics:
        """The means over seeds."""
        seen = [self.run(system, rate, seed) for seed in range(self.bench.seeds())]
        return Metrics(*(sum(each) / len(seen) for each in zip(*seen, strict=True)))


Found = Mapping[str, Mapping[float, Metrics]]


def measure(bench: Bench) -> Findings:
    """Loads × systems."""
    experiment = Experiment(bench)
    found = {name: {load: experiment.mean(each, load) for load in LOADS} for name, each in SYSTEMS.items()}
    criteria = [
        _sooner(found, "ttft"),
        _sooner(found, "tpot"),
        _settles(found), _order(found), _split(found),
    ]  # fmt: skip
    return Findings(criteria, [_curve(found, "ttft", "First token"), _curve(found, "tpot", "Time per output token")])


def _told(found: Found, figure: str, names: tuple[str, ...]) -> str:
    return "; ".join(
        f"{load:g}: {', '.join(f'{name} {getattr(found[name][load], figure):.3g}' for name in names)}" for load in LOADS
    )


def _sooner(found: Found, figure: str) -> Answer:
    """Ahead of vLLM at 3 loads or more."""
    ahead = sum(getattr(found[NEXUS][load], figure) < getattr(found[VLLM][load], figure) for load in LOADS)
    return Answer(figure, f"s, by req/s: {_told(found, figure, (NEXUS, BOLD, VLLM))}", ahead)


def _settles(found: Found) -> Answer:
    """What comes of a change of the load, beside a controller that observes first."""
    better = sum(found[ORDER][load].after >= found[REACTS][load].after for load in LOADS)
    return Answer("settles", f"part within, by req/s: {_told(found, 'after', (ORDER, REACTS, STILL))}", better)


def _order(found: Found) -> Answer:
    """How much of the gain the order of prompts explains."""
    gain = sum(found[SHORTEST][load].ttft < found[NEXUS][load].ttft for load in LOADS)
    return Answer("order", f"s, by req/s: {_told(found, 'ttft', (NEXUS, ORDER, SHORTEST))}", len(LOADS) - gain)


def _split(found: Found) -> Answer:
    ahead = sum(found[ORDER][load].ttft < found[STILL][load].ttft for load in LOADS)
    return Answer("split", f"s, by req/s: {_told(found, 'ttft', (ORDER, STILL))}", ahead)


def _curve(found: Found, figure: str, title: str) -> Curve:
    lines = {name: [Point(load, getattr(seen, figure)) for load, seen in line.items()] for name, line in found.items()}
    return Curve(f"{title}, mean", "load, req/s", "seconds", lines)
