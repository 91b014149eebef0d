"""What a trace has that its user may not expect, and what was done about it, in one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.units import SECOND

LONG_S, RARE = 600.0, 20.0
"""A gap is a silence from here on, where it is also so many times as long as the median of all."""

FAR_S = 60.0
"""A first stamp beyond this many seconds is not the beginning of a clock."""

EPOCH_S = 1_000_000_000.0
"""A stamp of more seconds counts from 1970: September 2001."""


def silences(arrival: NDArray[np.int64]) -> dict[str, Any]:
    """Long gaps between sorted stamps (picoseconds): `silences`, their number, and `longest_s`; empty for none."""
    gaps = np.diff(arrival) / SECOND
    if not len(gaps):
        return {}
    long = gaps > max(LONG_S, RARE * float(np.median(gaps)))
    return {"silences": int(long.sum()), "longest_s": float(gaps.max())} if long.any() else {}


def trace_line(source: Mapping[str, Any]) -> str:
    """What was found in a trace and what was done, by the `source` of its workload; empty where that is nothing.

    For a workload whose sessions are recorded, in their recording.
    """
    source = source.get("recorded_sessions", source)
    notes = list(_notes(source)) if isinstance(source, Mapping) else []
    return f"Trace: {'; '.join(notes)}." if notes else ""


def _notes(source: Mapping[str, Any]) -> Iterator[str]:
    if first := _first(source):
        yield f"stamps count from the first request at {first}"
    if count := source.get("silences"):
        many = f"{count:,} gap{'s' if count > 1 else ''} above {LONG_S / 60:g} min"
        yield f"{many}, the longest {_long(source['longest_s'])}, kept"
    if count := source.get("out_of_order"):
        yield f"{_rows(count)} out of order and {'are' if count > 1 else 'is'} sorted"
    if count := source.get("repeated_ids"):
        yield (
            "1 row has the id of an earlier one, kept as a request of its own"
            if count == 1
            else f"{count:,} rows have ids of earlier ones, kept as requests of their own"
        )
    if count := source.get("empty_answers"):
        yield f"{count:,} answer{'s' if count > 1 else ''} without tokens taken as one token"
    if count := source.get("dropped_subagents"):
        yield f"{count:,} sub-agent{'s' if count > 1 else ''} without requests or without one that started it left out"
    if count := source.get("flattened"):
        yield f"{count:,} sub-agent{'s' if count > 1 else ''} without a marker found by their prompts"
    if count := source.get("background"):
        yield f"{count:,} sub-agent{'s' if count > 1 else ''} that no request waits for kept in the background"
    if source.get("open_loop"):
        yield "requests arrive by their stamps, as fast as the recorded server answered"


def _rows(count: int) -> str:
    return "1 row was" if count == 1 else f"{count:,} rows were"


def _first(source: Mapping[str, Any]) -> str:
    """The first stamp in words, where it is a date or far from 0."""
    date, moved = source.get("first_date"), source.get("shifted_s")
    if date:
        return str(date)
    if not isinstance(moved, int | float) or -moved < FAR_S:
        return ""
    if -moved >= EPOCH_S:
        return f"{np.datetime_as_string(np.datetime64(round(-moved * 1000), 'ms'), unit='s')}Z".replace("T", " ")
    return f"{-moved:,.6g} s"


def _long(seconds: float) -> str:
    for size, unit in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
