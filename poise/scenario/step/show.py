"""Prints steps as tables and as data."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from poise.core.version import version
from poise.experiment.compare import Comparison
from poise.intervals.interval import CONFIDENCE as MODEL_CONFIDENCE
from poise.intervals.interval import Bounds
from poise.report.figures import Figure
from poise.report.intervals import Interval
from poise.report.seeds import CONFIDENCE
from poise.report.table import show
from poise.report.wording import significant, write
from poise.scenario.step.model_error import factors, factors_line
from poise.scenario.step.read import ALONE, StepQuestion
from poise.scenario.step.world import FIGURES, MEMORY, laid

GIB = 2**30
RECORDED = "none is stated, because times of stages and messages are recorded"


def show_all(question: StepQuestion, comparison: Comparison, file: TextIO | None = None) -> None:
    """Print the job, the meaning of ±, and a table with its verdict for each setting."""
    out, study = file or sys.stdout, comparison.study
    if sentence := answer(comparison):
        out.write(f"{sentence}\n\n")
    if comparison.interrupted:
        done, planned = len(comparison.cells), len(study.places())
        out.write(f"Interrupted: stopped by the user; {done} of {planned} simulations are done.\n\n")
    for at in study.settings:
        if names := comparison.named(at):
            rows = [(name, *(text(comparison, name, figure, at) for figure in FIGURES)) for name in names]
            heads = ("layout", *(figure.label for figure in FIGURES))
            show(_setting(comparison, at), heads, rows, out)
            out.write("".join(f"{line}\n" for line in too_large(comparison, at)))
            if message := str(comparison.best(at)):
                out.write(f"{message}\n\n")
    out.write(f"{chance_line(comparison)}\n{_error_line(comparison)}\n{title(question)}\n")


def answer(comparison: Comparison) -> str:
    """The sentence that decides: the layout to take, or the best at each setting; empty where there is no choice."""
    study = comparison.study
    verdicts = {at: comparison.best(at) for at in study.settings if comparison.named(at)}
    best = {at: each for at, each in verdicts.items() if each.best is not None}
    if not best:
        return ""
    first, label = next(iter(best.values())), study.by.label
    if len(best) == 1:
        if first.winner:
            return f"Take {first.winner}: the best by {label}{first.lead}."
        if first.unknown:
            return str(first)
        names, more = ", ".join((first.best or "", *first.tied)), f"; {first.more}" if first.more else ""
        return f"Take any of {names}: by {label} no difference is beyond chance ({first.within}{more})."
    if first.winner and all(each.winner == first.winner for each in best.values()):
        return f"Take {first.winner}: the best by {label} at every {study.axis}."
    led = ", ".join(
        f"{each.winner or f'none beyond chance, {each.best} leads,'} at {at:g}" for at, each in best.items()
    )
    return f"By {label} it depends on {study.axis}: {led}."


def show_one(question: StepQuestion, comparison: Comparison, file: TextIO | None = None) -> None:
    """Print the figures of one step."""
    out = file or sys.stdout
    (at,), (name,) = comparison.study.settings, comparison.study.names
    rows = [(figure.label, text(comparison, name, figure, at), figure.meaning) for figure in FIGURES]
    show(f"{title(question)}: {name}", ("figure", "value", "what it is"), rows, out)
    remarks = [*too_large(comparison, at), chance_line(comparison), _error_line(comparison)]
    out.write("".join(f"{line}\n" for line in remarks))


def title(question: StepQuestion) -> str:
    """The job in words."""
    job = question.job
    sizes = f"{job.batch:,} sequences of {job.sequence:,} tokens"
    return f"A step of {job.model.name} on {job.devices:,} × {job.device.name}, {sizes}, {job.precision}"


def chance_line(comparison: Comparison) -> str:
    """The meaning of ±, or that there is no chance."""
    count = len(comparison.study.seeds)
    if not comparison.study.chance:
        return "There is no chance in these steps: figures are what the model says, and differences are exact."
    return (
        f"Means over {count} seeds; ± is half of a {write(CONFIDENCE, 'share')} interval of chance among them, "
        "differences paired by seed."
    )


def _error_line(comparison: Comparison) -> str:
    found = _factors(comparison)
    return f"Model error: {RECORDED}." if found is None else factors_line(found)


def _error(comparison: Comparison) -> dict[str, Any]:
    found = _factors(comparison)
    if found is None:
        return {"confidence": None, "why": RECORDED}
    return {"confidence": MODEL_CONFIDENCE, "factors": {"step_time": found._asdict()}}


def _factors(comparison: Comparison) -> Bounds | None:
    """By which factors measured steps may differ from the model's; None where times are recorded."""
    study = comparison.study
    cases = [study.case(name, at).parameters for at in study.settings for name in study.names]
    return None if any(each["how"].costs is not None for each in cases) else factors(map(laid, cases))


def too_large(comparison: Comparison, at: float) -> list[str]:
    """Which cases need more memory than a device has."""
    lines = []
    for name in comparison.named(at):
        job, _ = laid(comparison.study.case(name, at).parameters)
        needs, room = MEMORY.value(comparison.of(name, at)[0].figures), job.device.memory_bytes / GIB
        if needs is not None and needs > room:
            lines.append(f"{name} does not fit: {significant(needs)} GiB of {significant(room)} GiB.")
    return lines


def text(comparison: Comparison, name: str, figure: Figure, at: float) -> str:
    """A figure, with its half-width where chance moves it."""
    found = _interval(comparison, name, figure, at)
    half = f" ± {write(found.half, figure.kind, 2)}" if found.half else ""
    return f"{write(found.value, figure.kind)}{half}"


def _interval(comparison: Comparison, name: str, figure: Figure, at: float) -> Interval:
    return comparison.single(comparison.of(name, at), figure, CONFIDENCE)


def _setting(comparison: Comparison, at: float) -> str:
    axis, count = comparison.study.axis, len(comparison.study.seeds)
    message = "Layouts" if axis == ALONE else f"{axis} {at:,g}"
    whole = all(len(comparison.of(name, at)) == count for name in comparison.study.names)
    return message if whole else f"{message} (interrupted: partial)"


def as_dict(question: StepQuestion, comparison: Comparison) -> dict[str, Any]:
    """The result JSON of a step file."""
    study = comparison.study
    return {
        "answer": answer(comparison),
        "kind": "step",
        "by": study.by.name,
        "complete": comparison.complete,
        "interrupted": comparison.interrupted,
        "chance": study.chance,
        "model_error": _error(comparison),
        "settings": [
            {
                **({} if study.axis == ALONE else {study.axis: at}),
                "cases": {name: _case(comparison, name, at) for name in comparison.named(at)},
                "verdict": comparison.best(at).as_dict(),
            }
            for at in study.settings
        ],
        "provenance": {"poise": version(), "scenario": question.file.model_dump(mode="json")},
    }


def _case(comparison: Comparison, name: str, at: float) -> dict[str, Any]:
    found = {figure.name: _interval(comparison, name, figure, at) for figure in FIGURES}
    return {
        **{figure: each.value for figure, each in found.items()},
        "interval": {figure: each.half for figure, each in found.items()},
        "per_seed": [{"seed": cell.place[2], **cell.figures} for cell in comparison.of(name, at)],
    }
