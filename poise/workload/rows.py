"""Choose and join rows of workloads, with their joins and prefixes kept in step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.workload.table import Prefixes, Workload

Rows = NDArray[np.int64]

PLAIN: tuple[str, ...] = (
    *("arrival", "prompt", "output", "delay", "max_tokens", "model"),
    *("lora", "session", "agent", "tenant", "priority", "stage", "tool", "deadline", "timeout", "images", "audio"),
)
"""Columns with one number a row."""


def spans(offsets: Rows, rows: Rows) -> tuple[Rows, Rows]:
    """Return (new offsets, item numbers) of the ragged column `offsets` when only `rows` are kept, in that order."""
    counts = np.diff(offsets)[rows]
    ends = np.concatenate([[0], np.cumsum(counts)])
    items = np.arange(ends[-1]) + np.repeat(offsets[rows] - ends[:-1], counts)
    return ends, items


def take(workload: Workload, rows: Rows) -> Workload:
    """Return `rows` of `workload` in that order; every predecessor of a row must come before it."""
    changed: dict[str, Any] = {"source": dict(workload.source)}
    for name in PLAIN:
        column = getattr(workload, name)
        if column is not None:
            changed[name] = column[rows]
    if workload.after_offsets is not None and workload.after_ids is not None:
        place = np.full(len(workload), -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        changed["after_offsets"], items = spans(workload.after_offsets, rows)
        changed["after_ids"] = place[workload.after_ids[items]]
        if workload.after_delay is not None:
            changed["after_delay"] = workload.after_delay[items]
    if workload.prefixes is not None:
        changed["prefixes"] = _take_prefixes(workload.prefixes, rows)
    return replace(workload, **changed)


def _take_prefixes(prefixes: Prefixes, rows: Rows) -> Prefixes:
    offsets, items = spans(prefixes.offsets, rows)
    output = None if prefixes.output is None else prefixes.output[rows]
    return Prefixes(offsets, prefixes.ids[items], prefixes.ends[items], output)


def later(workload: Workload, change: Callable[[Workload], Workload]) -> Workload:
    """Return `workload`, which has no end, with a change that is made when its rows are drawn."""
    draw = workload.endless
    assert draw is not None
    return replace(workload, endless=lambda seconds: change(draw(seconds)))


def by_arrival(workload: Workload) -> Workload:
    """Return the rows stably sorted by arrival; predecessors must be earlier rows with no later stamp."""
    return take(workload, np.argsort(workload.arrival, kind="stable"))


def repeat(workload: Workload, copies: int) -> Workload:
    """Return `copies` of `workload`, one behind the other, unsorted; sessions, joins and prefix ids relabelled."""
    rows = len(workload)
    many = take(workload, np.tile(np.arange(rows), copies))
    copy = np.repeat(np.arange(copies), rows)
    if workload.session is not None and many.session is not None:
        step = int(workload.session.max(initial=-1)) + 1
        many.session = np.where(many.session < 0, -1, many.session + copy * step).astype(np.int32)
    if workload.after_ids is not None and workload.after_offsets is not None:
        width = len(workload.after_ids)
        many.after_ids = np.tile(workload.after_ids, copies) + np.repeat(np.arange(copies) * rows, width)
    if workload.prefixes is not None and many.prefixes is not None:
        step, width = workload.prefixes.next_id, len(workload.prefixes.ids)
        many.prefixes.ids = many.prefixes.ids + np.repeat(np.arange(copies) * step, width)
        if many.prefixes.output is not None:
            known = many.prefixes.output >= 0
            many.prefixes.output = np.where(known, many.prefixes.output + copy * step, -1)
    return many
