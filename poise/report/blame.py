"""Where the time of requests went in the mean, by the parts of `core.blame`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from poise.core.blame import PARTS
from poise.core.records import Run
from poise.core.units import SECOND
from poise.report.latency import column, finished, total
from poise.report.table import show
from poise.report.wording import MISSING, write

Means = dict[str, dict[str, float]]
"""Seconds by part, of the two stretches of a request: `ttft` (up to its first token) and `rest`."""

STRETCHES = {"ttft": "until the first token", "rest": "from there to the end"}


def means(run: Run, warmup_s: float = 0.0) -> Means | None:
    """Mean seconds of each part over the requests that arrived after `warmup_s` seconds and finished.

    The parts of `ttft` add up to the mean TTFT, and all of them to the mean end-to-end time. None where the run was not
    asked for blame, or nothing finished.
    """
    rows = finished(run, warmup_s)
    if run.blame is None or not rows.any():
        return None
    count = int(rows.sum()) * SECOND
    return {
        name: {
            part: total(column(values)[rows]) / count
            for part, values in zip(PARTS, getattr(run.blame, name), strict=True)
        }
        for name in STRETCHES
    }


def show_blame(results: Sequence[tuple[str, Mapping[str, Any]]], file: TextIO | None = None) -> None:
    """Print the parts of each result (of `metrics.combine`) that has any: a column for each, named beside it.

    Parts that are nothing everywhere are left out; each stretch begins with what its parts add up to.
    """
    told = [(name, result["blame"]) for name, result in results if result.get("blame")]
    if not told:
        return
    rows: list[tuple[str, ...]] = []
    for stretch, title in STRETCHES.items():
        rows.append((title, *(_seconds(sum(blame[stretch].values())) for _, blame in told)))
        for part in PARTS:
            values = [blame[stretch][part] for _, blame in told]
            if any(values):
                rows.append((f"  {part}", *map(_seconds, values)))
    show("Where the time of finished requests went, in the mean", ("", *(name for name, _ in told)), rows, file)


def _seconds(value: float) -> str:
    return write(value, "seconds") if value else MISSING
