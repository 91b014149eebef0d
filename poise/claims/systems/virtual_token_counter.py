"""VTC: two tenants that overload an engine are served alike, and no rate limit does that without wasting it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

import poise as ps
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Curve, Findings, Point
from poise.claims.sweep import Ratio, ratio, times
from poise.core.records import FINISHED
from poise.core.units import SECOND
from poise.policies.admit.tenant_limits import TenantLimits
from poise.policies.queue.virtual_token_counter import VirtualTokenCounter
from poise.report.intervals import over_seeds

if TYPE_CHECKING:
    from poise.scenario.python import Result
    from poise.workload import Workload

CLAIM = Claim(
    system="VTC",
    paper="arXiv 2401.00588",
    year=2024,
    slot="queue",
    policies=("queue/virtual_token_counter",),
    others=("admit/tenant_limits",),
    headline="the service of two backlogged tenants differs by at most 2·max(w_p·L, w_q·M) at any time, while by "
    "arrival it differs by more and more; work conserving, where limits of requests a minute waste the engine or let "
    "one tenant take it; who asks for less than its share does not notice the others",
    conditions="Llama-2-7b on an A10G with a pool of M = 10,000 KV tokens under S-LoRA; two tenants of 90 and 180 "
    "requests a minute, 256 + 256 tokens each, w_p = 1 and w_q = 2; and conversations of many tenants",
    here="the same model, device, pool and lengths, at most 19 requests at once, which fit to their end as if "
    "their output were reserved; Poisson arrivals at one and two parts of the load, which the engine cannot serve; for "
    "limits, one tenant always and the other in every second minute. Output is counted evenly between the first token "
    "and the last; both are backlogged while each has a request that has waited for a second",
    trust="code",
)

POOL, TOKENS, AT_ONCE = 10_000, 256, 19
INPUT, OUTPUT = 1.0, 2.0
ENGINE = ps.Engine(kv_blocks=POOL // 16, max_sequences=AT_ONCE, prefix_caching=False)
CLUSTER = ps.Cluster.of("A10G", count=1).replicas(1, model="llama-2-7b", engine=ENGINE)
BOUND = 2 * max(INPUT * TOKENS, OUTPUT * POOL)
LOADS = (6.0, 9.0, 12.0)
FLOODS = (2.0, 4.0, 6.0, 8.0)
QUIET = 0.3
LIMITS = (30, 60, 90, 120, 180)
MINUTES, SEEDS = 10, 5
ACROSS = "load, requests/s"
FCFS, VTC = "by arrival", "VTC"
SYSTEMS = {FCFS: ps.Policies(), VTC: ps.Policies(queue=VirtualTokenCounter())}


class Told(NamedTuple):
    """What a run came to: by how much service of the tenants differs at most while both are backlogged, in its first
    half and in all of it; weighted tokens a second while requests arrive; p99 of tenant 0's TTFT."""

    half: float
    whole: float
    rate: float
    ttft_s: float


Table = Mapping[str, Mapping[float, Sequence[Told]]]
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
            _curve("Widest difference of service, weighted tokens", over, lambda told: told.whole),
            _curve("p99 TTFT of the tenant that asks for little, seconds", beside, lambda told: told.ttft_s),
        ],
    )


def _table(
    bench: Bench, systems: Mapping[str, ps.Policies], places: Sequence[float],
    made: Callable[[float, float, int], Workload],
) -> Table:  # fmt: skip
    found: dict[str, dict[float, list[Told]]] = {name: {place: [] for place in places} for name in systems}
    seconds = bench.requests(60 * MINUTES)
    for place in places:
        for seed in range(bench.seeds(SEEDS)):
            load = made(place, seconds, seed)
            for name, policies in systems.items():
                found[name][place].append(_told(bench.simulate(CLUSTER, load, policies, seed=seed), load, seconds))
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


