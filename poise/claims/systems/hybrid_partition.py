"""Hybrid partition: stages with tensor groups of their own sizes."""

from __future__ import annotations

import poise as ps
from poise.catalogue import device, model
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost import Roofline
from poise.cost.hybrid_partition import Hybrid
from poise.cost.term import Termed
from poise.cost.terms.hybrid_partition import HybridPartition
from poise.policies.route.least_tokens import LeastTokens

BATCHES = (1, 4, 8, 16)
FLEETS = {
    "3 RTX 4090": ("llama-2-13b", ("RTX-4090",) * 3),
    "6 RTX 4090": ("codellama-34b", ("RTX-4090",) * 6),
    "4 L4, 1 L40S": ("codellama-34b", ("L4",) * 4 + ("L40S",)),
    "2 RTX 4090, 2 A6000": ("codellama-34b", ("RTX-4090",) * 2 + ("RTX-A6000",) * 2),
}

RATES = (0.5, 2.0, 4.0)
"""Requests per second on two replicas."""
ROUTED = {"2-1": ("llama-2-13b", ["1-1-1"]), "4-2": ("codellama-34b", ["1-1-1-1-1-1", "2-2-2"])}
"""Stages of different groups, the model they are of, and its uniform layouts of as many devices."""


def measure(bench: Bench) -> Findings:
    """Fleets × batches × aims in closed form; layouts × loads through a router."""
    latency: dict[str, list[float]] = {}
    slowest: dict[str, list[float]] = {}
    names: dict[str, list[str]] = {}
    for fleet, (big, kinds) in FLEETS.items():
        cards = [device(kind) for kind in kinds]
        for batch in BATCHES:
            hybrid = Hybrid(Pool(model(big), cards[0]), cards, batch)
            uniform = [hybrid.uniform(n) for n in range(1, len(cards) + 1) if len(cards) % n == 0 and n in (1, 2, 4)]
            quick, steady = hybrid.best("latency"), hybrid.best("throughput")
            latency.setdefault(fleet, []).append(min(each.latency_s for each in uniform) / quick.latency_s)
            slowest.setdefault(fleet, []).append(min(each.slowest_s for each in uniform) / steady.slowest_s)
            names.setdefault(fleet, []).append(f"{quick.name} and {steady.name}")
    mixed = [fleet for fleet, (_, kinds) in FLEETS.items() if len(set(kinds)) > 1]
    mixes = any(len(set(cut.split("+"))) > 1 for row in names.values() for each in row for cut in each.split(" and "))
    text = "; ".join(f"{fleet}: {', '.join(_gain(each) for each in row)}" for fleet, row in latency.items())
    criteria = [
        Answer(
            "never slower",
            f"latency {text}; at batches of {', '.join(map(str, BATCHES))}",
            [each for rows in (latency, slowest) for row in rows.values() for each in row],
        ),
        Answer(
            "mixed devices",
            "; ".join(f"{fleet}: {', '.join(_gain(each) for each in slowest[fleet])}" for fleet in mixed),
            [each for fleet in mixed for each in slowest[fleet]],
        ),
        Answer("sizes", "; ".join(f"{fleet}: {row[0]}" for fleet, row in names.items()), mixes),
        _routed(bench),
    ]
    lines = {
        fleet: [Point(batch, each) for batch, each in zip(BATCHES, row, strict=True) if each < 1e3]
        for fleet, row in slowest.items() if min(row) < 1e3
    }  # fmt: skip
    return Findings(criteria, [Curve("Throughput over the best uniform layout", "batch", "number", lines)])


def _gain(times: float) -> str:
    return f"{times:.2f}" if times < 1e3 else "nothing else fits"


def _routed(bench: Bench) -> Answer:
    """Seconds of a request in the mean, by stages of different groups and by uniform ones."""
    sooner, texts = True, []
    for cut, (big, uniform) in ROUTED.items():
        own = [_request_s(bench, big, cut, rate) for rate in RATES]
        others = {name: [_request_s(bench, big, name, rate) for rate in RATES] for name in uniform}
        sooner = sooner and all(one < two for row in others.values() for one, two in zip(own, row, strict=True))
        rows = ", ".join(f"{name} {_row(row)}" for name, row in {cut: own, **others}.items())
        texts.append(f"{big}: {rows} s")
    return Answer("routed", f"{'; '.join(texts)}; at {', '.join(map(str, RATES))} req/s", sooner)


def _request_s(bench: Bench, big: str, tensors: str, rate: float) -> float:
    devices = sum(map(int, tensors.split("-")))
    cluster = ps.Cluster.of("RTX-4090", count=2 * devices).replicas(2, model=big, pipeline=devices)
    load = ps.workload.poisson(rate, requests=bench.requests(500), prompt_tokens=500, output_tokens=200, seed=1)
    cost = Termed(Roofline(), (HybridPartition(tensors),))
    records = bench.simulate(cluster, load, ps.Policies(router=LeastTokens()), cost=cost).run.records
    took = [ended - came for ended, came in zip(records.ended_at, records.arrived_at, strict=True)]
    return sum(took) / len(took) / SECOND


def _row(values: list[float]) -> str:
    return ", ".join(f"{each:.1f}" for each in values)
