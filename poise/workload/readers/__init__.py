"""Recorded traces: `read` finds out what a file is and returns it as a workload.

One file a format: generic.py, azure.py, mooncake.py. A format says which columns mean what; raw.py takes files apart,
build.py checks and assembles. A bad row is one with a length that is not a whole number from 1 (so an output of 0 is
bad in every format: such rows are failed requests), a stamp that is negative or no number, a missing field, or broken
JSON.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from poise.core.errors import TraceError
from poise.workload.draw import count
from poise.workload.generate import Pairs
from poise.workload.readers.azure import AZURE
from poise.workload.readers.build import build, lengths
from poise.workload.readers.format import FIELDS, NEEDED, Format, Source
from poise.workload.readers.generic import GENERIC
from poise.workload.readers.ledger import Ledger
from poise.workload.readers.mooncake import MOONCAKE
from poise.workload.readers.raw import Raw, load
from poise.workload.table import Workload

FORMATS = {each.name: each for each in (AZURE, MOONCAKE, GENERIC)}
"""Known formats by name, in the order in which they are tried; the last one takes what is left."""


def read(
    path: str | os.PathLike[str],
    *,
    format: str = "auto",
    skip_bad: bool = False,
    block_tokens: int = 512,
    limit: int | None = None,
) -> Workload:
    """Return the trace in `path`: CSV, JSON Lines, JSON or Parquet, gzipped or not, by content.

    format: `auto`, `generic`, `azure` or `mooncake`.  skip_bad: pass over bad rows and count them in
    `source["skipped"]`, instead of raising TraceError at the first.  block_tokens: prompt tokens that one of
    `hash_ids` covers.  limit: read only the first so many rows of the file. Rows are sorted by arrival; `source` says
    how many moved.
    """
    block_tokens = count("block_tokens", block_tokens)
    chosen, raw, fields = _open(Path(path), format, limit)
    lacking = [name for name in NEEDED if name not in fields and not (name == "arrival_s" and "after" in fields)]
    _demand(raw, chosen, lacking)
    workload = build(raw, fields, skip_bad=skip_bad, block_tokens=block_tokens)
    workload.source |= {"kind": "trace", "format": chosen.name}
    if workload.prefixes is not None:
        workload.source["block_tokens"] = block_tokens
    return workload


def read_lengths(
    path: str | os.PathLike[str], *, format: str = "auto", skip_bad: bool = False, limit: int | None = None
) -> Pairs:
    """Return only the prompt and output lengths in `path`, for generated arrivals: `poisson(rate, lengths=…)`."""
    chosen, raw, fields = _open(Path(path), format, limit)
    _demand(raw, chosen, [name for name in NEEDED[1:] if name not in fields])
    ledger = Ledger(raw)
    prompt, output = lengths(ledger, fields)
    kept = ledger.settle(skip_bad)
    return Pairs(np.ascontiguousarray(prompt[kept]), np.ascontiguousarray(output[kept]))


def _open(path: Path, format: str, limit: int | None) -> tuple[Format, Raw, dict[str, Source]]:
    if format != "auto" and format not in FORMATS:
        raise TraceError(f"{path}: format is {format!r}; it must be auto, {', '.join(FORMATS)}")
    raw = load(path, None if limit is None else count("limit", limit))
    if raw.rows == 0:
        raise TraceError(f"{path}: the file has no rows; it needs at least one request")
    if format != "auto":
        chosen = FORMATS[format]
    else:
        chosen = next((each for each in FORMATS.values() if each.matches(raw.columns)), GENERIC)
    return chosen, raw, chosen.fields(raw.columns)


def _demand(raw: Raw, chosen: Format, lacking: list[str]) -> None:
    if not lacking:
        return
    if raw.broken and not raw.columns:
        row = min(raw.broken)
        raise TraceError(f"{raw.path}, {raw.place(row)}: {raw.broken[row]}; the file has no usable row")
    names = {name: " or ".join(source.column for source in chosen.columns[name]) for name in lacking}
    wanted = "; ".join(f"{name} ({FIELDS[name]}): {columns}" for name, columns in names.items())
    raise TraceError(
        f"{raw.path}: found the columns {', '.join(sorted(raw.columns))}, but none for {wanted}; rename one"
    )
