"""Continuum: programs first come, first served, and KV kept over tool calls for as long as that is worth it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import poise as ps
from poise.claims.bench import Bench, find_data
from poise.claims.claim import Claim, Criterion, Findings, Source
from poise.claims.programs import Ladder, ladder, with_tool
from poise.claims.sweep import at_least, every, times
from poise.core.request import RequestView
from poise.core.units import ps as picoseconds
from poise.core.view import LaneView, SequenceView
from poise.policies.cache.continuum import Continuum
from poise.policies.cache.fixed_ttl import FixedTtl
from poise.policies.cache.oracle_ttl import OracleTtl
from poise.policies.queue.program_fcfs import ProgramFcfs

if TYPE_CHECKING:
    from poise.workload import Workload

CLAIM = Claim(
    system="Continuum",
    paper="arXiv 2511.02230",
    year=2025,
    slot="cache",
    policies=("continuum",),
    others=("queue/program_fcfs", "fixed_ttl", "oracle_ttl"),
    headline="mean job latency 1.12 to 3.66 times better and throughput 1.10 to 3.22 times, a third each from "
    "programs' order, a fixed time-to-live and an adaptive one",
    conditions="vLLM 0.10.2; Llama-3.1-8B on an A100 or B200 and larger models; SWE-Bench (10.9 turns, tools of 0.93 "
    "s, contexts of 70,000 tokens) and BFCL v4 (6.3 turns, 1.92 s, 93,000 tokens), both given as mean and deviation",
    here="one A100 with Llama-3.1-8B, 451,504 KV tokens, no KV in host memory; both shapes drawn log-normal with "
    "outputs of 250 tokens, Poisson arrivals; recorded coding sessions (44 calls and 42,000 prompt tokens in the mean, "
    "12 tools) begin Poisson as well. A fixed time-to-live is 2 s; a known one waits for tools whose end is told, "
    "exactly or with a log-normal error of 1; carried is a load at which jobs take at most 3 times as "
    "long as at the lowest one",
    trust="notes",
    data=(Source("agent_swe_sessions/events.csv.gz", "https://github.com/eunomia-bpf/agentcgroup"),),
)

CLUSTER = ps.Cluster.of("A100", count=1).replicas(1, model="llama-3.1-8b")
LOADS = (0.02, 0.025, 0.03, 0.035, 0.04)
RECORDED = (0.006, 0.01, 0.015, 0.02)
JOBS, SEEDS = 200, 5
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
    swe = ladder(bench, ACROSS, LOADS, MAIN | BOUNDS, CLUSTER, lambda rate, seed: swe_jobs(bench, rate, seed), SEEDS)
    bfcl = ladder(bench, ACROSS, LOADS, MAIN, CLUSTER, lambda rate, seed: bfcl_jobs(bench, rate, seed), SEEDS)
    recorded = ladder(
        bench, ACROSS, RECORDED, MAIN | {KNOWN: BOUNDS[KNOWN]}, CLUSTER, _recorded(bench), SEEDS
    )  # fmt: skip
    hung = ladder(
        bench, ACROSS, (HUNG_LOAD,), {ADAPTIVE: MAIN[ADAPTIVE], KEPT: BOUNDS[KEPT], FIRST_OUT: _with(FirstOut())},
        CLUSTER, lambda rate, seed: swe_jobs(bench, rate, seed, hung=HUNG), SEEDS,
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
    trace = ps.workload.read(find_data(CLAIM.data[0], bench.data), skip_bad=True)

    def made(rate: float, seed: int) -> Workload:
        starts = ps.workload.poisson(rate, requests=bench.requests(JOBS) // 2, seed=seed)
        return ps.workload.recorded_sessions(starts, trace, seed=seed)

    return made


def _order(where: Ladder, name: str) -> Criterion:
    return where.faster(
        f"Programs in their order take less time than requests in theirs at 3 loads or more, {name}",
        "about a third of the gain", PROGRAM, REQUEST, places=3, headline=name != "recorded",
    )  # fmt: skip


def _fixed(where: Ladder, name: str) -> Criterion:
    return where.faster(
        f"A fixed time-to-live on top of it takes less at 3 loads or more, {name}", "about a third of the gain",
        FIXED, PROGRAM, places=3, headline=name != "recorded",
    )  # fmt: skip


def _adaptive(where: Ladder, name: str) -> Criterion:
    return where.faster(
        f"An adaptive one takes less than a fixed one at 3 loads or more, {name}", "about a third of the gain",
        ADAPTIVE, FIXED, places=3, headline=name != "recorded",
        why="most tools end within 2 s, so a fixed 2 s keeps about as much",
    )  # fmt: skip


def _throughput(shapes: dict[str, Ladder]) -> Criterion:
    found = {name: (each.carried(REQUEST, 3.0), each.carried(ADAPTIVE, 3.0)) for name, each in shapes.items()}
    met = all(own and 1.1 <= most / own <= 3.22 for own, most in found.values())
    told = "; ".join(f"{name}: {most:g} jobs/s against {own:g}" for name, (own, most) in found.items())
    return Criterion(
        "The load carried is 1.10 to 3.22 times that of request FCFS", "1.10 to 3.22 times the throughput", told, met,
        headline=True, why="" if met else "the grid of loads is coarse",
    )  # fmt: skip


def _known(swe: Ladder) -> Criterion:
    """What knowing the durations would bring, and what an error in them costs."""
    gains, noise = swe.ratios(KNOWN, ADAPTIVE), swe.ratios(NOISY, ADAPTIVE)
    told = "; ".join(f"at {load:g}: {times(gains[load])}, with error {times(noise[load])}" for load in gains)
    met = every(at_least(each, 0.95) for each in gains.values())
    return Criterion(
        "Durations known beforehand take no longer than learnt ones (within 5 %), SWE", "asked of every learnt policy",
        f"learnt over known: {told}", met,
    )  # fmt: skip


def _hung(hung: Ladder) -> Criterion:
    told = {name: hung.ratios(ADAPTIVE, name)[HUNG_LOAD] for name in (KEPT, FIRST_OUT)}
    met = every(at_least(each, 1.0) for each in told.values())
    return Criterion(
        f"Where 1 % of calls hang for 300 to 600 s, adaptive takes less than keeping all, SWE at {HUNG_LOAD:g}",
        "times-to-live bound what hung tools hold", "over adaptive: "
        + "; ".join(f"{name} {times(each)}" for name, each in told.items()),
        met, why="" if met else "pins give way as soon as the engine would stand still, so nobody waits long for "
        "what hung sessions hold",
    )  # fmt: skip
