"""Other schedules for a layout at its stages' own times, within its free memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from poise.core.errors import PoiseError
from poise.cost.training import Job, Layout, Prediction
from poise.cost.training.stages import stages_of
from poise.cost.training.step import safe_bytes
from poise.pipeline import Timing, make, time
from poise.plan.training.page import MOST
from poise.sim.step import layout as simulate
from poise.sim.step.layout import GRAIN, costs_of, options

BESIDE = ("one_f_one_b", "interleaved", "zb_h1", "zb_v", "poise")
"""Schedules that are drawn next to the best layout's own, where its counts allow them."""

CHUNKED = ("interleaved", "zb_v", "v_half", "v_min")
"""Schedules with two chunks on each rank, for layouts with fewer."""

TRIED = ("zb_h1", "zb_v", "v_half", "v_min", "poise")
"""Schedules that are tried for each of the best layouts."""


@dataclass(frozen=True, slots=True)
class Schedules:
    """The best layout's schedule and others with its stages' times, the fastest first behind it.

    room: activations of full stages that fit into the memory that may be used.
    """

    timings: list[Timing]
    room: Fraction

    @property
    def fastest(self) -> Timing:
        """The schedules that fit."""
        return min((each for each in self.timings if self.fits(each)), key=lambda each: each.makespan)

    def fits(self, timing: Timing) -> bool:
        """Whether its fullest rank fits into the room; the layout's own does."""
        return timing is self.timings[0] or max(timing.memory.peaks) <= self.room


@dataclass(frozen=True, slots=True)
class Rescheduled:
    """A layout with the fastest schedule that fits: seconds of a step, and those with its own schedule.

    held, room: the most activations of full stages that a rank holds, and how many there is room for.
    """

    layout: Layout
    schedule: str
    seconds: float
    own_s: float
    held: float
    room: float


def rescheduled(job: Job, found: Sequence[Prediction]) -> list[Rescheduled]:
    """Those layouts that have a pipeline, each with the fastest of its own schedule and `TRIED`, the fastest first.

    Of layouts that differ in how their stages are cut into chunks alone the first is taken: what is tried is the same.
    """
    best: list[Rescheduled] = []
    seen: set[Layout] = set()
    for each in found:
        layout = each.layout
        mesh = replace(layout, chunks=1, schedule="", split=())
        long = 3 * layout.microbatches(job) * layout.stages > simulate.MOST
        if layout.pipeline == 1 or long or mesh in seen:
            continue
        seen.add(mesh)
        timed = _others(job, each, TRIED)
        fastest, own = timed.fastest, timed.timings[0]
        seconds = each.seconds + float(fastest.makespan - own.makespan) * GRAIN
        held = float(max(fastest.memory.peaks))
        name = fastest.graph.schedule.name
        best.append(Rescheduled(layout, name, seconds, each.seconds, held, float(timed.room)))
    return sorted(best, key=lambda each: each.seconds)


def alternatives(job: Job, best: Prediction) -> Schedules | None:
    """Schedules of the best layout; None where it has no pipeline, or too many operations for them to be tried."""
    layout, count = best.layout, best.layout.microbatches(job)
    if layout.pipeline == 1 or 3 * count * layout.stages > MOST // (len(BESIDE) + 1):
        return None
    return _others(job, best, BESIDE)


def _others(job: Job, best: Prediction, names: Sequence[str]) -> Schedules:
    """The layout's own schedule and those of the names that its counts allow."""
    layout = best.layout
    own = _timed(job, layout, layout.schedule, layout.chunks)
    assert own is not None
    held = max(own.memory.peaks)
    free = max(0.0, safe_bytes(job) - best.memory) / best.classes["activations"]
    room = max(held, Fraction(int(8 * float(held) * (1 + free)), 8))
    found = [
        timing
        for name in names
        if name != layout.schedule
        and (timing := _timed(job, layout, name, max(layout.chunks, 2) if name in CHUNKED else 1, room)) is not None
    ]
    return Schedules([own, *sorted(found, key=lambda each: each.makespan)], room)


def _timed(job: Job, layout: Layout, name: str, chunks: int, room: Fraction | None = None) -> Timing | None:
    """A schedule with the layout's stages cut into this many chunks; None where its counts do not allow it."""
    cut = layout
    if chunks != layout.chunks:  # stages take the same whatever their order, so any schedule of so many will do
        cut = replace(layout, chunks=chunks, split=(), schedule="one_f_one_b" if chunks == 1 else "zb_v")
    try:
        costs = costs_of(stages_of(job, cut))
        more = options(cut) | ({"memory_limit": room} if name == "poise" else {})
        return time(make(name, layout.pipeline, layout.microbatches(job), costs=costs, **more), costs)
    except PoiseError:
        return None
