"""Scaling of the pools of a run: figures, lines over time, and their page section."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from poise.core.records.records import Run, Scaled
from poise.core.spec import Cluster
from poise.core.units import SECOND, seconds
from poise.report.chart import Line, Scale, chart, swatch
from poise.report.figures import Case, Curve, Curves, by_load
from poise.report.latency import column, counted
from poise.report.latency import since as counts_from
from poise.report.pieces import fold_all, grid, section
from poise.report.spending import uptime

POOL = "pool "
"""Prefix of the names of a pool's lines among the timelines of a case."""

POINTS = 1000
"""The most changes of a pool that are drawn; of more, those at even steps."""

SHOWN = {"wanted": "wanted", "serving": "serving", "starting": "starting", "draining": "draining", "warm": "pre-warmed"}
"""The lines of a pool, in the order of their styles."""


@dataclass(frozen=True, slots=True)
class Scalings:
    """Activity of the autoscaler, from warm-up to the end of the run.

    scale_ups, scale_downs: number of times a pool's target was raised, or lowered.  starting_s, warm_s: replica-seconds
    spent starting, and in slots that were (or were becoming) pre-warmed.  cold_requests: requests that waited at the
    gateway while no replica of their pool was serving; cold_wait_s: the total of these waits in seconds.
    """

    scale_ups: int
    scale_downs: int
    starting_s: float
    warm_s: float
    cold_requests: int
    cold_wait_s: float


def replica_hours(run: Run, since: int = 0) -> float:
    """Hours for which replicas had their devices, start-up included, from the instant `since` to the end of the run."""
    return seconds(sum(uptime(stats, run.ended_at, since) for stats in run.replicas)) / 3600


def scalings(run: Run, cluster: Cluster, warmup_s: float = 0.0) -> Scalings | None:
    """The scaler's activity; None in a run without one."""
    if not run.scaled:
        return None
    since = counts_from(run, warmup_s)
    waits = _cold_waits(run, cluster, warmup_s)
    wanted = [(now.at, now.wanted - before.wanted) for before, now in _pairs(run) if now.at >= since]
    return Scalings(
        scale_ups=sum(change > 0 for _, change in wanted),
        scale_downs=sum(change < 0 for _, change in wanted),
        starting_s=_integral(run, "starting", since),
        warm_s=_integral(run, "warm", since),
        cold_requests=int((waits > 0).sum()),
        cold_wait_s=float(waits.sum()) / SECOND,
    )


def _pools(run: Run) -> dict[int, list[Scaled]]:
    pools: dict[int, list[Scaled]] = {}
    for note in run.scaled:
        if note.at <= run.ended_at:
            pools.setdefault(note.pool, []).append(note)
    return pools


def _pairs(run: Run) -> list[tuple[Scaled, Scaled]]:
    """Each change of a pool, with the state before it."""
    return [pair for notes in _pools(run).values() for pair in pairwise(notes)]


def _spans(run: Run, notes: Sequence[Scaled]) -> list[tuple[int, int, Scaled]]:
    """The start and end of each note."""
    ends = [*(note.at for note in notes[1:]), run.ended_at]
    return [(note.at, max(end, note.at), note) for note, end in zip(notes, ends, strict=True)]


def _integral(run: Run, name: str, since: int) -> float:
    """Seconds times how many there were."""
    return seconds(
        sum(
            max(end - max(begin, since), 0) * getattr(note, name)
            for notes in _pools(run).values()
            for begin, end, note in _spans(run, notes)
        )
    )


def _cold_waits(run: Run, cluster: Cluster, warmup_s: float) -> NDArray[np.int64]:
    """Picoseconds that each request waited at the gateway while no replica of its pool was serving."""
    records = run.records
    arrived, sent, taken = (column(each) for each in (records.arrived_at, records.dispatched_at, records.replica))
    rows = np.flatnonzero(counted(run, warmup_s) & (taken >= 0))
    pool_of = np.repeat(np.arange(len(cluster.pools)), [pool.slots for pool in cluster.pools])
    waits = np.zeros(len(rows), "i8")
    for pool, notes in _pools(run).items():
        own = pool_of[taken[rows]] == pool
        for begin, end, note in _spans(run, notes):
            if not note.serving:
                overlap = np.minimum(sent[rows], end) - np.maximum(arrived[rows], begin)
                waits += np.where(own, np.maximum(overlap, 0), 0)
    return waits


# Drawings ------------------------------------------------------------------------------------------------------------


def pool_curves(run: Run, names: Sequence[str]) -> dict[str, dict[str, Curve]]:
    """Steps over time of each pool, by `POOL` and its name (slashes are dashes): a line for each of `SHOWN`."""
    fields = {}
    for pool, notes in _pools(run).items():
        spans = _spans(run, notes)
        kept = (
            spans if len(spans) <= POINTS else [spans[at] for at in np.linspace(0, len(spans) - 1, POINTS).astype(int)]
        )
        fields[POOL + names[pool].replace("/", "-")] = {name: _steps(kept, run.ended_at, name) for name in SHOWN}
    return fields


def _steps(spans: Sequence[tuple[int, int, Scaled]], end: int, name: str) -> Curve:
    at = [seconds(begin) for begin, *_ in spans] + [seconds(end)]
    values = [float(getattr(note, name)) for *_, note in spans]
    return at, [*values, values[-1]]


def scaling_section(cases: Sequence[Case]) -> str:
    """A drawing for each pool of each case, a fold for each load; empty where no scaler decided."""
    drawn = [case for case in cases if case.timeline and any(name.startswith(POOL) for name in case.timeline)]
    if not drawn:
        return ""
    text = (
        "Of the first seed: the target size of each pool, and how many replicas served, started, drained or were "
        "pre-warmed. Wanted above serving: replicas that the load waits for."
    )
    legend = "".join(swatch(name, style) for style, name in enumerate(SHOWN.values()))
    folds = [(some[0].at, grid([each for case in some for each in _charts(case)])) for some in by_load(drawn).values()]
    return section(
        "Size of the pools", f'<p class="soft">{escape(text)}</p>', f'<div class="legend">{legend}</div>',
        fold_all(folds), anchor="pools",
    )  # fmt: skip


def _charts(case: Case) -> list[str]:
    """One for each pool."""
    pools: Mapping[str, Curves] = case.timeline or {}
    several = sum(name.startswith(POOL) for name in pools) > 1
    x, y = Scale("time since the start, s"), Scale("replicas", "count", reach=0.0)
    return [
        chart(
            f"{case.policy}, {name}" if several else case.policy,
            [Line(label, style, *lines[key]) for style, (key, label) in enumerate(SHOWN.items()) if any(lines[key][1])],
            x, y, reading="{y} at {x} s", steps=True,
        )
        for name, lines in pools.items()
        if name.startswith(POOL)
    ]  # fmt: skip
