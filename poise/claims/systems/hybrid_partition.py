"""Hybrid partition: stages with tensor groups of their own sizes."""

from __future__ import annotations

from poise.catalogue import device, model
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Curve, Findings, Point
from poise.core.spec import Pool
from poise.cost.hybrid_partition import Hybrid

CLAIM = Claim(
    system="Hybrid model partition (Inferflow)",
    paper="github.com/inferflow/inferflow",
    year=2023,
    slot="cost",
    policies=("hybrid_partition",),
    headline="no figure is published; layers by stages, tensors or both, so that models run on any number of devices",
    conditions="models of tens of billions of parameters on several consumer GPUs",
    here="a decode step of LLaMA-2-13B and CodeLlama-34B by the roofline on three to six devices, equal and mixed; "
    "batches of 1 to 16, against every uniform layout of the same devices",
    trust="abstract",
)

BATCHES = (1, 4, 8, 16)
FLEETS = {
    "3 RTX 4090": ("llama-2-13b", ("RTX-4090",) * 3),
    "6 RTX 4090": ("codellama-34b", ("RTX-4090",) * 6),
    "4 L4, 1 L40S": ("codellama-34b", ("L4",) * 4 + ("L40S",)),
    "2 RTX 4090, 2 A6000": ("codellama-34b", ("RTX-4090",) * 2 + ("RTX-A6000",) * 2),
}


def measure(bench: Bench) -> Findings:
    """Nothing is simulated: fleets × batches × aims."""
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
    told = "; ".join(f"{fleet}: {', '.join(_gain(each) for each in row)}" for fleet, row in latency.items())
    criteria = [
        Criterion(
            "Never slower than the best uniform layout, in latency or throughput", "none published",
            f"latency {told}; at batches of {', '.join(map(str, BATCHES))}",
            all(each >= 1 - 1e-9 for rows in (latency, slowest) for row in rows.values() for each in row),
            headline=True,
        ),
        Criterion(
            "More throughput than any uniform layout on mixed devices, at each batch", "any number of devices",
            "; ".join(f"{fleet}: {', '.join(_gain(each) for each in slowest[fleet])}" for fleet in mixed),
            all(each > 1 for fleet in mixed for each in slowest[fleet]), headline=True,
        ),
        Criterion(
            "Some best cut has tensor groups of different sizes", "hybrid",
            "; ".join(f"{fleet}: {row[0]}" for fleet, row in names.items()),
            mixes, why="" if mixes else "the widest group is the quickest here, and single devices carry the most",
        ),
    ]  # fmt: skip
    lines = {
        fleet: [Point(batch, each) for batch, each in zip(BATCHES, row, strict=True) if each < 1e3]
        for fleet, row in slowest.items() if min(row) < 1e3
    }  # fmt: skip
    return Findings(criteria, [Curve("Throughput over the best uniform layout", "batch", "number", lines)])


def _gain(times: float) -> str:
    return f"{times:.2f}" if times < 1e3 else "nothing else fits"
