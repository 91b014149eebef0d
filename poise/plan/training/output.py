"""Writes the files of `poise train plan --out`: the answer as a page and as JSON, and the best layout for trainers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from poise.cost.training import Layout, Prediction
from poise.intervals.interval import CONFIDENCE
from poise.pipeline.text import write_json
from poise.plan.training.exports import About, Exported, exported
from poise.plan.training.exports.galvatron import galvatron
from poise.plan.training.layerwise import Layerwise
from poise.plan.training.page import drawn
from poise.plan.training.plan import as_dict, shares
from poise.plan.training.reschedule import Schedules, alternatives
from poise.plan.training.rows import GIB, HEAD, cells, tidy
from poise.plan.training.search import TrainSearchResult
from poise.plan.training.servers import Ordered
from poise.report.files import replacing, to_json
from poise.report.frame import document
from poise.report.pieces import (
    Gauge,
    Tile,
    card,
    copied,
    fold,
    gauges,
    lead,
    listed,
    section,
    soft,
    text_table,
    tiles,
)
from poise.report.tidy import in_short, write_figures
from poise.report.timeline import STYLE
from poise.report.wording import MISSING
from poise.scenario.step.model_error import step_error
from poise.sim.step.layout import GRAIN

MEASURED = "between which times a measured step lies, and with which confidence, by the error of published runs"
FITS = "of the fullest device; with which confidence it fits, by the error of published peaks"


def write_out(
    found: TrainSearchResult,
    folder: Path,
    servers: Ordered | None = None,
    layers: Layerwise | None = None,
    about: About | None = None,
) -> Exported:
    """Write everything into `folder`, which is created if missing; Galvatron's file by `layers`, if any.

    about: the model's architecture, where it is not that of its shape.
    """
    settings, others = exported(found.job, found.best[0].layout, about), alternatives(found.job, found.best[0])
    files = {
        "plan.html": page(found, settings, others),
        "plan.json": to_json(as_dict(found, servers)),
        **settings.files,
        **({} if layers is None else galvatron(found.job, layers.base, layers.each, layers.shared, layers.vocab)),
        **({} if servers is None else {"hosts": "".join(f"{name}\n" for name in servers.servers)}),
        **({} if others is None else {"schedule.json": write_json(others.fastest.graph.schedule)}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        with replacing(folder / name) as file:
            file.write(text.encode())
    data = write_figures(tidy(found.alternatives), files["plan.html"], folder)
    return Exported(files | dict.fromkeys(in_short(data, folder), ""), settings.refused, settings.code)


def page(found: TrainSearchResult, settings: Exported, others: Schedules | None) -> str:
    """The answer, its trade-offs, its schedule and others on one axis, and the settings that were written."""
    job = found.job
    kinds = _table(found.alternatives, "The fastest of each kind")
    body = lead(_card(found)) + section("The fastest layout of each kind", kinds, anchor="layout")
    body += section("Time against memory", _table(found.frontier, "Fast for their memory"), anchor="memory-time")
    if others is not None:
        body += _beside(others, found.best[0].layout)
    files = [fold(name, copied(text, name)) for name, text in settings.files.items()]
    body += section("Settings of trainers", *files, listed(remarks(settings)), anchor="settings")
    return document(f"{job.model.name} on {job.devices} {job.device.name}", body, style=STYLE)


def remarks(settings: Exported) -> Iterator[str]:
    """What the settings' trainers need besides them, and why others have none."""
    yield from (f"in the program for {name}: {' and '.join(steps)}" for name, steps in settings.code.items())
    yield from (f"not for {name}: {why}" for name, why in settings.refused.items())


