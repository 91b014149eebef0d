"""VTC: two tenants that overload an engine are served alike, and no rate limit does that without wasting it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

import poise as ps
from poise.claims.answer import Answer, Findings, Ratio
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.sweep import ratio, times
from poise.core.records.records import FINISHED
from poise.core.units import SECOND
from poise.policies.admit.tenant_limits import TenantLimits
from poise.policies.queue.virtual_token_counter import VirtualTokenCounter
from poise.report.intervals import over_seeds

if TYPE_CHECKING:
    from poise.scenario.python import Result
    from poise.workload import Workload


POOL, TOKENS, AT_ONCE = 10_000, 256, 19
INPUT, OUTPUT = 1.0, 2.0
ENGINE = ps.Engine(kv_blocks=POOL // 16, max_sequences=AT_ONCE, prefix_caching=False)
CLUSTER = ps.Cluster.of("A10G", count=1).replicas(1, model="llama-2-7b", engine=ENGINE)
BOUND = 2 * max(INPUT * TOKENS, OUTPUT * POOL)
LOADS = (6.0, 9.0, 12.0)
FLOODS = (2.0, 4.0, 6.0, 8.0)
QUIET = 0.3
LIMITS = (30, 60, 90, 120, 180)
MINUTES = 10
ACROSS = "load, requests/s"
FCFS, VTC = "by arrival", "VTC"
SYSTEMS = {FCFS: ps.Policies(), VTC: ps.Policies(queue=VirtualTokenCounter())}


class Metrics(NamedTuple):
    """What a run came to: by how much service of the tenants differs at most while both are backlogged, in its first
    half and in all of it; weighted tokens a second while requests arrive; p99 of tenant 0's TTFT."""

    half: float
    whole: float
    rate: float
    ttft_s: float


Table = Mapping[str, Mapping[float, Sequence[Metrics]]]
"""By system, place on the axis and seed."""


def measure(bench: Bench) -> Findings:
    """Two tenants that overload the engine; one that asks for little beside a flood; and limits of both."""
    over = _table(bench, SYSTEMS, LOADS, lambda load, s, seed: _both(load / 3, 2 * load / 3, s, seed))
    beside = _table(bench, SYSTEMS, FLOODS, lambda load, s, seed: _both(QUIET, load, s, seed))
    limits = {f"{each} a minute": ps.Policies(admission=(TenantLimits(each),)) for each in LIMITS}
    limited = _table(bench, limits | {VTC: SYSTEMS[VTC]}, (LOADS[-1],), _turns)
    criteria = [_bounded(over), _grows(over), _apart(over), _conserves(over), _limits(limited), *_isolates(beside)]
    return Findings(
        criteria,
        [
            _curve("Widest difference of service, weighted tokens", over, lambda metrics: metrics.whole),
            _curve("p99 TTFT of the tenant that asks for little, seconds", beside, lambda metrics: metrics.ttft_s),
        ],
    )


def _table(
    bench: Bench, systems: Mapping[str, ps.Policies], places: Sequence[float],
    made: Callable[[float, float, int], Workload],
) -> Table:  # fmt: skip
    found: dict[str, dict[float, list[Metrics]]] = {name: {place: [] for place in places} for name in systems}
    seconds = bench.requests(60 * MINUTES)
    for place in places:
        for seed in range(bench.seeds()):
            load = made(place, seconds, seed)
            for name, policies in systems.items():
                found[name][place].append(_metrics(bench.simulate(CLUSTER, load, policies, seed=seed), load, seconds))
    return found


def _both(first: float, second: float, seconds: float, seed: int) -> Workload:
    """Tenants 0 and 1 at so many requests a second."""
    stamps = [
        ps.workload.poisson(rate, duration_s=seconds, prompt_tokens=1, output_tokens=1, seed=2 * seed + tenant).arrival
        for tenant, rate in enumerate((first, second))
    ]
    return _crowd(np.concatenate(stamps), np.repeat(np.arange(2, dtype=np.int32), [len(each) for each in stamps]))


