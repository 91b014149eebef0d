"""Matrix: conversations of agents from peer to peer, against a central loop and batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Curve, Findings, Point
from poise.report.intervals import Interval, over_seeds
from poise.report.seeds import mean
from poise.workload.matrix import WAYS, Fleet, conversations, run

if TYPE_CHECKING:
    from collections.abc import Sequence

CLAIM = Claim(
    system="Matrix",
    paper="arXiv 2511.21686",
    year=2025,
    slot="workload",
    policies=("matrix",),
    headline="2 to 15.4 times the tokens per second of specialised pipelines on the same hardware",
    conditions="collaborative dialogue, extraction of web reasoning, tool-use trajectories; tens of thousands of rows "
    "on clusters of H100s with Ray",
    here="rows of 6 calls in the mean (geometric) of 2 s (lognormal, cv 1) on 64 agents of 256 calls each; 5 ms of "
    "orchestration a step; 10 to 10,000 rows in flight. Calls keep their time whatever the load; on Ray by "
    "bench/matrix.py alone",
    trust="code",
)

IN_FLIGHT = (10, 100, 1000, 3000, 10_000)
SEEDS, ROUNDS = 3, 8
STEP_S, CALL_S = 0.005, 2.0
CENTRAL, BATCH, PEERS = WAYS

Rates = dict[tuple[str, int], list[float]]


def measure(bench: Bench) -> Findings:
    """Calls per second by rows in flight, with eight times as many rows in all."""
    rates: Rates = {}
    for most in IN_FLIGHT:
        for seed in range(bench.seeds(SEEDS)):
            here = bench.requests(most)
            rows = conversations(
                ROUNDS * here, turns={"geometric": 6}, call_s={"lognormal": {"mean": CALL_S, "cv": 1}}, seed=seed
            )
            for way in WAYS:
                done = run(rows, way, Fleet(here, agents=64, calls=256, step_s=STEP_S))
                rates.setdefault((way, most), []).append(done.rate)
    return Findings([_ahead(rates), _band(rates), _loop(rates), _barrier(rates)], _curves(rates))


def _ratio(rates: Rates, most: int, other: str) -> list[float]:
    return [one / two for one, two in zip(rates[PEERS, most], rates[other, most], strict=True)]


def _ahead(rates: Rates) -> Criterion:
    def sure(most: int, other: str) -> bool:
        lead: Interval = over_seeds([each - 1 for each in _ratio(rates, most, other)])
        return lead.apart and (lead.value or 0) > 0

    ahead = [most for most in IN_FLIGHT if sure(most, CENTRAL) and sure(most, BATCH)]
    told = "; ".join(
        f"{most:,} rows: {mean(_ratio(rates, most, CENTRAL)):.2f} and {mean(_ratio(rates, most, BATCH)):.2f} times"
        for most in IN_FLIGHT
    )
    return Criterion(
        "Ahead of a central loop and of batches at 3 numbers of rows or more", "ahead on all three tasks", told,
        len(ahead) >= 3, headline=True,
    )  # fmt: skip


def _band(rates: Rates) -> Criterion:
    """The ratio to a loop grows with the rows, so its largest value is a choice of the sweep."""
    best = max(mean(_ratio(rates, most, other)) for most in IN_FLIGHT for other in (CENTRAL, BATCH))
    return Criterion(
        "How many times as fast at best", "15.4 times", f"{best:.1f} times at {IN_FLIGHT[-1]:,} rows", None,
        why="rows × step over the time of a call has no upper end but the agents' room, so no band can be asked",
    )  # fmt: skip


def _loop(rates: Rates) -> Criterion:
    most = IN_FLIGHT[-1]
    rate = mean(rates[CENTRAL, most])
    met = abs(rate * STEP_S - 1) <= 0.02
    return Criterion(
        "The central loop ends at one step after another, within 2 %", "the loop becomes the bottleneck",
        f"{rate:.1f} calls/s at {most:,} rows, 1 / step {1 / STEP_S:.0f}", met,
        why="" if met else "the last calls run while the loop has nothing left to do",
    )  # fmt: skip


def _barrier(rates: Rates) -> Criterion:
    ratios = {most: mean(_ratio(rates, most, BATCH)) for most in IN_FLIGHT}
    grows = all(one < two for one, two in zip(list(ratios.values())[:3], list(ratios.values())[1:4], strict=True))
    return Criterion(
        "Batches lose more the larger they are: the longest of more rows", "barriers idle the GPUs",
        ", ".join(f"{most:,}: {ratio:.2f} times" for most, ratio in ratios.items()), grows,
        why="" if grows else "chance of the longest row",
    )  # fmt: skip


def _curves(rates: Rates) -> Sequence[Curve]:
    def line(way: str) -> list[Point]:
        found = [(most, over_seeds(rates[way, most])) for most in IN_FLIGHT]
        return [Point(most, each.value, each.half) for most, each in found]

    return [Curve("Calls per second", "rows in flight", "number", {way: line(way) for way in WAYS})]
