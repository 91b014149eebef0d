"""From raw columns to a checked workload."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import TraceError
from poise.core.units import NEVER, SECOND
from poise.workload.lengths import LONGEST
from poise.workload.oddities import silences
from poise.workload.readers.blocks import read_prefixes
from poise.workload.readers.columns import codes, missing, numbers, stamps
from poise.workload.readers.format import Source
from poise.workload.readers.joins import Joins, read_joins, settle_stamps
from poise.workload.readers.ledger import Ledger
from poise.workload.readers.raw import Raw
from poise.workload.rows import take
from poise.workload.table import Workload

Fields = dict[str, Source]

LATEST_S = NEVER // SECOND
"""Seconds that a workload may last (53 days)."""

_FUTURE_S = 10**11
"""Seconds since 1970 until beyond the year 5000: stamps above are in another unit."""


def build(raw: Raw, fields: Fields, *, skip_bad: bool, block_tokens: int) -> Workload:
    """Return `raw` as a workload, read by `fields`, stably sorted by arrival; TraceError at the first bad row."""
    ledger = Ledger(raw)
    prompt, output = lengths(ledger, fields)
    joins = _joins(ledger, fields)
    arrival, facts = _arrival(ledger, fields, joins)
    workload = Workload(arrival=arrival, prompt=prompt, output=output, source={"path": raw.path})
    _options(ledger, fields, workload)
    if "hash_ids" in fields:
        workload.prefixes = read_prefixes(ledger, fields["hash_ids"].column, prompt, block_tokens)
    depth = np.zeros(raw.rows, dtype=np.int64)
    if joins is not None:
        workload.arrival, depth = settle_stamps(ledger, joins, arrival, fields["after"].column)
        workload.after_offsets, workload.after_ids, workload.delay = joins.offsets, joins.ids, joins.delay
    kept = ledger.settle(skip_bad)
    order = kept[np.lexsort((depth[kept], workload.arrival[kept]))]
    rows: dict[str, Any] = {"moved": int((order != kept).sum()), "rows": len(order)}
    rows |= {"skipped": ledger.skipped, "first_skipped": ledger.reason()}
    built = take(workload, order)
    built.source |= rows | facts | _repeated(ledger, fields) | _from_the_first(built, facts)
    if joins is None:
        built.source |= silences(built.arrival)
    return built.check()


def _repeated(ledger: Ledger, fields: Fields) -> dict[str, Any]:
    """How many rows have the request id of an earlier one; no note where none has, or there are no ids."""
    if "request_id" not in fields:
        return {}
    column = ledger.raw.columns[fields["request_id"].column]
    named = [str(each) for each, none in zip(column, missing(column).tolist(), strict=True) if not none]
    again = len(named) - len(set(named))
    return {"repeated_ids": again} if again else {}


def _from_the_first(workload: Workload, facts: dict[str, Any]) -> dict[str, Any]:
    """Let the first request that is left arrive at 0; returns by how many seconds all stamps were moved, if not dates.

    A run begins with its first request, so that a part cut out of a day is the same load as one that begins at 0.
    """
    begin = int(workload.arrival[0]) if len(workload) else 0
    workload.arrival = workload.arrival - begin
    moved = facts.get("shifted_s", 0.0)
    return {} if isinstance(moved, str) or not begin else {"shifted_s": moved - begin / SECOND}


def lengths(ledger: Ledger, fields: Fields) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return prompt and output tokens; rows where one is not a whole number from 1 are refused."""
    rule = "it must be a whole number of at least 1"
    sources = fields["prompt_tokens"], fields["output_tokens"]
    prompt, output = (_whole(ledger, each.column, 1, LONGEST, rule) * each.unit for each in sources)
    return np.maximum(np.rint(prompt), 1).astype(np.int32), np.maximum(np.rint(output), 1).astype(np.int32)


def _whole(
    ledger: Ledger, column: str, least: int, most: int, rule: str, empty: int | None = None
) -> NDArray[np.int64]:
    """Whole numbers of `column`; `empty` is what a missing value means, None: it is bad."""
    read = numbers(ledger.raw.columns[column])
    if empty is not None:
        read[missing(ledger.raw.columns[column])] = empty
    bad = ~((read >= least) & (read <= most) & (read == np.rint(read)))
    ledger.refuse(bad, column, rule)
    read[bad] = least
    return read.astype(np.int64)


def _seconds(ledger: Ledger, source: Source) -> NDArray[np.int64]:
    """Durations of a column in picoseconds; a missing one is 0."""
    column = ledger.raw.columns[source.column]
    read = numbers(column) * source.unit
    read[missing(column)] = 0.0
    bad = ~((read >= 0) & (read < LATEST_S))
    ledger.refuse(bad, source.column, "it must be a number of at least 0, and below 53 days")
    read[bad] = 0.0
    return np.rint(read * SECOND).astype(np.int64)


