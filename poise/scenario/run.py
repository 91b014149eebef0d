"""Run a scenario: each seed under each router, with the same arrivals for all."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poise.core.units import SECOND
from poise.report.metrics import measure
from poise.scenario.build import Problem
from poise.scenario.outcome import Outcome, Tally
from poise.scenario.resolve import provenance
from poise.scenario.simulate import simulate

if TYPE_CHECKING:
    from poise.core.trace import Trace
    from poise.workload import Workload

Meter = Callable[[str, int, int], None]
"""Told now and then what is running, how many requests have ended and how many there are."""

SAMPLES = 400
"""Samples of the timeline within the span of the arrivals."""

SLICED = 200_000
"""Requests beyond which the batches of a run are not kept for its timeline: a million would take a gigabyte."""


@dataclass(frozen=True, slots=True)
class Keep:
    """What to keep of the first seed: a timeline for reports, and the events of the first router."""

    timeline: bool = False
    trace: Trace | None = None


def run(problem: Problem, *, keep: Keep | None = None, meter: Meter | None = None) -> Outcome:
    """Simulate every seed under every router; Ctrl-C ends it with what is done so far, marked as interrupted.

    All routers meet the same requests and the same keyed chance, so their differences are paired by seed.
    """
    keep = keep or Keep()
    tallies = [Tally(label) for label, _ in problem.bundles]
    first = problem.traffic.make(problem.seeds[0])
    outcome = Outcome(tallies, provenance(problem, first), len(problem.seeds), notes=_notes(problem))
    with interrupts() as stop:
        for seed in problem.seeds:
            workload = first if seed == problem.seeds[0] else problem.traffic.make(seed)
            for at in range(len(problem.bundles)):
                _one(problem, tallies[at], at, seed, workload, keep, _metered(meter, stop, tallies[at].router))
                if stop.is_set() or tallies[at].interrupted:
                    outcome.interrupted = True
                    return outcome
    return outcome


def _one(
    problem: Problem,
    tally: Tally,
    at: int,
    seed: int,
    workload: Workload,
    keep: Keep,
    progress: Callable[[int, int], None],
) -> None:
    """One seed under one router."""
    drawn = keep.timeline and seed == problem.seeds[0]
    done = simulate(
        problem.cluster,
        workload,
        problem.bundles[at][1],
        cost=problem.cost,
        belief=problem.belief,
        seed=seed,
        until=problem.until_s,
        drain=problem.drain,
        sample_s=period(workload) if drawn else 0.0,
        slices=drawn and len(workload) <= SLICED,
        trace=keep.trace if at == 0 and seed == problem.seeds[0] else None,
        progress=progress,
    )
    tally.add(seed, done, measure(done, problem.cluster, problem.slo, warmup_s=problem.warmup_s))


def period(workload: Workload) -> float:
    """Seconds between samples: a share of the span of the arrivals, and not below a millisecond."""
    return max(float(workload.arrival[-1]) / SECOND / SAMPLES, 0.001) if workload.arrival[-1] else 0.1


def _notes(problem: Problem) -> dict[str, str]:
    """What several seeds on a recorded load are worth."""
    if len(problem.seeds) < 2 or not problem.traffic.recorded:
        return {}
    said = "a recorded load is the same under every seed; seeds only break ties, so they say nothing of other traffic"
    return {"seeds": said}


def _metered(meter: Meter | None, stop: threading.Event, label: str) -> Callable[[int, int], None]:
    """A progress callback that reports, and that ends the run once a stop is asked for: between two events."""

    def progress(ended: int, total: int) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        if meter is not None:
            meter(label, ended, total)

    return progress


@contextmanager
def interrupts() -> Iterator[threading.Event]:
    """Within the block the first Ctrl-C sets the event, so that a run stops cleanly; a second one is raised at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def asked(number: int, frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal.signal(signal.SIGINT, asked)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
