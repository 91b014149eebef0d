"""Prints calibrations and what-ifs as tables and sentences."""

from __future__ import annotations

import sys
from typing import Protocol, TextIO

from poise.core.records.records import STATUS
from poise.core.spec import Slo
from poise.recordings.calibrate import Calibration
from poise.recordings.cluster import present
from poise.recordings.recording import Recorded
from poise.recordings.reproduce import Reproduction
from poise.recordings.whatif import FIGURES, RECORDED, WhatIf
from poise.report.difference import percent
from poise.report.figures import ATTAINMENT, Figure
from poise.report.intervals import Interval
from poise.report.table import show
from poise.report.wording import MISSING, belief_line, duration, write

MEANING = {
    "step_s": "a step",
    "prompt_token_s": "a prompt token computed",
    "pair_s": "a query and a key of prompts",
    "sequence_s": "a decoding request in a step",
    "kv_token_s": "a KV token read by decodes",
}

_LABELS = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "E2E"}


def show_day(day: Recorded, file: TextIO | None = None) -> None:
    """One line about what the recording holds."""
    out = file or sys.stdout
    others = [f"{day.counts[name]:,} {name.replace('_', ' ')}" for name in STATUS[1:] if day.counts[name]]
    others += [f"{day.counts['uncounted']:,} without a count of tokens"] if day.counts["uncounted"] else []
    others += [f"{day.counts['began_before']:,} began before it"] if day.counts["began_before"] else []
    beside = f"; not simulated: {', '.join(others)}" if others else ""
    span = duration(float(day.workload.arrival[-1]) / 1e12, 3)
    there = len(present(day.replicas, day.faults))
    engines = f"{there} replica{'s' if there > 1 else ''}"
    out.write(f"Recording: {len(day.workload):,} finished requests in {span} on {engines}{beside}.\n")


def show_calibration(found: Calibration, file: TextIO | None = None) -> None:
    """Print the coefficients with their standard errors, and the errors of the held-out requests."""
    out = file or sys.stdout
    rows = []
    for name, value in found.cost.coefficients.items():
        rows.append((MEANING[name], duration(value), sure(found, name, value)))
    show(f"Step cost, fitted to {found.requests:,} requests", ("time of", "", "standard error"), rows, out)
    off = [
        (_LABELS[name], write(each["median"], "share", 3), write(each["p90"], "share", 3))
        for name, each in found.held_out.items()
    ]
    show("Errors of requests that the fit did not see", ("", "median", "p90"), off, out)
    for name, why in found.kept.items():
        out.write(f"{name} is not known from the recording: {why}.\n")
    for note in found.notes:
        out.write(f"Note: {note}.\n")


class Printable(Protocol):
    """Coefficients, and their uncertainty."""

    @property
    def errors(self) -> dict[str, float | None]:
        """The standard error of each."""

    @property
    def kept(self) -> dict[str, str]:
        """Those that were not fitted, and why."""


def sure(found: Printable, name: str, value: float) -> str:
    """The uncertainty of a coefficient, in a few characters."""
    error = found.errors.get(name)
    if name in found.kept:
        return "kept"
    return "none seen" if not value else MISSING if error is None else f"± {duration(error, 2)}"


def show_reproduction(found: Reproduction, file: TextIO | None = None) -> None:
    """What happened, next to its simulation."""
    out = file or sys.stdout
    rows = []
    for figure in FIGURES:
        gap, observed = found.gap(figure.name), found.observed[figure.name]
        off = MISSING if gap is None or not observed else f"{'+' if gap > 0 else ''}{percent(gap / observed)}"
        rows.append((figure.label, write(observed, "seconds"), write(found.simulated[figure.name], "seconds"), off))
    show("The recorded policies, simulated", ("", "happened", "simulated", "off"), rows, out)
    errors = [
        f"{_LABELS[name]} {write(off.median, 'share', 2)} (p90 {write(off.p90, 'share', 2)})"
        for name, off in found.off.items()
    ]
    out.write(f"A request is off by, in the median: {', '.join(errors)}.\n")
    out.write(f"Requests that went to the replica where they really went: {write(found.agreement, 'share', 3)}.\n")


def show_whatif(found: WhatIf, file: TextIO | None = None) -> None:
    """Print the answer, each candidate next to the recorded policies, then how far the simulation is to be believed."""
    out = file or sys.stdout
    setting = found.comparison.study.setting
    names, figures = found.candidates, list(FIGURES)
    figures += [ATTAINMENT] if setting.slo != Slo() else []
    figures += [found.question.by] if found.question.by not in figures else []
    if found.comparison.interrupted:
        out.write(f"Interrupted: {len(names)} of {len(found.question.changes)} candidates are done.\n")
    if sentence := found.answer():
        out.write(f"{sentence}\n\n")
    if names:
        rows = [_row(found, figure, names) for figure in figures]
        show("What if, both simulated", ("", RECORDED, *names), rows, out)
    for name in names:
        out.write(f"{found.verdict(name)}\n")
    for warning in found.warnings():
        out.write(f"Warning: {warning}.\n")
    out.write("\n" if names or found.warnings() else "")
    show_reproduction(found.reproduction, out)
    if found.calibration is not None:
        out.write("\n")
        show_calibration(found.calibration, out)
    show_day(found.day, out)
    out.write(belief_line(setting.belief) + "\n")


def _row(found: WhatIf, figure: Figure, names: list[str]) -> tuple[str, ...]:
    """The recorded value, and of each candidate its difference with its interval."""
    gaps = [found.difference(name, figure) for name in names]
    return (figure.label, figure.text(found.comparison.result(RECORDED, 1.0)), *(_gap(gap, figure) for gap in gaps))


def _gap(gap: Interval, figure: Figure) -> str:
    if gap.value is None:
        return MISSING
    sign = "+" if gap.value > 0 else "−" if gap.value < 0 else "±"
    half = "?" if gap.half is None else write(gap.half, figure.kind, 2)
    return f"{sign}{write(abs(gap.value), figure.kind, 3)} ± {half}"
