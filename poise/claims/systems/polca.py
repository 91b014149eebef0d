"""POLCA: three servers in ten more under the same power budget, without one power brake."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import exp, pi

import numpy as np

import poise as ps
from poise.catalogue import device, model
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.core.power import capped
from poise.cost.row import Played, Row
from poise.policies.cap.polca import FULL_MHZ, Polca
from poise.report.wording import write

RATED, TICK_S, DAYS = 40, 2.0, 14
MEAN, SWING, NOISE, MEMORY_S = 0.62, 0.12, 0.0131, 60.0
MORE = (0.0, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5)
KNOBS: Mapping[str, Callable[[], Polca] | None] = {
    "no control": None,
    "one threshold": lambda: Polca(first=0.89),
    "polca": Polca,
}


def _load(bench: Bench, seed: int) -> list[float]:
    """The power of the row of 40 over its budget: a day's wave, and noise that remembers a minute."""
    ticks = bench.requests(round(DAYS * 86_400 / TICK_S))
    keep = exp(-TICK_S / MEMORY_S)
    drawn = np.random.default_rng(seed).normal(0.0, NOISE * (1 - keep**2) ** 0.5, ticks)
    noise, last = np.empty(ticks), 0.0
    for tick, each in enumerate(drawn):
        last = noise[tick] = keep * last + each
    wave = MEAN + SWING * np.sin(2 * pi * TICK_S / 86_400 * np.arange(ticks))
    return [float(each) for each in wave + noise]


def measure(bench: Bench) -> Findings:
    """Numbers of servers × knobs, over seeds."""
    loads = [_load(bench, seed) for seed in range(bench.seeds())]
    played = {
        name: {more: [_row(more).play(load, kind and kind()) for load in loads] for more in MORE}
        for name, kind in KNOBS.items()
    }
    late = [Row(round(RATED * 1.3), delay_s=80.0).play(load, Polca()) for load in loads]
    swinging = [Row(round(RATED * 1.3)).play(load, Polca(release=0.0)) for load in loads]
    criteria = [
        _brakes(played), _slower(bench, played["polca"][0.3]), _begins(played["no control"]), _second(played),
        _details(played["polca"][0.3], late, swinging), _calibrated(loads),
    ]  # fmt: skip
    lines = {
        name: [Point(100 * more, float(_count(each))) for more, each in runs.items()] for name, runs in played.items()
    }
    return Findings(criteria, [Curve("Power brakes, all seeds", "% more servers", "count", lines)])


def _row(more: float) -> Row:
    return Row(round(RATED * (1 + more)))


def _count(runs: list[Played]) -> int:
    return sum(each.brakes for each in runs)


def _brakes(played: Mapping[str, Mapping[float, list[Played]]]) -> Answer:
    free, held = (_count(played[name][0.3]) for name in ("no control", "polca"))
    return Answer("brakes", f"{held} against {free}", held == 0 and free >= 10)


def _latency(bench: Bench, clock: float) -> float:
    """Median end-to-end seconds at a clock."""
    pool = ps.Pool(model("llama-2-70b"), capped(device("A100"), clock), tensor=8)
    load = ps.workload.poisson(
        1.5, requests=bench.requests(2000), prompt_tokens=ps.workload.lognormal(1500, 1.0),
        output_tokens=ps.workload.lognormal(250, 1.0), seed=2,
    )  # fmt: skip
    return bench.simulate(ps.Cluster((pool,)), load).e2e.p50 or 0.0


def _slower(bench: Bench, runs: list[Played]) -> Answer:
    """Time at each clock times what that clock costs."""
    times = {clock: _latency(bench, clock) for clock in (1.0, Polca().low, Polca().lower, Polca().high)}
    costs = {clock: each / times[1.0] - 1 for clock, each in times.items()}
    slow = [0.0, 0.0]
    for played in runs:
        for clocks, part in played.clocks.items():
            for each, clock in enumerate(clocks):
                slow[each] += part * costs[clock] / len(runs)
    text = ", ".join(
        f"{write(cost, 'share', 2)} at {FULL_MHZ * clock:.0f} MHz" for clock, cost in costs.items() if cost
    )
    return Answer(
        "slower",
        f"high {write(slow[1], 'share', 2)}, low {write(slow[0], 'share', 2)} (a clock costs {text})",
        [slow[1] / 0.01, slow[0] / 0.02],
    )


def _begins(free: Mapping[float, list[Played]]) -> Answer:
    counts = {more: _count(runs) for more, runs in free.items()}
    return Answer(
        "begins",
        "; ".join(f"+{100 * more:.0f} %: {count}" for more, count in counts.items()),
        counts[0.2] == 0 and counts[0.3] > 0,
    )


def _second(played: Mapping[str, Mapping[float, list[Played]]]) -> Answer:
    by_more = {more: [_count(played[name][more]) for name in KNOBS] for more in MORE[3:]}
    met = all(free > one > two or not one for free, one, two in by_more.values())
    return Answer(
        "second",
        "; ".join(f"+{100 * more:.0f} %: {', '.join(map(str, counts))}" for more, counts in by_more.items())
        + f" ({', '.join(KNOBS)})",
        met,
    )


def _changes(runs: list[Played]) -> int:
    return sum(each.commands for each in runs)


def _details(runs: list[Played], late: list[Played], swinging: list[Played]) -> Answer:
    met = _count(late) > 0 and _changes(swinging) >= 2 * _changes(runs)
    return Answer(
        "details",
        f"{_count(late)} brakes at 80 s; {_changes(swinging):,} commands without hysteresis, {_changes(runs):,} with",
        met,
    )


def _calibrated(loads: list[list[float]]) -> Answer:
    """The made-up power has what was published of the real one."""
    span = round(40.0 / TICK_S)
    peak = max(map(max, loads))
    rise = max(float((np.array(load)[span:] / np.array(load)[:-span]).max()) - 1 for load in loads)
    return Answer(
        "calibrated",
        f"{write(peak, 'share', 3)}, {write(rise, 'share', 3)}",
        abs(peak - 0.79) <= 0.02 and abs(rise - 0.118) <= 0.03,
    )
