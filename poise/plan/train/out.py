"""What `poise train plan --out` writes: the answer as a page and as JSON, and the best layout as trainers' settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from html import escape
from pathlib import Path

from poise.core.errors import PoiseError
from poise.cost.training import Job, Layout, Prediction
from poise.cost.training.stages import stages_of
from poise.cost.training.step import safe_bytes
from poise.pipeline import Timing, make, time
from poise.pipeline.text import write_json
from poise.plan.train.exports import Exported, exported
from poise.plan.train.page import MOST, drawn, listed
from poise.plan.train.plan import GIB, HEAD, as_dict, binding, cells, shares
from poise.plan.train.search import Found
from poise.plan.train.servers import Ordered
from poise.plan.train.simulate import GRAIN, costs_of, options
from poise.report.files import replacing
from poise.report.frame import document
from poise.report.pieces import section
from poise.report.timeline import STYLE
from poise.scenario.write import to_json

BESIDE = ("one_f_one_b", "interleaved", "zb_h1", "zb_v", "poise")
"""Schedules that are drawn beside the best layout's own, where its counts allow them."""

CHUNKED = ("interleaved", "zb_v")


@dataclass(frozen=True, slots=True)
class Schedules:
    """The best layout's schedule and others with its stages' times, the fastest first behind it.

    room: activations of full stages that fit into the memory that may be used.
    """

    timings: list[Timing]
    room: Fraction

    @property
    def fastest(self) -> Timing:
        """Of those that fit."""
        return min((each for each in self.timings if self.fits(each)), key=lambda each: each.makespan)

    def fits(self, timing: Timing) -> bool:
        """Whether its fullest rank holds no more than there is room for; the layout's own does."""
        return timing is self.timings[0] or max(timing.memory.peaks) <= self.room


def write_out(found: Found, folder: Path, servers: Ordered | None = None) -> Exported:
    """Write everything into `folder`, which is made where it is not there."""
    settings, others = exported(found.job, found.best[0].layout), alternatives(found.job, found.best[0])
    files = {
        "plan.html": page(found, settings, others),
        "plan.json": to_json(as_dict(found, servers)),
        **settings.files,
        **({} if servers is None else {"hosts": "".join(f"{name}\n" for name in servers.servers)}),
        **({} if others is None else {"schedule.json": write_json(others.fastest.graph.schedule)}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        with replacing(folder / name) as file:
            file.write(text.encode())
    return Exported(files, settings.refused)


def page(found: Found, settings: Exported, others: Schedules | None) -> str:
    """The answer, what it trades off, its schedule beside others on one axis, and the settings that were written."""
    job = found.job
    title = f"{job.model.name} on {job.devices} {job.device.name}"
    body = f"<header><h1>{escape(title)}</h1></header>" + section(
        "The layout", _lines(_headline(found)), listed(HEAD, [cells(each) for each in found.best]), anchor="layout"
    )
    body += section("Time against memory", listed(HEAD, [cells(each) for each in found.frontier]), anchor="memory-time")
    if others is not None:
        body += _beside(others)
    said = [*settings.files, *(f"not for {name}: {why}" for name, why in settings.refused.items())]
    return document(title, body + section("Settings", _lines(said), anchor="settings"), style=STYLE)


def _beside(others: Schedules) -> str:
    heads = ("schedule", "pipeline s", "the idlest rank waits", "most activations held", "fits")
    rows = [
        (
            timing.graph.schedule.name, f"{float(timing.makespan) * GRAIN:.3f}",
            f"{float(timing.bubble_global_fraction):.1%}", f"{float(max(timing.memory.peaks)):.2f}",
            "yes" if others.fits(timing) else "no",
        )
        for timing in others.timings
    ]  # fmt: skip
    told = (
        f"There is room for {float(others.room):.2f} activations of full stages. The fastest that fits, "
        f"{others.fastest.graph.schedule.name}, is written as schedule.json, which `poise train run` takes."
    )
    return section("Its schedule beside others", _lines([told]), listed(heads, rows), anchor="schedules") + drawn(
        others.timings, "ms", 1e-3 / GRAIN
    )


def alternatives(job: Job, best: Prediction) -> Schedules | None:
    """Schedules of the best layout; None where it has no pipeline, or too many operations for them to be tried."""
    layout, count = best.layout, best.layout.microbatches(job)
    if layout.pipeline == 1 or 3 * count * layout.stages > MOST // (len(BESIDE) + 1):
        return None
    own = _timed(job, layout, layout.schedule, layout.chunks)
    assert own is not None
    held = max(own.memory.peaks)
    free = max(0.0, safe_bytes(job) - best.memory) / best.classes["activations"]
    room = max(held, Fraction(int(8 * float(held) * (1 + free)), 8))
    found = [
        timing
        for name in BESIDE
        if name != layout.schedule
        and (timing := _timed(job, layout, name, max(layout.chunks, 2) if name in CHUNKED else 1, room)) is not None
    ]
    return Schedules([own, *sorted(found, key=lambda each: each.makespan)], room)


def _timed(job: Job, layout: Layout, name: str, chunks: int, room: Fraction | None = None) -> Timing | None:
    """A schedule with the layout's stages cut into so many chunks; None where these counts do not allow it."""
    cut = layout
    if chunks != layout.chunks:  # stages take the same whatever their order, so any schedule of so many will do
        cut = replace(layout, chunks=chunks, split=(), schedule="one_f_one_b" if chunks == 1 else "zb_v")
    try:
        costs = costs_of(stages_of(job, cut))
        more = options(cut) | ({"memory_limit": room} if name == "poise" else {})
        return time(make(name, layout.pipeline, layout.microbatches(job), costs=costs, **more), costs)
    except PoiseError:
        return None


def _headline(found: Found) -> list[str]:
    job, best = found.job, found.best[0]
    held = ", ".join(f"{name} {size / GIB:.1f}" for name, size in best.classes.items() if size >= 0.05 * GIB)
    return [
        f"{best.layout.label()}: {best.seconds:.3f} s a step, MFU {best.mfu:.1%}.",
        f"Of {found.considered:,} layouts {found.fitting:,} fit. The best spends {shares(best)}.",
        f"What binds it: {binding(best, job)}.",
        f"Memory of its fullest device, GiB: {held}; of {job.device.memory_bytes / GIB:.1f}.",
    ]


def _lines(lines: list[str]) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in lines)
