"""Rows that other rows of the same measurement contradict.

Sequences of a static batch start and end together, so its latency is TTFT + TPOT × (outputs − 1), whatever the engine.
Where a source states all three and the latency is far from that sum, fewer or more tokens were generated than it says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from poise.truth.validate.load import load_of
from poise.truth.validate.row import Row

FAR = 1.5
"""How many times as long, or as short, as its parts a latency may be: medians over repetitions need not add up."""

PARTS = ("ttft_ms", "tpot_ms")
WHOLE = "batch_latency_ms"


def contradicted(rows: Sequence[Row]) -> list[Row]:
    """The rows, those whose latency is `FAR` from the sum of its parts with quality C."""
    parts = {(_run(row), row.metric): row.value for row in rows if row.metric in PARTS}
    return [_marked(row, *(parts.get((_run(row), part), 0.0) for part in PARTS)) for row in rows]


def _run(row: Row) -> Row:
    return replace(row, place="", metric="", value=1.0, unit="")


def _marked(row: Row, ttft: float, tpot: float) -> Row:
    if row.metric != WHOLE or not (ttft and tpot) or load_of(row.load, row.notes).kind != "static":
        return row
    times = row.value / (ttft + tpot * (row.output - 1))
    return row if 1 / FAR <= times <= FAR else replace(row, quality="C")