def _turns(load: float, seconds: float, seed: int) -> Workload:
    """The same, but tenant 0 asks in every second tenth of the time alone."""
    both = _both(load / 3, 2 * load / 3, seconds, seed)
    assert both.tenant is not None
    asks = (both.tenant == 1) | (both.arrival // int(seconds * SECOND / 10) % 2 == 0)
    return _crowd(both.arrival[asks], both.tenant[asks])


def _crowd(arrival: NDArray[np.int64], tenant: NDArray[np.int32]) -> Workload:
    """Requests of the same size."""
    order = np.argsort(arrival, kind="stable")
    tokens = np.full(len(order), TOKENS, np.int32)
    return ps.workload.Workload(arrival[order], tokens, tokens, tenant=tenant[order])


def _metrics(result: Result, load: Workload, seconds: float) -> Metrics:
    """Service and waiting at every second, from the records."""
    assert load.tenant is not None
    records = result.run.records
    arrived, first, ended = (
        np.array(each) / SECOND for each in (records.arrived_at, records.first_token_at, records.ended_at)
    )
    served = np.array(records.status) == FINISHED
    at = np.arange(seconds // 10, seconds)
    service, waits = [], []
    for tenant in (0, 1):
        own = load.tenant == tenant
        who = own & served
        service.append(np.array([_served(now, first[who], ended[who]) for now in at]))
        waits.append(np.array([bool((who & (arrived < now - 1) & (first > now)).any()) for now in at]))
    gap, both = service[0] - service[1], waits[0] & waits[1]
    rate = (service[0] + service[1])[[0, -1]]
    quiet = served & (load.tenant == 0) & (arrived < seconds)
    half = at < at[len(at) // 2]
    return Metrics(
        _widest(gap[half], both[half]), _widest(gap, both), float(rate[1] - rate[0]) / len(at),
        float(np.percentile((first - arrived)[quiet], 99)),
    )  # fmt: skip


def _served(now: float, first: NDArray[np.float64], ended: NDArray[np.float64]) -> float:
    """Weighted tokens until `now`: prompts that were computed, and output evenly from first token to last."""
    part = np.clip((now - first) / (ended - first), 0, 1)
    return float(INPUT * TOKENS * (first <= now).sum() + OUTPUT * TOKENS * part.sum())


def _widest(gap: NDArray[np.float64], both: NDArray[np.bool_]) -> float:
    """By how much a difference changes at most over a time in which both are backlogged."""
    spans = np.split(np.arange(len(gap)), np.flatnonzero(np.diff(both.astype(int))) + 1)
    return max([float(np.ptp(gap[span])) for span in spans if len(span) and both[span[0]]], default=0.0)


def _seeds(table: Table, system: str, place: float, figure: Callable[[Metrics], float]) -> list[float]:
    return [figure(metrics) for metrics in table[system][place]]


def _bounded(over: Table) -> Answer:
    most = {load: max(_seeds(over, VTC, load, lambda metrics: metrics.whole)) for load in LOADS}
    return Answer("bounded", "; ".join(f"at {load:g}: {gap:,.0f}" for load, gap in most.items()), list(most.values()))


def _grows(over: Table) -> Answer:
    grown = {
        load: ratio(
            _seeds(over, FCFS, load, lambda metrics: metrics.half),
            _seeds(over, FCFS, load, lambda metrics: metrics.whole),
        )
        for load in LOADS
    }
    past = all(min(_seeds(over, FCFS, load, lambda metrics: metrics.whole)) > BOUND for load in LOADS)
    return Answer("grows", _ratios(grown), past and all((each.low or 0) >= 1.5 for each in grown.values()))


def _apart(over: Table) -> Answer:
    found = {
        load: ratio(
            _seeds(over, VTC, load, lambda metrics: metrics.whole),
            _seeds(over, FCFS, load, lambda metrics: metrics.whole),
        )
        for load in LOADS
    }
    return Answer("apart", _ratios(found), list(found.values()))


def _conserves(over: Table) -> Answer:
    found = {
        load: ratio(
            _seeds(over, FCFS, load, lambda metrics: metrics.rate),
            _seeds(over, VTC, load, lambda metrics: metrics.rate),
        )
        for load in LOADS
    }
    return Answer("conserves", _ratios(found), list(found.values()))


def _limits(limited: Table) -> Answer:
    """Each limit must either waste a twentieth of what VTC serves or leave a difference beyond the bound."""
    (load,) = limited[VTC]
    most = max(_seeds(limited, VTC, load, lambda metrics: metrics.whole))
    texts, met = [f"VTC: differs by {most:,.0f}"], True
    for name in limited:
        if name == VTC:
            continue
        rate = ratio(
            _seeds(limited, VTC, load, lambda metrics: metrics.rate),
            _seeds(limited, name, load, lambda metrics: metrics.rate),
        )
        gap = min(_seeds(limited, name, load, lambda metrics: metrics.whole))
        met = met and ((rate.high or 1.0) <= 0.95 or gap > BOUND)
        texts.append(f"{name}: {times(rate)} the tokens, differs by {gap:,.0f}")
    return Answer("limits", "; ".join(texts), met)


def _isolates(beside: Table) -> list[Answer]:
    found = {
        load: ratio(
            _seeds(beside, VTC, load, lambda metrics: metrics.ttft_s),
            _seeds(beside, FCFS, load, lambda metrics: metrics.ttft_s),
        )
        for load in FLOODS[1:]
    }
    flat = ratio(*(_seeds(beside, VTC, load, lambda metrics: metrics.ttft_s) for load in (FLOODS[1], FLOODS[-1])))
    return [
        Answer("isolates", _ratios(found), list(found.values())),
        Answer("flood", times(flat), flat),
    ]


def _ratios(found: Mapping[float, Ratio]) -> str:
    return "; ".join(f"at {load:g}: {times(each)}" for load, each in found.items())


def _curve(title: str, table: Table, figure: Callable[[Metrics], float]) -> Curve:
    lines = {}
    for name, places in table.items():
        found = {place: over_seeds([figure(metrics) for metrics in each]) for place, each in places.items()}
        lines[name] = [Point(place, each.value, each.half) for place, each in found.items()]
    return Curve(title, ACROSS, "number", lines)
