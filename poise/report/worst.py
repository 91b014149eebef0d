"""The slowest requests of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.records.blame import PARTS
from poise.core.records.records import Run
from poise.core.units import SECOND
from poise.report.latency import column, durations

MOST = 10
"""Number of requests listed for each latency."""

BY = {"ttft_s": "TTFT", "e2e_s": "end-to-end time"}
"""The latencies by which requests are ranked."""

COLUMNS = (
    "request", "arrival_s", "prompt_tokens", "cached_tokens", "output_tokens", "replica", "decode_replica",
    "queue_s", "ttft_s", "tpot_s", "e2e_s", "preemptions", "migrations", "retries", *PARTS,
)  # fmt: skip
"""Columns of a listed request: as in `requests_frame`, with `queue_s` from its arrival to its (last) dispatch, and
seconds by part of its time (see `core.records.blame`)."""

Rows = Sequence[Mapping[str, float | None]]


def worst(run: Run, warmup_s: float = 0.0, most: int = MOST) -> dict[str, NDArray[np.float64]]:
    """For each of `BY` the `most` slowest requests that arrived after `warmup_s` and finished, the slowest first.

    [requests, columns], NaN where there is no value; requests that took equally long are in order of arrival.
    """
    taken = durations(run, warmup_s)
    found = {}
    for name in BY:
        rows, values = taken[name.removesuffix("_s")]
        order = np.lexsort((column(run.records.arrived_at)[rows], -values))[:most]
        found[name] = _table(run, rows[order])
    return found


def _table(run: Run, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    records = run.records

    def part(name: str) -> NDArray[Any]:
        return column(getattr(records, name))[rows].astype(np.float64)

    arrived, sent, first, ended = (part(name) for name in ("arrived_at", "dispatched_at", "first_token_at", "ended_at"))
    gaps = part("output_tokens") - 1
    fields = {
        "request": rows.astype(np.float64),
        "arrival_s": arrived / SECOND,
        "queue_s": np.where(sent >= 0, sent - arrived, np.nan) / SECOND,
        "ttft_s": np.where(first >= 0, first - arrived, np.nan) / SECOND,
        "tpot_s": np.where((gaps > 0) & (first >= 0), (ended - first) / np.maximum(gaps, 1), np.nan) / SECOND,
        "e2e_s": (ended - arrived) / SECOND,
    }
    fields |= {name: _blamed(run, number, rows) for number, name in enumerate(PARTS)}
    return np.column_stack([fields[name] if name in fields else part(name) for name in COLUMNS])


def _blamed(run: Run, part: int, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Seconds of one part; NaN where the run did not record blame."""
    if run.blame is None:
        return np.full(len(rows), np.nan)
    return (column(run.blame.ttft[part])[rows] + column(run.blame.rest[part])[rows]) / SECOND


def as_rows(found: NDArray[np.float64]) -> Rows:
    """The requests of a table of `worst`, one dict per request by column; None where there is no value."""
    return [
        {name: None if np.isnan(value) else float(value) for name, value in zip(COLUMNS, row, strict=True)}
        for row in found
    ]
