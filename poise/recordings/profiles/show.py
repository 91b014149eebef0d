"""Prints the accuracy of fitted tables."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from poise.cost.tables import Table, Tables

HEAD = f"{'operator':14s} {'format':10s} tables {'rows':>9s}   {'shapes held out':>17s}   {'devices held out':>17s}"


def errors(tables: Tables) -> Iterator[str]:
    """By kind and format: how many tables, rows, and the middle table's median and 90th percentile of errors."""
    groups: dict[tuple[str, str], list[Table]] = {}
    for table in tables.tables:
        groups.setdefault((table.kind, table.format), []).append(table)
    yield HEAD
    for (kind, form), found in sorted(groups.items()):
        rows = sum(table.rows for table in found)
        cells = []
        for which in ("error", "lent"):
            pairs = [getattr(table, which) for table in found]
            cells.append(f"{median(p[0] for p in pairs):8.1%} {median(p[1] for p in pairs):8.1%}")
        yield f"{kind:14s} {form:10s} {len(found):6d} {rows:9,d}   {cells[0]}   {cells[1]}"