def _card(found: TrainSearchResult) -> str:
    job, best = found.job, found.best[0]
    first, *rest = _headline(found)
    error = step_error(job, best.layout)
    low, high = error.step.bounds(best.seconds)
    kicker = f"Fastest of {found.fitting:,} layouts that fit, of {found.considered:,}"
    figures = tiles((
        Tile("Step", f"{best.seconds:.3f} s", f"{low:.3g} to {high:.3g} ({CONFIDENCE:.0%})", meaning=MEASURED),
        Tile("MFU", f"{best.mfu:.1%}"),
        Tile("Throughput", f"{best.tokens_per_device:,.0f}", "tokens/s a device"),
        Tile("Memory", f"{best.memory / GIB:.1f} GiB",
             f"of {job.device.memory_bytes / GIB:.1f}; fits: {error.fits(best, job):.0%}", meaning=FITS),
    ))  # fmt: skip
    words = f"{best.memory / GIB:.1f} of {job.device.memory_bytes / GIB:.1f} GiB"
    used = gauges([Gauge("Memory of the fullest device", best.memory / job.device.memory_bytes, words)])
    return card(kicker, best.layout.label(), first, figures, used, listed(rest), sense="good")


COLUMNS: dict[str, Callable[[Layout], object]] = {
    "tp": lambda x: x.tensor, "pp": lambda x: x.pipeline, "v": lambda x: x.chunks, "cp": lambda x: x.context,
    "dp": lambda x: x.data, "ep": lambda x: x.expert, "zero": lambda x: x.zero, "mb": lambda x: x.micro_batch,
    "recompute": lambda x: x.recomputed, "schedule": lambda x: x.schedule if x.pipeline > 1 else MISSING,
}  # fmt: skip
"""The parts of a layout in columns; those that are one and the same in all rows are left out."""


def _table(some: Sequence[Prediction], label: str) -> str:
    """Figures first, then the parts in which the layouts differ."""
    shown = [name for name, of in COLUMNS.items() if len({str(of(each.layout)) for each in some}) > 1]
    same = [f"{name} {of(some[0].layout)}" for name, of in COLUMNS.items() if some and name not in shown]
    rows = [(*cells(each)[1:], *(str(COLUMNS[name](each.layout)) for name in shown)) for each in some]
    rows = [(str(number), *row) for number, row in enumerate(rows, 1)]
    note = soft(f"In all of them: {', '.join(same)}.") if same and len(some) > 1 else ""
    heads = ("#", *HEAD[1:], *shown)
    texts = [at for at, name in enumerate(heads) if name in ("recompute", "schedule")]
    return text_table(heads, rows, label=label, texts=texts) + note


def _beside(others: Schedules, layout: Layout) -> str:
    heads = ("Schedule", "Pipeline s", "The idlest rank waits", "Most activations held", "Fits")
    rows = [
        (
            timing.graph.schedule.name, f"{float(timing.makespan) * GRAIN:.3f}",
            f"{float(timing.bubble_global_fraction):.1%}", f"{float(max(timing.memory.peaks)):.2f}",
            "✓ yes" if others.fits(timing) else "✗ no",
        )
        for timing in others.timings
    ]  # fmt: skip
    shares = [("--tensor", layout.tensor), ("--replicas", layout.data)]
    options = "".join(f" {option} {count}" for option, count in shares if count > 1)
    text = (
        f"There is room for {float(others.room):.2f} activations of full stages. The fastest that fits, "
        f"{others.fastest.graph.schedule.name}, is written as schedule.json; start it with "
        f"`poise train run TEXT --schedule schedule.json{options}`."
    )
    table = text_table(heads, rows, label="Schedules")
    return section("Its schedule beside others", soft(text), table, anchor="schedules") + drawn(
        others.timings, "ms", 1e-3 / GRAIN
    )


def _headline(found: TrainSearchResult) -> list[str]:
    best = found.best[0]
    held = ", ".join(f"{name} {size / GIB:.1f}" for name, size in best.classes.items() if size >= 0.05 * GIB)
    return [
        found.answer(),
        f"It spends {shares(best)}.",
        f"Memory of its fullest device, GiB: {held}.",
    ]