def _joins(ledger: Ledger, fields: Fields) -> Joins | None:
    if "after" not in fields:
        return None
    delay = np.zeros(ledger.raw.rows, dtype=np.int64)
    if "delay_s" in fields:
        delay = _seconds(ledger, fields["delay_s"])
    request_id = fields["request_id"].column if "request_id" in fields else None
    joins = read_joins(ledger, fields["after"].column, request_id, delay)
    return joins if len(joins.ids) else None


def _arrival(ledger: Ledger, fields: Fields, joins: Joins | None) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Arrivals in picoseconds from the first, and how stamps were moved; only rows with predecessors may lack one."""
    rows = ledger.raw.rows
    waits = np.diff(joins.offsets) > 0 if joins is not None else np.zeros(rows, dtype=bool)
    source = fields.get("arrival_s")
    if source is None:
        if not waits.any():
            raise TraceError(f"{ledger.raw.path}: no row has an arrival or a predecessor; give arrival_s")
        ledger.refuse(~waits, "arrival_s", "a request without predecessors needs an arrival")
        return np.zeros(rows, dtype=np.int64), {}
    column = ledger.raw.columns[source.column]
    read, dated = stamps(column, source.unit)
    read[waits & missing(column)] = 0.0
    facts: dict[str, Any] = {}
    future = np.isfinite(read) & (read >= _FUTURE_S)
    ledger.refuse(future, source.column, _other_unit(source.unit))
    read[future] = 0.0
    own = np.isfinite(read) & (read >= 0) & ~waits & ~future
    begin = float(read[own].min()) if own.any() else 0.0
    if dated or begin:
        facts["shifted_s"] = "dates count from the first" if dated else -begin
    if dated:
        facts["first_date"] = dated
    kept = read[own]
    late = int((kept < np.maximum.accumulate(kept)).sum()) if len(kept) else 0
    facts |= {"out_of_order": late} if late else {}
    if begin:
        later = np.where(waits, np.maximum(read - begin, 0.0), read - begin)
        read = _rounded(later, begin + float(later[own & (later < LATEST_S)].max()))
    bad = ~((read >= 0) & (read < LATEST_S))
    ledger.refuse(bad, source.column, "it must be a date or a number of at least 0, within 53 days of the first")
    read[bad] = 0.0
    return np.rint(read * SECOND).astype(np.int64), facts


def _other_unit(unit: float) -> str:
    """The error text for a stamp that in the given unit lies beyond the year 5000."""
    if unit < 1:
        return "in milliseconds it lies beyond the year 5000; give milliseconds since 1970, or from the start"
    return "in seconds it lies beyond the year 5000; call a column of milliseconds timestamp_ms, or give seconds"


def _rounded(seconds: NDArray[np.float64], largest: float) -> NDArray[np.float64]:
    """Differences of stamps up to `largest` without the digits that a float of that size cannot hold.

    So a trace and the same trace moved in time give the same picoseconds.
    """
    return np.round(seconds, max(math.floor(-math.log10(np.spacing(largest))), 0))


def _options(ledger: Ledger, fields: Fields, workload: Workload) -> None:
    for name in ("session", "tenant", "lora"):
        if name in fields:
            setattr(workload, name, codes(ledger.raw.columns[fields[name].column])[0].astype(np.int32))
    for name in ("stage", "tool"):
        if name in fields:
            index, names = codes(ledger.raw.columns[fields[name].column])
            setattr(workload, name, index.astype(np.int16))
            setattr(workload, f"{name}s", tuple(names))
    for name in ("deadline", "timeout"):
        if f"{name}_s" in fields:
            setattr(workload, name, _seconds(ledger, fields[f"{name}_s"]))
    if "images" in fields:
        rule = "it must be a whole number of images, 0 to 1000"
        workload.images = _whole(ledger, fields["images"].column, 0, 1000, rule, 0).astype(np.int16)
    if "audio_s" in fields:
        workload.audio = (_seconds(ledger, fields["audio_s"]) // (SECOND // 1000)).astype(np.int32)
    if "priority" in fields:
        rule = "it must be a whole number between -32768 and 32767"
        workload.priority = _whole(ledger, fields["priority"].column, -(2**15), 2**15 - 1, rule, 0).astype(np.int16)
    if "max_tokens" in fields:
        column = fields["max_tokens"].column
        limit = _whole(ledger, column, 0, LONGEST, "it must be a whole number of at least 0 (0: no limit)", 0)
        over = (limit > 0) & (workload.output > limit)
        ledger.refuse(over, column, "it is below the request's output_tokens, which it should bound")
        workload.max_tokens = limit.astype(np.int32)
    if "model" in fields:
        column = fields["model"].column
        index, names = codes(ledger.raw.columns[column])
        ledger.refuse(index < 0, column, "each request must name its model when the file has the column")
        workload.model, workload.models = np.maximum(index, 0).astype(np.int16), tuple(names)
