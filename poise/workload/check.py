"""The rules that every workload keeps, checked column by column; worlds and scaling rely on them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import TraceError
from poise.core.units import NEVER
from poise.workload.table import Prefixes, Workload

Mask = NDArray[np.bool_]

LEAST: dict[str, int] = {
    "delay": 0,
    "max_tokens": 0,
    "model": 0,
    "lora": -1,
    "session": -1,
    "tenant": -1,
    "stage": -1,
    "agent": -1,
    "tool": -1,
    "priority": -(1 << 15),
    "deadline": 0,
    "timeout": 0,
}
"""The smallest value of each optional column."""


def check(workload: Workload) -> None:
    """Raise TraceError with the first row that breaks a rule; return nothing when all is well."""
    _shapes(workload)
    _refuse(workload, "arrival", workload.arrival < 0, "instants count from the start and cannot be negative")
    _refuse(workload, "arrival", workload.arrival >= NEVER, "a workload lasts 53 days at most; make stamps relative")
    early = np.zeros(len(workload), dtype=bool)
    early[1:] = np.diff(workload.arrival) < 0
    _refuse(workload, "arrival", early, "rows must be sorted by arrival; sort them stably")
    for name in ("prompt", "output"):
        _refuse(workload, name, getattr(workload, name) < 1, "a request has at least one token; drop the row")
    _options(workload)
    _joins(workload)
    if workload.prefixes is not None:
        _prefixes(workload, workload.prefixes)


def _refuse(workload: Workload, name: str, bad: Mask, rule: str) -> None:
    if bad.any():
        row = int(bad.argmax())
        raise TraceError(f"{_where(workload)}, row {row}: {name} is {getattr(workload, name)[row]}; {rule}")


def _where(workload: Workload) -> str:
    return str(workload.source.get("path") or workload.source.get("kind") or "workload")


def _shapes(workload: Workload) -> None:
    rows, where = len(workload), _where(workload)
    if rows == 0:
        raise TraceError(f"{where}: the workload has no requests; at least one is needed")
    names = ["arrival", "output", *LEAST]
    if workload.after_ids is not None and (workload.after_offsets is None or workload.delay is None):
        raise TraceError(f"{where}: after_ids is given without after_offsets and delay; joins need all three")
    for name in names:
        column = getattr(workload, name)
        if column is not None and column.shape != (rows,):
            raise TraceError(f"{where}: {name} has shape {column.shape}; every column must have {rows} rows")
    for name in ("concurrency", "retry"):
        if getattr(workload, name) < 0:
            raise TraceError(f"{where}: {name} is {getattr(workload, name)}; it must be 0 or more")


def _options(workload: Workload) -> None:
    for name, least in LEAST.items():
        column = getattr(workload, name)
        if column is not None:
            _refuse(workload, name, column < least, f"it must be at least {least}")
    for name in ("model", "stage", "tool"):
        column, names = getattr(workload, name), getattr(workload, f"{name}s")
        if column is not None:
            _refuse(workload, name, column >= len(names), f"`{name}s` names only {names}")
    if workload.max_tokens is not None:
        over = (workload.max_tokens > 0) & (workload.output > workload.max_tokens)
        _refuse(workload, "output", over, "the true output cannot exceed max_tokens; cut one or raise the other")


def _offsets(where: str, name: str, offsets: NDArray[np.int64], rows: int, items: int) -> None:
    ends = (rows + 1,) == offsets.shape and offsets[0] == 0 and offsets[-1] == items
    if not ends or (np.diff(offsets) < 0).any():
        raise TraceError(f"{where}: {name} must be {rows + 1} ascending numbers from 0 to {items}")


def _joins(workload: Workload) -> None:
    if workload.after_offsets is None:
        return
    where, rows = _where(workload), len(workload)
    after = workload.after_ids if workload.after_ids is not None else np.zeros(0, np.int64)
    _offsets(where, "after_offsets", workload.after_offsets, rows, len(after))
    owner = np.repeat(np.arange(rows), np.diff(workload.after_offsets))
    _after_delay(where, workload, owner)
    wrong = (after < 0) | (after >= owner)
    if wrong.any():
        at = int(wrong.argmax())
        rule = "a predecessor must be an earlier row, so that no request waits for itself"
        raise TraceError(f"{where}, row {owner[at]}: after is {after[at]}; {rule}")


def _after_delay(where: str, workload: Workload, owner: NDArray[np.int64]) -> None:
    waits = workload.after_delay
    if waits is None:
        return
    if waits.shape != owner.shape:
        raise TraceError(f"{where}: after_delay has {len(waits)} entries; it needs one for each of {len(owner)} joins")
    if (waits < 0).any():
        at = int((waits < 0).argmax())
        raise TraceError(f"{where}, row {owner[at]}: after_delay is {waits[at]}; it must be at least 0")


def _prefixes(workload: Workload, prefixes: Prefixes) -> None:
    where = _where(workload)
    _offsets(where, "prefixes.offsets", prefixes.offsets, len(workload), len(prefixes.ids))
    if prefixes.ends.shape != prefixes.ids.shape:
        raise TraceError(f"{where}: prefixes.ends has {len(prefixes.ends)} entries; ids has {len(prefixes.ids)}")
    rows, ids, ends = prefixes.rows, prefixes.ids, prefixes.ends
    before = np.zeros_like(ends)
    before[1:] = np.where(np.diff(rows) == 0, ends[:-1], 0)
    _extents(where, rows, ids, ids < 0, "ids must be 0 or more")
    _extents(where, rows, ends, ends <= before, "the ends of a prompt's extents must ascend")
    _extents(where, rows, ends, ends > workload.prompt[rows], "an extent cannot end behind its prompt")
    if prefixes.output is not None and prefixes.output.shape != (len(workload),):
        raise TraceError(f"{where}: prefixes.output has shape {prefixes.output.shape}; it needs one id a row")
    rows, ids, ends = _with_outputs(workload, prefixes)
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    _extents(where, rows, ids, ends != ends[first][inverse], "equal ids must end after equally many tokens")
    follows = _followed(rows, ids, len(prefixes.ids))
    _extents(
        where,
        rows,
        ids,
        follows != follows[first][inverse],
        "equal ids must follow equal ids: each names a whole prefix",
    )


def _followed(rows: NDArray[Any], ids: NDArray[Any], prompts: int) -> NDArray[Any]:
    """The id before each in its prompt, -1 for none; the first `prompts` are of prompts, the others of outputs."""
    follows = np.full(len(ids), -1, dtype=ids.dtype)
    inner = np.flatnonzero(np.diff(rows[:prompts]) == 0)
    follows[inner + 1] = ids[inner]
    last = np.full(int(rows.max(initial=-1)) + 1, -1, dtype=ids.dtype)
    last[rows[:prompts]] = ids[:prompts]  # of several in a row the last one stays
    follows[prompts:] = last[rows[prompts:]]
    return follows


def _with_outputs(workload: Workload, prefixes: Prefixes) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    rows, ids, ends = prefixes.rows, prefixes.ids, prefixes.ends.astype(np.int64)
    if prefixes.output is None:
        return rows, ids, ends
    named = np.flatnonzero(prefixes.output >= 0)
    whole = workload.prompt[named].astype(np.int64) + workload.output[named]
    columns = (rows, named), (ids, prefixes.output[named]), (ends, whole)
    return np.concatenate(columns[0]), np.concatenate(columns[1]), np.concatenate(columns[2])


def _extents(where: str, rows: NDArray[Any], values: NDArray[Any], bad: Mask, rule: str) -> None:
    if bad.any():
        at = int(bad.argmax())
        raise TraceError(f"{where}, row {rows[at]}: a prefix extent has {values[at]}; {rule}")
