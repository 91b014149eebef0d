"""The curves of tables and runs: formulas of figures, of each label along the axis."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from poise.claims.claim import Curve, Point, PointsSection, SweepSection
from poise.claims.experiments.formula import Names, Row, Table, evaluated_row, of_label, parsed
from poise.report.intervals import over_seeds
from poise.report.wording import Kind

PUBLISHED = "published"
"""What the line of published values is called."""

SHARES = ("slo_attainment", "in_time", "prefix_hit_rate", "busiest")
"""Figures that are parts of a whole."""


def formulas(section: SweepSection, name: str, label: str, names: Names) -> Mapping[str, ast.expr]:
    """What is drawn of a label, by title."""
    return {title: of_label(name, label, parsed(text), names) for title, text in section.curves.items()}


def curves(section: SweepSection, name: str, table: Table, names: Names) -> list[Curve]:
    """The curves of a table, and the published values where these are of the one that there is."""
    found = []
    trees = {label: formulas(section, name, label, names) for label in table.labels}
    for title, text in section.curves.items():
        lines = {label or "here": _line(evaluated_row(each[title], names)) for label, each in trees.items()}
        if isinstance(section, PointsSection) and section.paper and len(section.curves) == 1:
            lines[PUBLISHED] = [Point(*each) for each in zip(section.at, section.paper, strict=True)]
        found.append(Curve(title, section.across, section.kind or _kind(section, text), lines))
    return found


def _line(row: Row) -> list[Point]:
    means = [over_seeds(each.tolist()) for each in row.values]
    return [Point(place, mean.value, mean.half) for place, mean in zip(row.at, means, strict=True)]


def _kind(section: SweepSection, text: str) -> Kind:
    """Shares and seconds where a figure is drawn by itself, numbers where it is arithmetic."""
    if not isinstance(parsed(text), ast.Name | ast.Attribute):
        return "number"
    parts = (section.call if isinstance(section, PointsSection) and text == "value" else text).split(".")
    if parts[-1] in SHARES:
        return "share"
    return "seconds" if any(part.endswith("_s") for part in parts[-2:]) else "number"
