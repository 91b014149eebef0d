"""Prints a comparison as tables: one for each load, then up to which load each policy carries the traffic."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from poise.report.figures import Case
from poise.report.table import show, show_load
from poise.report.wording import MISSING, belief_line, significant, slo_line
from poise.scenario.compare.collapse import between
from poise.scenario.compare.words import collapse_lines, interval_line, load_title, partial_line
from poise.scenario.identity import blind_line
from poise.workload.oddities import trace_line

if TYPE_CHECKING:
    from poise.scenario.compare.comparison import Comparison


def tables(comparison: Comparison, loads: Sequence[float] | None = None) -> str:
    """The tables of some loads as plain text; None is the whole comparison, as `show_all` prints it."""
    out = io.StringIO()
    if loads is None:
        show_all(comparison, out)
    else:
        for load in loads:
            show_one(comparison, load, out)
    return out.getvalue()


def show_all(comparison: Comparison, file: TextIO | None = None, *, title: str = "", one: str = "") -> None:
    """Print the whole comparison: the answer, the tables, what is in doubt, and what it is based on.

    one: the meaning of load 1, where it is not the workload's own; then the answer says nothing of the load of now.
    """
    out = file or sys.stdout
    if partial := partial_line(comparison):
        out.write(f"Interrupted: {partial}.\n")
    if sentence := comparison.answer(own=not one):
        out.write(f"{sentence}\n")
    out.write("\n" if partial or sentence else "")
    for load in comparison.study.loads:
        if comparison.policies(load):
            show_one(comparison, load, out)
            out.write("\n")
    if not one:
        show_collapse(comparison, out)
    out.writelines(f"{line}\n" for line in (*_doubts(comparison), *_basis(comparison, title, one)) if line)


def _doubts(comparison: Comparison) -> Iterator[str]:
    """What limits the figures: requests without identity, oddities of the trace, and the meaning of the intervals."""
    yield blind_line(comparison.blind)
    yield from dict.fromkeys(trace_line(comparison.offered[load]) for load in sorted(comparison.offered))
    yield interval_line(comparison)
    yield comparison.model_error.factors()


def _basis(comparison: Comparison, title: str, one: str) -> Iterator[str]:
    """What the figures are of: the cluster, the SLO, the meaning of load 1, and the belief."""
    setting = comparison.study.setting
    yield f"{title}{'; ' if title and one else ''}{f'load 1 is {one}' if one else ''}"
    yield f"SLO: {slo_line(setting.slo)}."
    yield belief_line(setting.belief)


def show_one(comparison: Comparison, load: float, file: TextIO) -> None:
    """Print the table of one load and its verdict."""
    cases = [Case(name, comparison.result(name, load)) for name in comparison.policies(load)]
    show_load(cases, comparison.best(load), title=load_title(comparison, load), file=file)


def show_collapse(comparison: Comparison, file: TextIO) -> None:
    """Print up to which load each policy carries the traffic; nothing for one load that all carry."""
    found, lines = comparison.collapses, collapse_lines(comparison)
    rows = [
        (
            name,
            significant(each.carried.load) if each.carried else MISSING,
            significant(each.beyond.load) if each.beyond else MISSING,
            between(each.range, 4),
            each.beyond.why if each.beyond else "",
        )
        for name, each in found.items()
    ]
    if rows and lines:
        show("Collapse", ("policy", "carries load", "not", "for sure", "what breaks down"), rows, file)
    file.writelines(f"{line}\n" for line in lines)


def card(comparison: Comparison) -> str:
    """The comparison as a notebook shows it."""
    from poise.report.notebook import comparison_card
    from poise.scenario.compare.findings import findings

    return comparison_card(comparison.cases(), findings(comparison))
