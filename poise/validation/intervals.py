"""How often stated intervals hold, on rows whose source, model or device the calibration has not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TextIO

from poise.intervals.calibration import Calibration
from poise.intervals.fit import HELD_OUT, Seen
from poise.intervals.held_out import STATED, Held, Share, held_out, own_shares, shares
from poise.intervals.shipped import shipped
from poise.report.table import show
from poise.report.wording import MISSING
from poise.validation.answer import Answer
from poise.validation.evidence import evidence

LEAST = 30
"""Rows of a group that are listed by itself: of fewer the share says little."""

GROUPS: dict[str, Callable[[Held], str]] = {
    "load": lambda each: each.row.conditions.load + (" disagg" if each.row.conditions.disagg else ""),
    "engine": lambda each: each.row.conditions.engine,
    "architecture": lambda each: each.row.conditions.kind,
    "weights": lambda each: each.row.conditions.weights,
    "operators": lambda each: each.row.conditions.origin,
    "maker": lambda each: each.row.conditions.vendor,
}


def show_held(rows: Sequence[Seen], out: TextIO, calibration: Calibration | None = None) -> None:
    """A line for each kind of figure: how often intervals for 80 % and 90 % hold, by what was left out.

    Then how often those hold that rows of the same deployment narrow.  calibration: how alike these are; as shipped.
    """
    title = "Stated intervals hold, with a row's own source, model or device left out"
    held = held_out(rows)
    _table(title, held, lambda each: each.row.conditions.figure, out)
    _table(
        f"{title}; each source, model and device counts alike",
        held,
        lambda each: each.row.conditions.figure,
        out,
        alike=True,
    )
    head = ["", "own rows", "deployments", *(f"{level:.0%}, source" for level in STATED), "spread left"]
    table = [
        (each.figure, str(each.own), f"{each.deployments:,}", *(f"{share:.0%}" for share in each.held),
         f"{each.stays:.2f}")
        for each in own_shares(held, calibration or shipped())
    ]  # fmt: skip
    if table:
        show("Intervals narrowed by rows of the same deployment hold for its other rows", head, table, out)


def show_by_group(answers: Sequence[Answer], out: TextIO) -> None:
    """The same for each kind of figure by load, engine, architecture, format, origin of step times and maker."""
    held = held_out(evidence(answers))
    for name, group in GROUPS.items():
        _table(f"Stated intervals hold, by {name}", held, _within_figure(group), out)


def _within_figure(group: Callable[[Held], str]) -> Callable[[Held], str]:
    return lambda each: f"{each.row.conditions.figure} {group(each)}"


def _table(title: str, held: Sequence[Held], group: Callable[[Held], str], out: TextIO, *, alike: bool = False) -> None:
    lines: dict[str, dict[str, Share]] = {}
    for each in shares(held, group, alike=alike):
        if each.rows >= LEAST:
            lines.setdefault(each.group, {})[each.by] = each
    head = ["", "rows", *(f"{level:.0%}, {by}" for level in STATED for by in HELD_OUT), "high / low"]
    table = [(name, *_cells(found)) for name, found in lines.items()]
    if table:
        show(title, head, table, out)


def _cells(found: dict[str, Share]) -> tuple[str, ...]:
    """Rows, the shares by confidence and what was left out, and the median width of the interval for 80 %."""
    held = [f"{found[by].held[at]:.0%}" if by in found else MISSING for at in range(len(STATED)) for by in HELD_OUT]
    width = found.get("source", next(iter(found.values()))).width
    return f"{max(each.rows for each in found.values()):,}", *held, f"{width:.2f}"
