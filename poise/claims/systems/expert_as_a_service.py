"""Expert as a service: experts that are served by a pool of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import pi, sin

import poise as ps
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Curve, Findings, Point
from poise.core.spec import Fault
from poise.cost import Roofline
from poise.cost.expert_as_a_service import Outage, Pools, served, served_whole, spared
from poise.cost.term import Termed
from poise.cost.terms.expert_as_a_service import ExpertAsAService
from poise.policies.route.least_requests import LeastRequests

CLAIM = Claim(
    system="Expert-as-a-Service",
    paper="arXiv 2509.17863",
    year=2025,
    slot="cost",
    policies=("terms/expert_as_a_service", "expert_as_a_service"),
    headline="less than 2 % of throughput lost under failures, 37.5 % fewer resources by following the traffic",
    conditions="a large mixture of experts whose attention and experts are served apart; against groups with expert "
    "parallelism that hold both",
    here="pools as fluids: 64 devices, half of them servers, two copies of each expert; a device lost every ten "
    "minutes for one minute at loads of 50 to 100 %; a day's traffic between a fifth and all by the "
    "quarter of an hour, groups of 8 to 64 devices; and in the simulator two replicas of Qwen3-235B-A22B (FP8) on 16 "
    "H100 each behind least_requests, ten minutes of Poisson arrivals with prompts of 500 and outputs of 200 tokens, "
    "each replica losing a device every two minutes for 20 s, starts of 60 s; in time: TTFT 2 s, TPOT 0.1 s",
    trust="abstract",
)

LOADS, HOURS, UNITS = (0.5, 0.7, 0.8, 0.9, 1.0), 24, (8, 16, 32, 64)
SERVERS = (8, 16, 32, 64)
RATE = 1000.0

ARRIVALS, SECONDS, SEEDS = (20, 30, 40), 600, 3
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
        Criterion(
            "Less than 2 % of throughput is lost under failures, at each load", "less than 2 %",
            ", ".join(f"{load:.0%}: {1 - each:.2%}" for load, each in zip(LOADS, ours, strict=True)),
            all(1 - each < 0.02 for each in ours), headline=True,
        ),
        Criterion(
            "A group that stops for each of them loses no less at each load, and more at full load", "it halts",
            ", ".join(f"{load:.0%}: {1 - each:.1%}" for load, each in zip(LOADS, groups, strict=True)),
            all(one >= two - 1e-12 for one, two in zip(ours, groups, strict=True)) and ours[-1] > groups[-1],
            headline=True,
        ),
        Criterion(
            "Losing one of n servers lowers throughput by 1/n while clients wait for experts", "about 1/n",
            ", ".join(f"{n}: {each:.1%}" for n, each in dips.items()),
            all(abs(each - 1 / n) < 1e-9 for n, each in dips.items()),
        ),
        Criterion(
            "Fewer device-hours than in groups over a day, the more the larger these are", "37.5 % fewer",
            ", ".join(f"groups of {unit}: {each:.1%}" for unit, each in saved.items()),
            all(each > 0 for each in saved.values()) and all(a <= b for a, b in pairwise(saved.values())),
            headline=True,
        ),
        *_simulated(bench),
    ]  # fmt: skip
    lines = {
        "two pools": [Point(load, 1 - each) for load, each in zip(LOADS, ours, strict=True)],
        "a group": [Point(load, 1 - each) for load, each in zip(LOADS, groups, strict=True)],
    }
    return Findings(criteria, [Curve("Part of throughput lost to failures", "load", "share", lines)])


def _simulated(bench: Bench) -> list[Criterion]:
    """Arrivals × seeds through a router: a replica that survives the loss of servers, and one that does not."""
    usual = {rate: _goodput(bench, rate, Roofline()) for rate in ARRIVALS}
    group = {rate: _goodput(bench, rate, Roofline(), _losses()) / usual[rate] for rate in ARRIVALS}
    own = {rate: _goodput(bench, rate, APART) for rate in ARRIVALS}
    apart = {rate: _goodput(bench, rate, APART, _losses()) / own[rate] for rate in ARRIVALS}
    mixed = {rate: _goodput(bench, rate, APART, _losses(clients=True)) / own[rate] for rate in ARRIVALS}
    clients = all(mixed[rate] > group[rate] for rate in ARRIVALS)
    return [
        Criterion(
            "In the simulator less goodput is lost to servers that fail than by replicas that go with each device, at "
            "3 loads", "less than 2 %, where others halt", _lost({"experts apart": apart, "together": group}),
            all(apart[rate] > group[rate] for rate in ARRIVALS), headline=True,
        ),
        Criterion(
            "So it is where every second loss is a client's, which here takes its replica along", "it halts",
            _lost({"experts apart": mixed, "together": group}), clients,
            why="" if clients else "half of the losses still stop a whole replica, and its start takes longer",
        ),
        Criterion(
            "Without failures it has at least 0.98 times the goodput, at 3 loads", "comparable throughput",
            ", ".join(f"{rate}/s: {own[rate] / usual[rate]:.3f} times" for rate in ARRIVALS),
            all(own[rate] >= 0.98 * usual[rate] for rate in ARRIVALS),
        ),
    ]  # fmt: skip


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
    for seed in range(seeds := bench.seeds(SEEDS)):
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
