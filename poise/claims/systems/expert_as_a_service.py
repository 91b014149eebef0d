"""Expert as a service: experts that are served by a pool of their own."""

from __future__ import annotations

from itertools import pairwise
from math import pi, sin

from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Curve, Findings, Point
from poise.cost.expert_as_a_service import Outage, Pools, served, served_whole, spared

CLAIM = Claim(
    system="Expert-as-a-Service",
    paper="arXiv 2509.17863",
    year=2025,
    slot="cost",
    policies=("expert_as_a_service",),
    headline="less than 2 % of throughput lost under failures, 37.5 % fewer resources by following the traffic",
    conditions="a large mixture of experts whose attention and experts are served apart; against groups with expert "
    "parallelism that hold both",
    here="pools as fluids: 64 devices, half of them servers, two copies of each expert; a device lost every ten "
    "minutes for one minute at loads of 50 to 100 %; a day's traffic between a fifth and all by the "
    "quarter of an hour, groups of 8 to 64 devices",
    trust="abstract",
)

LOADS, HOURS, UNITS = (0.5, 0.7, 0.8, 0.9, 1.0), 24, (8, 16, 32, 64)
SERVERS = (8, 16, 32, 64)
RATE = 1000.0


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
    ]  # fmt: skip
    lines = {
        "two pools": [Point(load, 1 - each) for load, each in zip(LOADS, ours, strict=True)],
        "a group": [Point(load, 1 - each) for load, each in zip(LOADS, groups, strict=True)],
    }
    return Findings(criteria, [Curve("Part of throughput lost to failures", "load", "share", lines)])
