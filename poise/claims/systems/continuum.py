"""Continuum: programs first come, first served, and KV kept over tool calls for as long as that is worth it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import poise as ps
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.programs import Ladder, ladder, with_tool
from poise.claims.sweep import times
from poise.core.request import RequestView
from poise.core.units import ps as picoseconds
from poise.core.view import LaneView, SequenceView
from poise.policies.cache.continuum import Continuum
from poise.policies.cache.fixed_ttl import FixedTtl
from poise.policies.cache.oracle_ttl import OracleTtl
from poise.policies.queue.program_fcfs import ProgramFcfs

if TYPE_CHECKING:
    from poise.workload import Workload


CLUSTER = ps.Cluster.of("A100", count=1).replicas(1, model="llama-3.1-8b")
LOADS = (0.02, 0.025, 0.03, 0.035, 0.04)
RECORDED = (0.006, 0.01, 0.015, 0.02)
JOBS = 200
HUNG, HUNG_LOAD = 0.01, 0.03
ACROSS = "load, jobs/s"
LONGEST = 130_000
REQUEST, PROGRAM, FIXED, ADAPTIVE = "request FCFS", "program FCFS", "fixed TTL", "adaptive TTL"
KNOWN, NOISY, KEPT, FIRST_OUT = "known TTL", "known TTL with error", "kept", "kept, first to expire yields"


@dataclass(slots=True)
class FirstOut:
    """Pin for ever, and let the first to expire give way."""

    def cache(self, request: RequestView, sequence: SequenceView, lane: LaneView) -> int:
        """A day."""
        return picoseconds(86_400.0)


def _with(cache: object) -> ps.Policies:
    return ps.Policies(queue=ProgramFcfs(), cache=cache)  # type: ignore[arg-type]


MAIN = {
    REQUEST: ps.Policies(),
    PROGRAM: ps.Policies(queue=ProgramFcfs()),
    FIXED: _with(FixedTtl()),
    ADAPTIVE: _with(Continuum()),
}
BOUNDS = {KNOWN: _with(OracleTtl()), NOISY: _with(OracleTtl(1.0)), KEPT: _with(FixedTtl(86_400.0))}


def measure(bench: Bench) -> Findings:
    """Loads × orders and times-to-live, on both shapes and on recorded sessions; and tools that hang."""
    swe = ladder(
        bench, ACROSS, LOADS, MAIN | BOUNDS, CLUSTER, lambda rate, seed: swe_jobs(bench, rate, seed), bench.seeds()
    )
    bfcl = ladder(bench, ACROSS, LOADS, MAIN, CLUSTER, lambda rate, seed: bfcl_jobs(bench, rate, seed), bench.seeds())
    recorded = ladder(
        bench, ACROSS, RECORDED, MAIN | {KNOWN: BOUNDS[KNOWN]}, CLUSTER, _recorded(bench), bench.seeds()
    )  # fmt: skip
    hung = ladder(
        bench, ACROSS, (HUNG_LOAD,), {ADAPTIVE: MAIN[ADAPTIVE], KEPT: BOUNDS[KEPT], FIRST_OUT: _with(FirstOut())},
        CLUSTER, lambda rate, seed: swe_jobs(bench, rate, seed, hung=HUNG), bench.seeds(),
    )  # fmt: skip
    criteria = [
        *(_order(where, name) for where, name in ((swe, "SWE"), (bfcl, "BFCL"))),
        *(_fixed(where, name) for where, name in ((swe, "SWE"), (bfcl, "BFCL"), (recorded, "recorded"))),
        *(_adaptive(where, name) for where, name in ((swe, "SWE"), (bfcl, "BFCL"))),
        _order(recorded, "recorded"), _adaptive(recorded, "recorded"),
        _throughput({"SWE": swe, "BFCL": bfcl}), _known(swe), _hung(hung),
    ]  # fmt: skip
    titles = {"Mean job completion, SWE": swe, "Mean job completion, BFCL": bfcl, "The same, recorded": recorded}
    return Findings(criteria, [each.curve(title) for title, each in titles.items()])


def swe_jobs(bench: Bench, rate: float, seed: int, *, hung: float = 0.0) -> Workload:
    """Jobs of the shape of SWE-Bench."""
    drawn = ps.workload.lognormal
    starts = ps.workload.poisson(
        rate, requests=bench.requests(JOBS), prompt_tokens=drawn(6000, 0.5), output_tokens=drawn(250, 0.8), seed=seed
    )
    jobs = ps.workload.sessions(
        starts, turns=drawn(10.9, 0.19), think_s=drawn(0.93, 3.82), user_tokens=drawn(6000, 0.8),
        output_tokens=drawn(250, 0.8), max_context=LONGEST, seed=seed,
    )  # fmt: skip
    return with_tool(jobs, hung=hung, seed=seed)


def bfcl_jobs(bench: Bench, rate: float, seed: int) -> Workload:
    """Jobs of the shape of BFCL v4."""
    drawn = ps.workload.lognormal
    starts = ps.workload.poisson(
        rate, requests=bench.requests(JOBS), prompt_tokens=drawn(14_000, 0.9), output_tokens=drawn(250, 0.8), seed=seed
    )
    jobs = ps.workload.sessions(
        starts, turns=drawn(6.3, 0.365), think_s=drawn(1.92, 1.11), user_tokens=drawn(14_500, 0.9),
        output_tokens=drawn(250, 0.8), max_context=LONGEST, seed=seed,
    )  # fmt: skip
    return with_tool(jobs)


def _recorded(bench: Bench) -> Callable[[float, int], Workload]:
    trace = ps.workload.read(bench.file(), skip_bad=True)

    def made(rate: float, seed: int) -> Workload:
        starts = ps.workload.poisson(rate, requests=bench.requests(JOBS) // 2, seed=seed)
        return ps.workload.recorded_sessions(starts, trace, seed=seed)

    return made


def _order(where: Ladder, name: str) -> Answer:
    return where.faster(f"order, {name}", PROGRAM, REQUEST)


def _fixed(where: Ladder, name: str) -> Answer:
    return where.faster(f"fixed, {name}", FIXED, PROGRAM)


def _adaptive(where: Ladder, name: str) -> Answer:
    return where.faster(f"adaptive, {name}", ADAPTIVE, FIXED)


def _throughput(shapes: dict[str, Ladder]) -> Answer:
    found = {name: (each.carried(REQUEST, 3.0), each.carried(ADAPTIVE, 3.0)) for name, each in shapes.items()}
    told = "; ".join(f"{name}: {most:g} jobs/s against {own:g}" for name, (own, most) in found.items())
    return Answer("throughput", told, [most / own if own else 0.0 for own, most in found.values()])


def _known(swe: Ladder) -> Answer:
    """What knowing the durations would bring, and what an error in them costs."""
    gains, noise = swe.ratios(KNOWN, ADAPTIVE), swe.ratios(NOISY, ADAPTIVE)
    told = "; ".join(f"at {load:g}: {times(gains[load])}, with error {times(noise[load])}" for load in gains)
    return Answer("known", f"learnt over known: {told}", list(gains.values()))


def _hung(hung: Ladder) -> Answer:
    told = {name: hung.ratios(ADAPTIVE, name)[HUNG_LOAD] for name in (KEPT, FIRST_OUT)}
    return Answer(
        "hung",
        "over adaptive: " + "; ".join(f"{name} {times(each)}" for name, each in told.items()),
        list(told.values()),
    )
