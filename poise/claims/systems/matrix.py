"""Matrix: conversations of agents from peer to peer, against a central loop and batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.report.intervals import Interval, over_seeds
from poise.report.seeds import mean
from poise.workload.matrix import WAYS, Fleet, conversations, run

if TYPE_CHECKING:
    from collections.abc import Sequence


IN_FLIGHT = (10, 100, 1000, 3000, 10_000)
ROUNDS = 8
STEP_S, CALL_S = 0.005, 2.0
CENTRAL, BATCH, PEERS = WAYS

Rates = dict[tuple[str, int], list[float]]


def measure(bench: Bench) -> Findings:
    """Calls per second by rows in flight, with eight times as many rows in all."""
    rates: Rates = {}
    for most in IN_FLIGHT:
        for seed in range(bench.seeds()):
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


def _ahead(rates: Rates) -> Answer:
    def sure(most: int, other: str) -> bool:
        lead: Interval = over_seeds([each - 1 for each in _ratio(rates, most, other)])
        return lead.apart and (lead.value or 0) > 0

    ahead = [most for most in IN_FLIGHT if sure(most, CENTRAL) and sure(most, BATCH)]
    text = "; ".join(
        f"{most:,} rows: {mean(_ratio(rates, most, CENTRAL)):.2f} and {mean(_ratio(rates, most, BATCH)):.2f} times"
        for most in IN_FLIGHT
    )
    return Answer("ahead", text, len(ahead))


def _band(rates: Rates) -> Answer:
    """The ratio to a loop grows with the rows, so its largest value is a choice of the sweep."""
    best = max(mean(_ratio(rates, most, other)) for most in IN_FLIGHT for other in (CENTRAL, BATCH))
    return Answer("band", f"{best:.1f} times at {IN_FLIGHT[-1]:,} rows", None)


def _loop(rates: Rates) -> Answer:
    most = IN_FLIGHT[-1]
    rate = mean(rates[CENTRAL, most])
    return Answer("loop", f"{rate:.1f} calls/s at {most:,} rows, 1 / step {1 / STEP_S:.0f}", abs(rate * STEP_S - 1))


def _barrier(rates: Rates) -> Answer:
    ratios = {most: mean(_ratio(rates, most, BATCH)) for most in IN_FLIGHT}
    grows = all(one < two for one, two in zip(list(ratios.values())[:3], list(ratios.values())[1:4], strict=True))
    return Answer("barrier", ", ".join(f"{most:,}: {ratio:.2f} times" for most, ratio in ratios.items()), grows)


def _curves(rates: Rates) -> Sequence[Curve]:
    def line(way: str) -> list[Point]:
        found = [(most, over_seeds(rates[way, most])) for most in IN_FLIGHT]
        return [Point(most, each.value, each.half) for most, each in found]

    return [Curve("Calls per second", "rows in flight", "number", {way: line(way) for way in WAYS})]