def _told(result: Result, load: Workload, seconds: float) -> Told:
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
    return Told(
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


def _seeds(table: Table, system: str, place: float, figure: Callable[[Told], float]) -> list[float]:
    return [figure(told) for told in table[system][place]]


SLOTS = (
    "nobody gives way, so it waits for a running request to end; requests of one length that were admitted together "
    "end together, and the larger the flood the more of them do"
)


def _bounded(over: Table) -> Criterion:
    most = {load: max(_seeds(over, VTC, load, lambda told: told.whole)) for load in LOADS}
    return Criterion(
        "The service of two backlogged tenants never differs by more than 2·max(w_p·L, w_q·M)",
        f"at most {BOUND:,.0f}",
        "; ".join(f"at {load:g}: {gap:,.0f}" for load, gap in most.items()),
        all(gap <= BOUND for gap in most.values()), headline=True,
    )  # fmt: skip


def _grows(over: Table) -> Criterion:
    grown = {
        load: ratio(_seeds(over, FCFS, load, lambda told: told.half), _seeds(over, FCFS, load, lambda told: told.whole))
        for load in LOADS
    }
    past = all(min(_seeds(over, FCFS, load, lambda told: told.whole)) > BOUND for load in LOADS)
    return Criterion(
        "By arrival it differs by more than that, and by at least 1.5 times as much after twice the time",
        "grows with time", _ratios(grown), past and all((each.low or 0) >= 1.5 for each in grown.values()),
        headline=True,
    )  # fmt: skip


def _apart(over: Table) -> Criterion:
    found = {
        load: ratio(_seeds(over, VTC, load, lambda told: told.whole), _seeds(over, FCFS, load, lambda told: told.whole))
        for load in LOADS
    }
    return Criterion(
        "The difference by arrival is larger at every load", "not given as a number", _ratios(found),
        all((each.low or 0) > 1 for each in found.values()), headline=True,
    )  # fmt: skip


def _conserves(over: Table) -> Criterion:
    found = {
        load: ratio(_seeds(over, FCFS, load, lambda told: told.rate), _seeds(over, VTC, load, lambda told: told.rate))
        for load in LOADS
    }
    return Criterion(
        "VTC serves as many tokens a second as by arrival, within 1 %", "work conserving",
        _ratios(found), all((each.low or 0) >= 0.99 for each in found.values()), headline=True,
    )  # fmt: skip


def _limits(limited: Table) -> Criterion:
    """Each limit must either waste a twentieth of what VTC serves or leave a difference beyond the bound."""
    (load,) = limited[VTC]
    most = max(_seeds(limited, VTC, load, lambda told: told.whole))
    said, met = [f"VTC: differs by {most:,.0f}"], True
    for name in limited:
        if name == VTC:
            continue
        rate = ratio(
            _seeds(limited, VTC, load, lambda told: told.rate), _seeds(limited, name, load, lambda told: told.rate)
        )
        gap = min(_seeds(limited, name, load, lambda told: told.whole))
        met = met and ((rate.high or 1.0) <= 0.95 or gap > BOUND)
        said.append(f"{name}: {times(rate)} the tokens, differs by {gap:,.0f}")
    return Criterion(
        "No limit of requests a minute keeps the bound and 95 % of VTC's tokens a second while tenants come and go",
        "a low limit wastes the engine, a high one does not isolate", "; ".join(said), met, headline=True,
        why="" if met else "a limit near half of what the engine serves does both",
    )  # fmt: skip


def _isolates(beside: Table) -> list[Criterion]:
    found = {
        load: ratio(
            _seeds(beside, VTC, load, lambda told: told.ttft_s), _seeds(beside, FCFS, load, lambda told: told.ttft_s)
        )
        for load in FLOODS[1:]
    }
    flat = ratio(*(_seeds(beside, VTC, load, lambda told: told.ttft_s) for load in (FLOODS[1], FLOODS[-1])))
    unmoved = (flat.high or 2.0) <= 1.5
    return [
        Criterion("A tenant below its share waits less for its first token than by arrival, at every load beyond "
                  "what the engine serves", "unaffected by the others", _ratios(found),
                  all((each.low or 0) > 1 for each in found.values())),
        Criterion("It waits hardly longer, at most 1.5 times, when the other floods twice as much",
                  "unaffected by the others", times(flat), unmoved,
                  why="" if unmoved else SLOTS),
    ]  # fmt: skip


def _ratios(found: Mapping[float, Ratio]) -> str:
    return "; ".join(f"at {load:g}: {times(each)}" for load, each in found.items())


def _curve(title: str, table: Table, figure: Callable[[Told], float]) -> Curve:
    lines = {}
    for name, places in table.items():
        found = {place: over_seeds([figure(told) for told in each]) for place, each in places.items()}
        lines[name] = [Point(place, each.value, each.half) for place, each in found.items()]
    return Curve(title, ACROSS, "number", lines)
