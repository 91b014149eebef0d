"""semi-PD: prompts and decodes on shares of one device, which follow what is observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import poise as ps
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.stalls import capacity
from poise.claims.sweep import ratio, times
from poise.policies.batch.chunked import Chunked
from poise.policies.batch.prefill_first import PrefillFirst
from poise.policies.batch.semi_pd import SemiPd

SLO = ps.Slo(0.4, 0.06)
MET, REQUESTS, MOST, EPSILON = 0.9, 1500, 24.0, 0.1
LLAMA, A100 = ps.models("llama-3.1-8b"), ps.devices("A100")
LANES = (ps.Lane("prompts", decode=False, share=0.5), ps.Lane("decodes", prefill=False, share=0.5))
LOADS = (4.0, 6.0, 8.0, 10.0)
MOVED, STILL, CHUNKS, WHOLE, APART = "semi-PD", "shares of one half", "vLLM, chunks of 1,024", "vLLM", "DistServe"


class System(NamedTuple):
    """A batcher on so many devices. lanes: two of them share a device.  apart: one device for each phase."""

    batcher: Any
    lanes: bool = False
    apart: bool = False


SYSTEMS = {
    MOVED: System(SemiPd(ttft_s=0.4, tpot_s=0.06), lanes=True),
    STILL: System(SemiPd(ttft_s=0.4, tpot_s=0.06, most_steps=0), lanes=True),
    CHUNKS: System(Chunked(1024)),
    WHOLE: System(PrefillFirst()),
    APART: System(Chunked(), apart=True),
}


@dataclass(frozen=True, slots=True)
class Trial:
    """Runs of one system at a rate for each device. shift: whether the load changes half way."""

    bench: Bench
    shift: bool = True

    def workload(self, rate: float, seed: int) -> ps.workload.Workload:
        """Prompts and outputs as in the claim; after half of the requests prompts are half, outputs twice as long."""
        requests = self.bench.requests(REQUESTS)
        some = ps.workload.poisson(
            rate, requests=requests, prompt_tokens=ps.workload.lognormal(1500, 0.8, 8000),
            output_tokens=ps.workload.lognormal(200, 0.7, 1000), seed=seed,
        )  # fmt: skip
        if self.shift:
            late = np.arange(len(some.prompt)) >= requests // 2
            some.prompt = np.where(late, some.prompt // 2 + 1, some.prompt).astype("i4")
            some.output = np.where(late, some.output * 2, some.output).astype("i4")
        return some

    def met(self, system: System, rate: float, seed: int) -> float:
        """The part of requests within both limits."""
        engine = ps.Engine(prefix_caching=False)
        if system.lanes:
            engine = ps.Engine(prefix_caching=False, lanes=LANES)
        roles = ("prefill", "decode") if system.apart else ("mixed",)
        pools = [ps.Pool(LLAMA, A100, role=role, engine=engine) for role in roles]  # type: ignore[arg-type]
        cluster = ps.Cluster(tuple(pools), link_bw=A100.scaleup_bw)
        workload = self.workload(rate * (2 if system.apart else 1), seed)
        result = self.bench.simulate(cluster, workload, ps.Policies(batcher=system.batcher))
        return result.metrics(SLO).slo_attainment or 0.0

    def capacity(self, system: System) -> list[float]:
        """The highest rate for each device with enough requests within both limits, for each seed."""

        def meets(rate: float, seed: int) -> bool:
            return self.met(system, rate, seed) >= MET

        return capacity(meets, self.bench.seeds(), MOST, EPSILON)


def measure(bench: Bench) -> Findings:
    """Highest rates, under a load that shifts and one that does not; a curve."""
    shifting, steady = Trial(bench), Trial(bench, shift=False)
    found = {name: shifting.capacity(each) for name, each in SYSTEMS.items()}
    still = {name: steady.capacity(each) for name, each in SYSTEMS.items()}
    met = {name: [Point(load, shifting.met(system, load, 0)) for load in LOADS] for name, system in SYSTEMS.items()}
    criteria = [*_over(found), _first(found, "shifts"), _first(still, "is steady")]
    return Findings(criteria, [Curve("Requests within both limits", "req/s and device", "share", met)])


Rates = Mapping[str, Sequence[float]]


def _over(found: Rates) -> list[Answer]:
    """How many times the rate of each other system, by the published ratio and half as much again on either side."""
    criteria = []
    for name in (STILL, CHUNKS, WHOLE, APART):
        times_as_much = ratio(found[name], found[MOVED])
        criteria.append(Answer(f"over {name}", f"{times(times_as_much)} times", times_as_much))
    return criteria


def _first(found: Rates, load: str) -> Answer:
    means = {name: sum(each) / len(each) for name, each in found.items()}
    told = ", ".join(f"{name} {each:.2f}" for name, each in means.items())
    return Answer(
        f"order, load {load}",
        f"req/s and device: {told}",
        means[MOVED] > means[STILL] > max(means[name] for name in (CHUNKS, WHOLE, APART)),
    )
