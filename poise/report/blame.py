"""Mean latency attribution of requests, by the parts of `core.records.blame`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from poise.core.records.blame import PARTS
from poise.core.records.records import Run
from poise.core.units import SECOND
from poise.report.latency import column, durations, finished, total
from poise.report.table import show
from poise.report.wording import MISSING, write

Means = dict[str, dict[str, float]]
"""Seconds by part, of the two stretches of a request: `ttft` (up to its first token) and `rest`."""

STRETCHES = {"ttft": "until the first token", "rest": "from there to the end"}


TAIL = 0.01
"""The share of the slowest requests whose parts are reported separately."""

SAMPLES = {"mean": "mean of all", "slowest": "slowest 1 % end to end", "slowest_ttft": "slowest 1 % by TTFT"}
"""The samples of requests whose mean parts are reported."""


def means(run: Run, warmup_s: float = 0.0) -> Means | None:
    """Mean seconds of each part over the requests that arrived after `warmup_s` seconds and finished.

    The parts of `ttft` add up to the mean TTFT, and all of them to the mean end-to-end time. None where the run did not
    record blame, or nothing finished.
    """
    return _over(run, np.flatnonzero(finished(run, warmup_s)))


def samples(run: Run, warmup_s: float = 0.0) -> dict[str, Means] | None:
    """`means` of all requests and of the slowest ones, by the names of `SAMPLES`; None where `means` is."""
    taken = durations(run, warmup_s)
    (rows, e2e), (first, ttft) = taken["e2e"], taken["ttft"]
    chosen = {"mean": rows, "slowest": rows[slowest(e2e)], "slowest_ttft": first[slowest(ttft)]}
    fields = {name: found for name, some in chosen.items() if (found := _over(run, some)) is not None}
    return fields or None


def slowest(taken: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.intp]:
    """The places of the slowest requests."""
    return np.argsort(taken, kind="stable")[-tail(len(taken)) :]


def packed(some: Means) -> NDArray[np.float64]:
    """Seconds as an array [stretches, parts]."""
    return np.array([[some[stretch][part] for part in PARTS] for stretch in STRETCHES])


def unpacked(seconds: NDArray[np.float64]) -> Means:
    """The inverse of `packed`."""
    return {
        stretch: dict(zip(PARTS, row, strict=True)) for stretch, row in zip(STRETCHES, seconds.tolist(), strict=True)
    }


def tail(count: int) -> int:
    """How many of `count` requests are the slowest."""
    return max(1, round(TAIL * count))


def _over(run: Run, rows: NDArray[np.intp]) -> Means | None:
    """Mean seconds of each part over some requests."""
    if run.blame is None or not len(rows):
        return None
    count = len(rows) * SECOND
    return {
        name: {
            part: total(column(values)[rows]) / count
            for part, values in zip(PARTS, getattr(run.blame, name), strict=True)
        }
        for name in STRETCHES
    }


def show_blame(results: Sequence[tuple[str, Mapping[str, Any]]], file: TextIO | None = None) -> None:
    """Print the parts of each result (of `metrics.combine`) that has any: one named column per result.

    Parts that are zero everywhere are left out; each stretch begins with the sum of its parts.
    """
    shown = [(name, result["blame"]) for name, result in results if result.get("blame")]
    if not shown:
        return
    rows: list[tuple[str, ...]] = []
    for stretch, title in STRETCHES.items():
        rows.append((title, *(_seconds(sum(blame[stretch].values())) for _, blame in shown)))
        for part in PARTS:
            values = [blame[stretch][part] for _, blame in shown]
            if any(values):
                rows.append((f"  {part}", *map(_seconds, values)))
    show("Where the time of finished requests went, in the mean", ("", *(name for name, _ in shown)), rows, file)


def _seconds(value: float) -> str:
    return write(value, "seconds") if value else MISSING
