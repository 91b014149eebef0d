"""Finds rows that other rows of the same measurement contradict.

Sequences of a static batch start and end together, so its latency is TTFT + TPOT × (outputs − 1), whatever the engine.
Where a source states all three and the latency is far from that sum, fewer or more tokens were generated than it says.

Runs of one condition repeat one another: three quarters within 1.4 %. Where a source states the very same of two runs,
day and all, and one took far longer, what decides between them it does not state (drafted tokens, numbers of workers),
and no answer is near both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from poise.validation.load import load_of
from poise.validation.row import Row

FAR = 1.5
"""The factor by which a latency may differ from its parts (medians over repetitions need not add up), and a
run as another of the same condition."""

PARTS = ("ttft_ms", "tpot_ms")
WHOLE = "batch_latency_ms"


_DUMP = re.compile(r"\bdump [\d-]+")


def contradicted(rows: Sequence[Row]) -> list[Row]:
    """The rows with quality C where latency is `FAR` from the sum of its parts, or from a run of the same condition."""
    parts = {(_run(row), row.metric): row.value for row in rows if row.metric in PARTS}
    return _unrepeated([_marked(row, *(parts.get((_run(row), part), 0.0) for part in PARTS)) for row in rows])


def _run(row: Row) -> Row:
    return replace(row, place="", metric="", value=1.0, unit="")


def _marked(row: Row, ttft: float, tpot: float) -> Row:
    if row.metric != WHOLE or not (ttft and tpot) or load_of(row.load, row.notes).kind != "static":
        return row
    times = row.value / (ttft + tpot * (row.output - 1))
    return row if 1 / FAR <= times <= FAR else replace(row, quality="C")


def _unrepeated(rows: Sequence[Row]) -> list[Row]:
    """The rows, those with quality C of which the same is stated and whose values are `FAR` apart."""
    stated = [_stated(row) for row in rows]
    low: dict[Row, float] = {}
    high: dict[Row, float] = {}
    for row, same in zip(rows, stated, strict=True):
        low[same] = min(low.get(same, row.value), row.value)
        high[same] = max(high.get(same, row.value), row.value)
    far = {same for same in low if high[same] > FAR * low[same]}
    return [replace(row, quality="C") if same in far else row for row, same in zip(rows, stated, strict=True)]


def _stated(row: Row) -> Row:
    """All fields of a measured value except those taken over from elsewhere."""
    return replace(row, place="", ref="", value=1.0, notes=_DUMP.sub("", row.notes))
