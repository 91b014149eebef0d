"""Expert as a service: experts that are served by a pool of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import pi, sin

import poise as ps
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.core.spec import Fault
from poise.cost import Roofline
from poise.cost.expert_as_a_service import Outage, Pools, served, served_whole, spared
from poise.cost.term import Termed
from poise.cost.terms.expert_as_a_service import ExpertAsAService
from poise.policies.route.least_requests import LeastRequests

LOADS, HOURS, UNITS = (0.5, 0.7, 0.8, 0.9, 1.0), 24, (8, 16, 32, 64)
SERVERS = (8, 16, 32, 64)
RATE = 1000.0

ARRIVALS, SECONDS = (20, 30, 40), 600
SLO = ps.Slo(ttft_s=2.0, tpot_s=0.1)
POOL = ps.Pool(
    ps.models("qwen3-235b-a22b"), ps.devices("H100"), replicas=2, data=16, expert=16, weights="fp8", start_s=60.0,
    engine=ps.Engine(max_sequences=1024),
)  # fmt: skip
APART = Termed(Roofline(), (ExpertAsAService(),))


def measure(bench: Bench) -> Findings:
    """Loads × outages, and a day of traffic × sizes of groups."""
    until = 36_000.0
    outages = [Outage(at, 60.0) for at in range(300, int(until), 600)]
    pools = Pools(32, 32, RATE, RATE)
    ours = [served(pools, outages, load * pools.rate(), until) for load in LOADS]
    groups = [served_whole(pools.rate(), outages, load * pools.rate(), until) for load in LOADS]
    dips = {n: 1 - Pools(n, n, RATE, RATE).rate(1) / Pools(n, n, RATE, RATE).rate() for n in SERVERS}
    day = [32 * RATE * (0.6 - 0.4 * sin(2 * pi * at / (4 * HOURS))) for at in range(4 * HOURS)]
    saved = {unit: spared(day, RATE, RATE, unit) for unit in UNITS}
    criteria = [
        Answer(
            "failures",
            ", ".join(f"{load:.0%}: {1 - each:.2%}" for load, each in zip(LOADS, ours, strict=True)),
            [1 - each for each in ours],
        ),
        Answer(
            "halts",
            ", ".join(f"{load:.0%}: {1 - each:.1%}" for load, each in zip(LOADS, groups, strict=True)),
            all(one >= two - 1e-12 for one, two in zip(ours, groups, strict=True)) and ours[-1] > groups[-1],
        ),
        Answer(
            "one of n",
            ", ".join(f"{n}: {each:.1%}" for n, each in dips.items()),
            [abs(each - 1 / n) for n, each in dips.items()],
        ),
        Answer(
            "hours",
            ", ".join(f"groups of {unit}: {each:.1%}" for unit, each in saved.items()),
            all(each > 0 for each in saved.values()) and all(a <= b for a, b in pairwise(saved.values())),
        ),
        *_simulated(bench),
    ]
    lines = {
        "two pools": [Point(load, 1 - each) for load, each in zip(LOADS, ours, strict=True)],
        "a group": [Point(load, 1 - each) for load, each in zip(LOADS, groups, strict=True)],
    }
    return Findings(criteria, [Curve("Part of throughput lost to failures", "load", "share", lines)])


def _simulated(bench: Bench) -> list[Answer]:
    """Arrivals × seeds through a router: a replica that survives the loss of servers, and one that does not."""
    usual = {rate: _goodput(bench, rate, Roofline()) for rate in ARRIVALS}
    group = {rate: _goodput(bench, rate, Roofline(), _losses()) / usual[rate] for rate in ARRIVALS}
    own = {rate: _goodput(bench, rate, APART) for rate in ARRIVALS}
    apart = {rate: _goodput(bench, rate, APART, _losses()) / own[rate] for rate in ARRIVALS}
    mixed = {rate: _goodput(bench, rate, APART, _losses(clients=True)) / own[rate] for rate in ARRIVALS}
    return [
        Answer(
            "simulated",
            _lost({"experts apart": apart, "together": group}),
            [apart[rate] - group[rate] for rate in ARRIVALS],
        ),
        Answer(
            "clients",
            _lost({"experts apart": mixed, "together": group}),
            [mixed[rate] - group[rate] for rate in ARRIVALS],
        ),
        Answer(
            "without failures",
            ", ".join(f"{rate}/s: {own[rate] / usual[rate]:.3f} times" for rate in ARRIVALS),
            [own[rate] / usual[rate] for rate in ARRIVALS],
        ),
    ]


def _losses(*, clients: bool = False) -> list[Fault]:
    """A device a minute, of each replica in turn, away for 20 s; with `clients` every second one takes its replica."""
    found = []
    for number, at_s in enumerate(range(20, SECONDS, 60)):
        replica = number % 2
        if clients and number % 4 in (1, 2):
            found += [Fault(at_s, "lost", replica), Fault(at_s + 20, "join", replica)]
        else:
            found.append(Fault(at_s, "device_lost", replica, for_s=20.0))
    return found


def _goodput(bench: Bench, rate: float, cost: Roofline | Termed, losses: Sequence[Fault] = ()) -> float:
    """Requests per second in time, the mean of seeds."""
    found = []
    for seed in range(seeds := bench.seeds()):
        load = ps.workload.poisson(
            rate, requests=bench.requests(int(rate * SECONDS)), prompt_tokens=ps.workload.lognormal(500, 1.0),
            output_tokens=ps.workload.lognormal(200, 0.6), seed=seed,
        )  # fmt: skip
        cluster = ps.Cluster((POOL,), faults=tuple(losses))
        result = bench.simulate(cluster, load, ps.Policies(router=LeastRequests()), cost=cost, seed=seed)
        found.append(result.goodput(SLO) or 0.0)
    return sum(found) / seeds


def _lost(kept: Mapping[str, Mapping[int, float]]) -> str:
    return "; ".join(
        f"{name}: {', '.join(f'{1 - part:.1%} at {rate}/s' for rate, part in row.items())}"
        for name, row in kept.items()
    )
