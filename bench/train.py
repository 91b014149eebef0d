"""Pipeline schedules: what they lose, hold and cost to make, ours beside the published ones and their authors' code.

    python bench/train.py [--sizes P,M …] [--sets ABCDE] [--rest] [--slow] [--sail FOLDER] [--json FILE]

Each row is one ground: a placement and a memory limit, with the schedule that was published for it, what its authors'
scheduler makes (where a checkout is given), what `poise` finds within the same limit, and the bound that nothing beats.
All are timed by the same exact evaluation. Cost sets A, B and C are equal times, equal times with messages, and the
1.5B profile of the Zero Bubble paper; D is C with a heavier first (× 1.1) and last stage (× 1.4), E is C with stages
that take 0.8, 1 and 1.2 of it in turn. Seconds are wall time of making and of proving; nothing is asserted about them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from peers.sail import Sail

from poise.core.errors import ScheduleError
from poise.pipeline import Costs, Schedule, check, make, names, time
from poise.pipeline.certified import Certified

PROFILE = (18522, 18086, 9337)
SETS = {
    "A": ((1000, 1000, 1000), 0),
    "B": ((1000, 1000, 1000), 50),
    "C": (PROFILE, 601),
    "D": (PROFILE, 601),
    "E": (PROFILE, 601),
}


class Ground(NamedTuple):
    """Where schedules are compared: one published for it, its counterpart, chunks per rank, activations per rank."""

    name: str
    peer: str
    chunks: int
    limit: int


class Figures(NamedTuple):
    """Bubbles as parts of the makespan and of the longest span, activations of a full stage, seconds."""

    bubble: float
    span: float
    peak: float
    made_s: float
    checked_s: float


def grounds(ranks: int) -> Iterator[Ground]:
    """The published fixed points."""
    yield Ground("zb_auto", "zb_1p", 1, ranks)
    yield Ground("zb_auto", "zb_2p", 1, 2 * ranks)
    yield Ground("zb_v", "zb_v", 2, ranks)
    yield Ground("v_half", "v_half", 2, (ranks + 2) // 2)
    yield Ground("v_min", "v_min", 2, (ranks + 4) // 3)
    yield Ground("v_auto", "v_auto", 2, ranks)


def times_of(name: str, ranks: int) -> tuple[list[list[int]], int]:
    """Forward, input gradient and weight gradient of each stage, and a message."""
    work, comm = SETS[name]
    factors = [10] * ranks
    if name == "D":
        factors[0], factors[-1] = 11, 14
    if name == "E":
        factors = [(8, 10, 12)[stage % 3] for stage in range(ranks)]
    return [[each * factor // 10 for factor in factors] for each in work], comm


def figures(schedule: Schedule, costs: Costs, made_s: float, checked_s: float) -> Figures:
    """What the exact evaluation says."""
    timing = time(schedule, costs)
    peak = max(timing.memory.peaks)
    return Figures(
        float(timing.bubble_global_fraction), float(timing.bubble_span_fraction), float(peak), made_s, checked_s
    )


def ours(name: str, ranks: int, count: int, costs: Costs, limit: int | None, **given: Any) -> tuple[Schedule, Figures]:
    """A schedule of ours, made and proven."""
    began = perf_counter()
    schedule = make(name, ranks, count, costs=costs, memory_limit=limit, **given)
    made = perf_counter()
    check(schedule, memory_limit=limit)
    return schedule, figures(schedule, costs, made - began, perf_counter() - made)


def compare(ranks: int, count: int, sets: str, sail: Sail | None, slow: bool) -> Iterator[dict[str, Any]]:
    """A line for each cost set and ground."""
    print(f"\np = {ranks}, m = {count}: bubble of the makespan / of the span, in %; peak in full-stage activations")
    print(f"{'':4}{'ground':17}{'published':>15}{'made s':>8}{'sail-sg':>15}{'made s':>8}", end="")
    print(f"{'poise':>15}{'peak':>7}{'made s':>8}{'proven s':>9}{'bound':>8}{'saved':>8}")
    for name in sets:
        times, comm = times_of(name, ranks)
        costs = Costs.of(*times, comm)
        for ground in grounds(ranks):
            _, published = ours(ground.name, ranks, count, costs, ground.limit)
            schedule, best = ours("poise", ranks, count, costs, ground.limit, chunks=ground.chunks)
            theirs = None
            if sail and (slow or ground.peer != "v_auto"):
                made, seconds = sail.make(ground.peer, ranks, count, times, comm)
                theirs = figures(made, costs, seconds, 0)
            yield line(name, ground, published, theirs, best, schedule, costs)


def line(
    name: str,
    ground: Ground,
    published: Figures,
    theirs: Figures | None,
    best: Figures,
    schedule: Schedule,
    costs: Costs,
) -> dict[str, Any]:
    """Print a row, and return its figures. Saved is of the makespan, against the better of the two others."""
    assert isinstance(schedule, Certified)
    timing = time(schedule, costs)
    least = float(1 - min(timing.busy) / schedule.bound)
    others = [each.bubble for each in (published, theirs) if each]
    saved = 1 - (1 - min(others)) / (1 - best.bubble)
    peer = f"{pair(theirs):>15}{theirs.made_s:8.2f}" if theirs else f"{'not given':>15}{'':8}"
    print(
        f"{name:4}{ground.peer:8}{'≤ ' + str(ground.limit):9}{pair(published):>15}{published.made_s:8.2f}{peer}"
        f"{pair(best):>15}{best.peak:7g}{best.made_s:8.2f}{best.checked_s:9.2f}{100 * least:8.2f}{100 * saved:8.2f}",
        flush=True,
    )
    return {
        "costs": name, **ground._asdict(), "published": published._asdict(), "bound": least,
        "sail": theirs and theirs._asdict(), "poise": best._asdict(),
    }  # fmt: skip


def pair(found: Figures) -> str:
    """Both bubbles in per cent."""
    return f"{100 * found.bubble:.2f} / {100 * found.span:.2f}"


def seconds(ranks: int, count: int) -> Iterator[dict[str, Any]]:
    """Making and proving every schedule with its own defaults."""
    print(f"\np = {ranks}, m = {count}: seconds to make and to prove")
    for name in names():
        try:
            schedule, found = ours(name, ranks, count, Costs.of(), None)
        except ScheduleError as error:
            print(f"{name:20} not: {error}")
            continue
        operations = sum(map(len, schedule.ranks))
        print(f"{name:20}{found.made_s:8.3f}{found.checked_s:8.3f}{operations:9,} operations", flush=True)
        yield {"name": name, "operations": operations, **found._asdict()}


def small() -> Iterator[dict[str, Any]]:
    """How near `poise` comes to what `zb_exact` proves, p = 4, m = 8."""
    print("\np = 4, m = 8: makespan over the proven bound, in %; * where that is proven to be the optimum")
    for name in SETS:
        times, comm = times_of(name, 4)
        costs = Costs.of(*times, comm)
        for chunks, limit in ((1, 2), (1, 4), (1, 8), (2, 2), (2, 3), (2, 4)):
            found = make("poise", 4, 8, costs=costs, memory_limit=limit, chunks=chunks)
            placement = "loop" if chunks > 1 and found.homes[4] == found.homes[0] else "wave"
            given = {"chunks": chunks, "placement": placement}
            proven = make("zb_exact", 4, 8, costs=costs, memory_limit=limit, **given)
            assert isinstance(found, Certified) and isinstance(proven, Certified)
            over = 100 * float(found.value / proven.bound - 1)
            mark = " *" if proven.optimal else ""
            print(f"{name:4}{chunks} chunk{'s' * (chunks > 1):2}{placement:5}≤ {limit}{over:8.2f}{mark}", flush=True)
            yield {"costs": name, **given, "limit": limit, "over": over, "optimal": proven.optimal}


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description="Pipeline schedules beside the published ones and their authors'.")
    sizes = ["8,32", "16,128", "32,256"]
    parser.add_argument("--sizes", nargs="*", default=sizes, metavar="P,M", help="ranks and microbatches")
    parser.add_argument("--sets", default="".join(SETS), metavar="LETTERS", help="cost sets")
    parser.add_argument("--rest", action="store_true", help="also optima of small cases, and seconds of all schedules")
    parser.add_argument("--slow", action="store_true", help="sail-sg's v_auto, too, which takes minutes")
    parser.add_argument("--sail", type=Path, metavar="FOLDER", help="a checkout (default: POISE_SAIL)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there")
    options = parser.parse_args()
    sail = Sail.find(options.sail)
    print(f"python {platform.python_version()} on {platform.machine()}, load average {os.getloadavg()[0]:.1f}")
    found: dict[str, Any] = {}
    for size in options.sizes:
        ranks, count = map(int, size.split(","))
        found[size] = list(compare(ranks, count, options.sets, sail, options.slow))
    if options.rest:
        found["small"] = list(small())
        found["seconds"] = list(seconds(32, 256))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
