"""Writes the files of `poise train plan --out`: the answer as a page and as JSON, and the best layout for trainers."""

from __future__ import annotations

from html import escape
from pathlib import Path

from poise.pipeline.text import write_json
from poise.plan.training.exports import Exported, exported
from poise.plan.training.exports.galvatron import galvatron
from poise.plan.training.layerwise import Layerwise
from poise.plan.training.page import drawn, listed
from poise.plan.training.plan import as_dict, shares
from poise.plan.training.reschedule import Schedules, alternatives
from poise.plan.training.rows import GIB, HEAD, cells, tidy
from poise.plan.training.search import TrainSearchResult
from poise.plan.training.servers import Ordered
from poise.report.files import replacing, to_json
from poise.report.frame import document
from poise.report.pieces import section
from poise.report.tidy import in_short, write_figures
from poise.report.timeline import STYLE
from poise.sim.step.layout import GRAIN


def write_out(
    found: TrainSearchResult, folder: Path, servers: Ordered | None = None, layers: Layerwise | None = None
) -> Exported:  # fmt: skip
    """Write everything into `folder`, which is created if missing; Galvatron's file by `layers`, if any."""
    settings, others = exported(found.job, found.best[0].layout), alternatives(found.job, found.best[0])
    files = {
        "plan.html": page(found, settings, others),
        "plan.json": to_json(as_dict(found, servers)),
        **settings.files,
        **({} if layers is None else galvatron(found.job, layers.base, layers.each)),
        **({} if servers is None else {"hosts": "".join(f"{name}\n" for name in servers.servers)}),
        **({} if others is None else {"schedule.json": write_json(others.fastest.graph.schedule)}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        with replacing(folder / name) as file:
            file.write(text.encode())
    data = write_figures(tidy(found.alternatives), files["plan.html"], folder)
    return Exported(files | dict.fromkeys(in_short(data, folder), ""), settings.refused)


def page(found: TrainSearchResult, settings: Exported, others: Schedules | None) -> str:
    """The answer, its trade-offs, its schedule and others on one axis, and the settings that were written."""
    job = found.job
    title = f"{job.model.name} on {job.devices} {job.device.name}"
    body = f"<header><h1>{escape(title)}</h1></header>" + section(
        "The layout",
        _lines(_headline(found)),
        listed(HEAD, [cells(each) for each in found.alternatives]),
        anchor="layout",
    )
    body += section("Time against memory", listed(HEAD, [cells(each) for each in found.frontier]), anchor="memory-time")
    if others is not None:
        body += _beside(others)
    lines = [*settings.files, *(f"not for {name}: {why}" for name, why in settings.refused.items())]
    return document(title, body + section("Settings", _lines(lines), anchor="settings"), style=STYLE)


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
    text = (
        f"There is room for {float(others.room):.2f} activations of full stages. The fastest that fits, "
        f"{others.fastest.graph.schedule.name}, is written as schedule.json, which `poise train run` takes."
    )
    return section("Its schedule beside others", _lines([text]), listed(heads, rows), anchor="schedules") + drawn(
        others.timings, "ms", 1e-3 / GRAIN
    )


def _headline(found: TrainSearchResult) -> list[str]:
    job, best = found.job, found.best[0]
    held = ", ".join(f"{name} {size / GIB:.1f}" for name, size in best.classes.items() if size >= 0.05 * GIB)
    return [
        found.answer(),
        f"Of {found.considered:,} layouts {found.fitting:,} fit. The best spends {shares(best)}.",
        f"Memory of its fullest device, GiB: {held}; of {job.device.memory_bytes / GIB:.1f}.",
    ]


def _lines(lines: list[str]) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in lines)
