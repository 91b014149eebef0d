"""Loads that a row leaves out, borrowed from rows of the same source and workload that state them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from poise.truth.validate.row import Row

_WORKLOAD = re.compile(r"\bworkload ([\w-]+)")
_STAGE = re.compile(r"\bstage (-?\d+)")

BORROWED = "lengths and load of workload {}"
"""What is said of a row that borrows."""


def borrow(rows: Sequence[Row]) -> list[Row]:
    """The rows, those without load, lengths or both filled in where another row of their workload states them.

    A workload is known by its name in the notes (`-lite` variants count as their own, then as their base's). Rows of
    the same stage and the same model lend first, then the same stage, then any. The engine's limits stay the row's own.
    """
    lenders: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        name = _name(row)
        if name and row.load and row.prompt and row.output:
            lenders.setdefault((row.source, name), []).append(row)
    return [_filled(row, lenders) for row in rows]


def borrows(row: Row) -> str:
    """What `row` borrowed; empty where it states its own load."""
    found = re.search(r"; borrowed: (.*)$", row.notes)
    return found[1] if found else ""


def _filled(row: Row, lenders: dict[tuple[str, str], list[Row]]) -> Row:
    name = _name(row)
    if not name or (row.load and row.prompt and row.output):
        return row
    able = lenders.get((row.source, name)) or lenders.get((row.source, name.removesuffix("-lite"))) or []
    if not able:
        return row
    one = max(
        able, key=lambda other: (_stage(other) == _stage(row), other.model == row.model, other.tensor == row.tensor)
    )
    notes = f"{row.notes}; borrowed: {BORROWED.format(name)}"
    return replace(row, load=one.load, prompt=one.prompt, output=one.output, notes=notes)


def _name(row: Row) -> str:
    found = _WORKLOAD.search(row.notes)
    return found[1] if found else ""


def _stage(row: Row) -> str:
    found = _STAGE.search(row.notes)
    return found[1] if found else ""
