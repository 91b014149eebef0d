"""POLCA: three servers in ten more under the same power budget, without one power brake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import exp, pi

import numpy as np

import poise as ps
from poise.catalogue import device, model
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.core.policy import Cap
from poise.core.power import capped
from poise.cost.row import Played, Row
from poise.policies.cap.one_threshold import OneThreshold
from poise.policies.cap.polca import Polca
from poise.report.wording import write
from poise.workload import RequestClass, classes, poisson, uniform

RATED, TICK_S, DAYS = 40, 2.0, 14
MEAN, SWING, NOISE, MEMORY_S = 0.62, 0.12, 0.0131, 60.0
MORE = (0.0, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5)
KNOBS: Mapping[str, Callable[[], Cap] | None] = {
    "no control": None,
    "one, low": OneThreshold,
    "one, all": lambda: OneThreshold(high=OneThreshold().low),
    "polca": Polca,
}
LOADS = (0.05, 0.1, 0.15)
"""Requests per second of a server; it is saturated at 0.25."""

_CHAT = RequestClass(1, uniform(2048, 4096), uniform(128, 2048))
SERVED: Mapping[str, Mapping[str, RequestClass]] = {
    "low": {"summarise": RequestClass(1, uniform(2048, 8192), uniform(256, 512)), "chat": _CHAT},
    "high": {"search": RequestClass(1, uniform(512, 2048), uniform(1024, 2048)), "chat": _CHAT},
}
"""The requests of servers by priority, in equal parts, with the ranges of lengths of the paper's three services."""


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
    polca = played["polca"][0.3]
    criteria = [
        _brakes(played), *_slower(bench, polca), _begins(played["no control"]), _second(played),
        _all(bench, polca, played["one, all"][0.3]), _delay(late), _hysteresis(polca, swinging), _calibrated(loads),
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


def _latency(bench: Bench, priority: str, load: float, clock: float) -> float:
    """Median end-to-end seconds of a server of one priority at a clock."""
    bloom = replace(model("bloom-176b"), max_context=16_384)
    pool = ps.Pool(bloom, capped(device("A100"), clock), tensor=8)
    drawn = poisson(load, requests=bench.requests(3000), prompt_tokens=1, output_tokens=1, seed=2)
    return bench.simulate(ps.Cluster((pool,)), classes(drawn, SERVED[priority], seed=2)).e2e.p50 or 0.0


def _slowed(bench: Bench, runs: Sequence[Played], priority: str, load: float) -> float:
    """The part by which a priority is slower: time at each clock times what that clock costs."""
    place = list(SERVED).index(priority)
    clocks = {pair[place] for played in runs for pair in played.clocks} - {1.0}
    full = _latency(bench, priority, load, 1.0)
    costs = {1.0: 0.0, **{clock: _latency(bench, priority, load, clock) / full - 1 for clock in clocks}}
    return sum(
        part * costs[pair[place]] / len(runs) for played in runs for pair, part in played.clocks.items()
    )  # fmt: skip


def _slower(bench: Bench, runs: list[Played]) -> list[Answer]:
    slow = {priority: {load: _slowed(bench, runs, priority, load) for load in LOADS} for priority in SERVED}
    return [
        Answer(
            f"{priority} priority",
            ", ".join(f"{write(each, 'share', 2)} at {load:g} req/s" for load, each in found.items()),
            list(found.values()),
        )
        for priority, found in slow.items()
    ]


def _begins(free: Mapping[float, list[Played]]) -> Answer:
    counts = {more: _count(runs) for more, runs in free.items()}
    return Answer(
        "begins",
        "; ".join(f"+{100 * more:.0f} %: {count}" for more, count in counts.items()),
        counts[0.2] == 0 and counts[0.3] > 0,
    )


def _over(runs: Sequence[Played]) -> float:
    """The part of the time that a row is above its budget."""
    return sum(power > 1 for each in runs for power in each.powers) / sum(len(each.powers) for each in runs)


def _second(played: Mapping[str, Mapping[float, list[Played]]]) -> Answer:
    """Capping low priority at one threshold, beside no control and beside two thresholds."""
    by_more = {more: [_over(played[name][more]) for name in ("no control", "one, low", "polca")] for more in MORE[3:]}
    return Answer(
        "second",
        "; ".join(
            f"+{100 * more:.0f} %: {', '.join(write(each, 'share', 2) for each in parts)}"
            for more, parts in by_more.items()
        )
        + " of the time (no control, one threshold, polca)",
        all(free > one > two or not one + two for free, one, two in by_more.values()),
    )


def _all(bench: Bench, polca: list[Played], every: list[Played]) -> Answer:
    """How much slower high priority is where one threshold caps all devices, over POLCA."""
    ratios = [_slowed(bench, every, "high", load) / _slowed(bench, polca, "high", load) for load in LOADS]
    return Answer("all", ", ".join(f"{each:.2f} times" for each in ratios), ratios)


def _delay(late: list[Played]) -> Answer:
    return Answer("delay", f"{_count(late)} brakes at 80 s", _count(late) > 0)


def _hysteresis(runs: list[Played], swinging: list[Played]) -> Answer:
    many, few = (sum(each.commands for each in played) for played in (swinging, runs))
    return Answer("hysteresis", f"{many:,} commands without, {few:,} with", many / few)


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
