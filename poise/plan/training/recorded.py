"""`poise train compare`: a recorded step, its simulation, and other schedules at its measured costs."""

from __future__ import annotations

import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from poise.pipeline import Costs, Timing, make, time
from poise.pipeline.graph import graph_of
from poise.plan.training.page import drawn
from poise.report.files import replacing
from poise.report.frame import document
from poise.report.pieces import section, text_table
from poise.report.table import show
from poise.report.timeline import STYLE
from poise.runtime.recording import Recording, costs_of
from poise.scenario.write import check_writable, put_json

HEAD = ("step", "makespan ms", "the idlest rank waits", "most activations held", "off by")

_NS_PER_MS = 10**6


def compare_recorded(file: Path, beside: str, page: Path | None, json: str | None) -> None:
    """Print, draw and write a recording and its simulations; UserError for a file that is not a recording."""
    for path, option in ((page, "--page"), (Path(json) if json not in (None, "-") else None, "--json")):
        if path is not None:
            check_writable(path, option)
    recording = Recording.load(file)
    costs = costs_of([recording])
    timings = [measured(recording), _named(recording, costs)]
    ranks, count = len(recording.schedule.ranks), recording.schedule.microbatches
    full = costs.whole(ranks)
    for name in filter(None, (each.strip() for each in beside.split(","))):
        timings.append(time(make(name, ranks, count, costs=full), full))
    rows = [_row(timing, timings[0] if at == 1 else None) for at, timing in enumerate(timings)]
    if page is not None:
        title = f"{recording.schedule.name or file.name}: {ranks} ranks, {count} microbatches, as run and as simulated"
        body = section("Figures", text_table(HEAD, rows, label="Figures"), anchor="figures")
        with replacing(page) as out:
            out.write(document(title, body + drawn(timings, "ms"), style=STYLE).encode())
    put_json(as_dict(recording, timings), json)
    if json != "-":
        show(f"{file}: as run, and simulated with the costs measured in it", HEAD, rows, sys.stdout)


def measured(recording: Recording) -> Timing:
    """The recorded step as a timing, in milliseconds; its first operation starts at 0."""
    schedule = recording.schedule.compute()
    graph = graph_of(replace(schedule, name=f"{schedule.name or 'the schedule'}, as run"))
    events = [{each.op: each for each in row} for row in recording.ranks]
    ran = [events[rank][str(op)] for rank, row in enumerate(schedule.ranks) for op in row]
    zero = min(each.start for each in ran)
    starts, ends = [each.start - zero for each in ran], [each.end - zero for each in ran]
    return Timing(graph, starts, ends, _NS_PER_MS, Fraction(1))


def as_dict(recording: Recording, timings: list[Timing]) -> dict[str, Any]:
    """The figures as plain data."""
    ran, simulated = (float(timing.makespan) for timing in timings[:2])
    return {
        "schedule": recording.schedule.name,
        "measured_ms": ran,
        "simulated_ms": simulated,
        "error": simulated / ran - 1,
        "held": [float(peak) for peak in timings[1].memory.peaks],
        "others": {t.graph.schedule.name: float(t.makespan) for t in timings[2:]},
    }


def _named(recording: Recording, costs: Costs) -> Timing:
    schedule = recording.schedule.compute()
    return time(replace(schedule, name=f"{schedule.name or 'the schedule'}, simulated"), costs)


def _row(timing: Timing, ran: Timing | None) -> tuple[str, ...]:
    off = "" if ran is None else f"{float(timing.makespan / ran.makespan) - 1:+.1%}"
    return (
        timing.graph.schedule.name, f"{float(timing.makespan):.2f}", f"{float(timing.bubble_global_fraction):.1%}",
        f"{float(max(timing.memory.peaks)):g}", off,
    )  # fmt: skip
