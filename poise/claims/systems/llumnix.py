"""Llumnix: live migration evens out what no dispatch can foresee, isolates priorities and saves replicas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

import poise as ps
from poise.claims.answer import Answer, Findings, Ratio
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.sweep import Sweep, ratio, swept, times
from poise.policies.queue.priority import Priority
from poise.policies.route.least_tokens import LeastTokens
from poise.policies.route.llumnix import Llumnix
from poise.policies.route.round_robin import RoundRobin
from poise.report.intervals import Interval, over_seeds
from poise.report.wording import write

if TYPE_CHECKING:
    from poise.scenario.compare.comparison import Comparison


MODEL = replace(ps.models("llama-2-7b"), max_context=16_384)
ENGINE = ps.Engine(kv_blocks=851, prefix_caching=False)
BELIEF = ps.Belief(period_s=0.2, delay_s=0.0)
LOADS = {"M": (12.5, 13.5, 14.5, 15.5), "L": (3.5, 4.0, 4.5, 5.0)}
REQUESTS, REPLICAS = 5000, 16
WHOLE, BARE, LEAST, BLIND = "llumnix", "llumnix without migration", "least_tokens", "round_robin"
BUNDLES = {
    BLIND: ps.Policies(router=RoundRobin()),
    LEAST: ps.Policies(router=LeastTokens()),
    BARE: ps.Policies(router=Llumnix(migrate=False)),
    WHOLE: ps.Policies(router=Llumnix()),
}
TAIL, DECODE = "ttft_s.p99", "tpot_s.p99"

HEADROOM = 750
"""Blocks kept free beside a high priority: a decode step over the 100 left reads 6 % more bytes than over none."""

Made = Callable[[int, float], ps.workload.Workload]


def cluster(replicas: int = REPLICAS) -> ps.Cluster:
    """So many A10 with LLaMA-7B."""
    return ps.Cluster.of("A10", count=replicas).replicas(replicas, model=MODEL, engine=ENGINE)


def traffic(size: str, rate: float, requests: int, cv: float = 1.0) -> Made:
    """Requests whose prompts and outputs have the same power law."""
    lengths = ps.workload.llumnix(size)
    return lambda seed, load: ps.workload.gamma(
        rate * load, cv, requests=requests, prompt_tokens=lengths, output_tokens=lengths, seed=seed
    )


def measure(bench: Bench) -> Findings:
    """Loads × routers for two lengths and for bursts, then priorities, then smaller clusters."""
    medium = _sweep(bench, "M", 1.0, BUNDLES)
    rest = {name: bundle for name, bundle in BUNDLES.items() if name != BARE}
    long, bursts = _sweep(bench, "L", 1.0, rest), _sweep(bench, "M", 2.0, rest)
    sweeps = {"M-M": medium, "L-L": long, "M-M in bursts": bursts}
    isolation, isolated = _isolation(bench)
    saving, sizes = _saving(bench)
    criteria = [
        *_order(medium), _whole(sweeps), _tail(sweeps), _others(long, "L-L"),
        _others(bursts, "M-M, Gamma arrivals with CV 2"), _decode(sweeps), _preemptions(sweeps),
        _bounded(sweeps), *isolation, saving,
    ]  # fmt: skip
    tails = [sweep.curve(f"TTFT, 99th percentile, {name}", TAIL) for name, sweep in sweeps.items()]
    return Findings(criteria, [*tails, medium.curve("TPOT, 99th percentile, M-M", DECODE), isolated, sizes])


def _sweep(bench: Bench, size: str, cv: float, bundles: Mapping[str, ps.Policies]) -> Sweep:
    def at(rate: float) -> Comparison:
        made = traffic(size, rate, bench.requests(REQUESTS), cv)
        label = f"{size}-{size} at {rate:g} req/s"
        return bench.compare(label, cluster(), made, bundles, seeds=bench.seeds(), belief=BELIEF)

    return swept("load, req/s", LOADS[size], at)


def _order(medium: Sweep) -> list[Answer]:
    return [
        medium.ahead("M-M", TAIL, WHOLE, [BLIND, LEAST]),
        medium.ahead("least tokens", TAIL, LEAST, [BLIND]),
        medium.ahead("dispatch", TAIL, BARE, [LEAST]),
        medium.ahead("migration", TAIL, WHOLE, [BARE]),
    ]


def _others(sweep: Sweep, name: str) -> Answer:
    return sweep.ahead(name, TAIL, WHOLE, [BLIND, LEAST])


def _most(sweeps: dict[str, Sweep], figure: str) -> tuple[str, Ratio]:
    """Where, and by how many times, least tokens has more of a figure than Llumnix at most."""
    found = {
        f"{name} at {x:g} req/s": sweep.ratio(x, figure, WHOLE, LEAST)
        for name, sweep in sweeps.items()
        for x in sweep.at
    }
    return max(found.items(), key=lambda each: each[1].value or 0.0)


def _whole(sweeps: dict[str, Sweep]) -> Answer:
    """All loads and lengths as one: tails differ between seeds by factors, so no single load may tell much."""
    logs = {
        name: [
            float(np.mean(each))
            for each in zip(
                *(np.log(sweep.seeds(x, name, TAIL)) for sweep in sweeps.values() for x in sweep.at), strict=True
            )
        ]
        for name in (WHOLE, LEAST)
    }
    gain = ratio(*(np.exp(logs[name]).tolist() for name in (WHOLE, LEAST)))
    return Answer("whole", f"{times(gain)} times shorter", gain)


def _tail(sweeps: dict[str, Sweep]) -> Answer:
    where, most = _most(sweeps, TAIL)
    return Answer("tail", f"up to {times(most)} times ({where})", most)


def _decode(sweeps: dict[str, Sweep]) -> Answer:
    where, most = _most(sweeps, DECODE)
    return Answer("decode", f"up to {times(most)} times ({where})", most)


def _preemptions(sweeps: dict[str, Sweep]) -> Answer:
    """Preemptions at all loads and under all lengths, seed by seed."""
    own, their = (
        [sum(each) for each in zip(*(sweep.total(name, "preemptions") for sweep in sweeps.values()), strict=True)]
        for name in (WHOLE, LEAST)
    )
    left = ratio(their, own)
    return Answer("preemptions", f"{times(left)} times as many", left)


def _bounded(sweeps: dict[str, Sweep]) -> Answer:
    rates = {
        f"{name} at {x:g} req/s": float(np.mean(sweep.seeds(x, WHOLE, "migrations")))
        / float(np.mean(sweep.seeds(x, WHOLE, "requests")))
        for name, sweep in sweeps.items()
        for x in sweep.at
    }
    where, most = max(rates.items(), key=lambda each: each[1])
    return Answer("bounded", f"at most {most:.2f} for each request ({where})", most)


def _isolation(bench: Bench) -> tuple[list[Answer], Curve]:
    """Decode speed of the tenth of the requests that are of high priority, with headroom and without."""
    bundles = {
        "with headroom": ps.Policies(router=Llumnix(headroom=HEADROOM), queue=Priority()),
        "without priorities": ps.Policies(router=Llumnix()),
    }
    speeds = {name: {rate: _high(bench, rate, bundle) for rate in LOADS["M"]} for name, bundle in bundles.items()}
    lines = {
        name: [Point(rate, found.value, found.half) for rate, found in _means(by_rate).items()]
        for name, by_rate in speeds.items()
    }
    curve = Curve("Time per output token of high priority, mean, M-M", "load, req/s", "seconds", lines)
    low, high = LOADS["M"][0], LOADS["M"][-1]
    own, base = speeds["with headroom"], speeds["without priorities"]
    rise, gain = ratio(own[low], own[high]), ratio(own[high], base[high])
    return [
        Answer("flat", f"{times(rise)} times the time per token at {high:g} req/s", rise),
        Answer("headroom", f"{times(gain)} times at {high:g} req/s", gain),
    ], curve


def _high(bench: Bench, rate: float, bundle: ps.Policies) -> list[float]:
    """The mean time per output token of high-priority requests in each seed."""
    found = []
    for seed in range(bench.seeds(4)):
        workload = traffic("M", rate, bench.requests(REQUESTS))(seed, 1.0)
        chosen = np.arange(len(workload)) % 10 == 0
        workload = replace(workload, priority=np.where(chosen, -1, 0).astype(np.int16))
        records = bench.simulate(cluster(), workload, bundle, belief=BELIEF, seed=seed).run.records
        gaps = np.array(records.output_tokens) - 1
        spent = np.array(records.ended_at) - np.array(records.first_token_at)
        rows = chosen & (gaps > 0)
        found.append(float(np.mean(spent[rows] / gaps[rows])) / 1e12)
    return found


def _means(by_rate: dict[float, list[float]]) -> dict[float, Interval]:
    return {rate: over_seeds(values) for rate, values in by_rate.items()}


def _saving(bench: Bench) -> tuple[Answer, Curve]:
    """The fewest replicas with which Llumnix keeps the tail that least tokens has with all of them."""
    rate = LOADS["M"][2]
    made = traffic("M", rate, bench.requests(REQUESTS))

    def tail(replicas: float, name: str) -> Interval:
        bundles = {name: BUNDLES[name]}
        found: Comparison = bench.compare(
            f"{replicas} replicas", cluster(int(replicas)), made, bundles, seeds=bench.seeds(), belief=BELIEF
        )
        return found.interval(name, TAIL)

    sizes = range(REPLICAS, 12, -1)
    target = tail(REPLICAS, LEAST)
    tails = {size: tail(size, WHOLE) for size in sizes}
    enough = REPLICAS + 1
    for size, found in tails.items():
        if (found.value or 0.0) > (target.value or 0.0):
            break
        enough = size
    saved = 1 - enough / REPLICAS
    lines = {
        WHOLE: [Point(size, each.value, each.half) for size, each in reversed(tails.items())],
        f"{LEAST} with {REPLICAS}": [Point(size, target.value, target.half) for size in reversed(sizes)],
    }
    criterion = Answer(
        "saving",
        f"{enough} replicas do what {REPLICAS} do at {rate:g} req/s (P99 TTFT {write(target.value, 'seconds', 3)}): "
        f"{saved:.0%} fewer"
        if saved >= 0
        else "none: even all of them have a longer tail",
        saved,
    )
    return criterion, Curve(f"TTFT, 99th percentile, M-M at {rate:g} req/s", "replicas", "seconds", lines)
