"""Recorded traces: `read` finds out what a file is and returns it as a workload.

One file a format: generic.py, azure.py, burstgpt.py, mooncake.py, agents.py, text2sql.py. A format declares which
columns mean what; raw.py takes files apart, build.py checks and assembles. Conversations with sub-agents are no
columns and have a reader of their own: weka.py, agent_trees.py, hash_chains.py. A bad row is one with a length that is
not a whole number from 1 (so an output of 0 is bad in every format but weka: such rows are failed requests), a stamp
that is negative or no number, a missing field, or broken JSON. Files that are not traces have their own readers:
clients.py (ServeGen), counts.py (profiles).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from poise.core.errors import TraceError
from poise.workload.draw import count
from poise.workload.generate import Pairs
from poise.workload.growth import grown
from poise.workload.readers.agents import AGENT_PREFIXES, AGENT_SESSIONS
from poise.workload.readers.azure import AZURE
from poise.workload.readers.build import build, lengths
from poise.workload.readers.burstgpt import BURSTGPT
from poise.workload.readers.clients import ARRIVALS, LENGTHS, read_clients
from poise.workload.readers.counts import read_profile
from poise.workload.readers.exports import LANGFUSE, LITELLM, OPENAI
from poise.workload.readers.file import load, opened, text_of
from poise.workload.readers.format import NEEDED, Format, Source
from poise.workload.readers.generic import GENERIC
from poise.workload.readers.ledger import Ledger
from poise.workload.readers.mooncake import MOONCAKE
from poise.workload.readers.named import lacking, named, suggested
from poise.workload.readers.raw import Raw
from poise.workload.readers.text2sql import AGENT_STEPS
from poise.workload.readers.vllm_log import VLLM, is_log, read_log
from poise.workload.readers.weka import NAME as WEKA
from poise.workload.readers.weka import is_weka
from poise.workload.table import Workload

__all__ = ["FORMATS", "ColumnMap", "column_map", "read", "read_clients", "read_lengths", "read_profile"]

FORMATS = {
    each.name: each
    for each in (
        AZURE,
        BURSTGPT,
        MOONCAKE,
        AGENT_PREFIXES,
        AGENT_SESSIONS,
        AGENT_STEPS,
        LITELLM,
        LANGFUSE,
        OPENAI,
        VLLM,
        GENERIC,
    )
}
"""Known formats by name, in the order in which they are tried; the last one takes what is left."""

TABLES = {
    ARRIVALS: "a table of clients, not of requests; give it as servegen: {arrivals: FILE, duration_s: 600}",
    LENGTHS: "a table of clients' lengths; give the table of their arrivals as servegen: {arrivals: FILE}",
    ("time_bin", "requests"): "a table of counts over time; give it as diurnal: {counts: FILE}",
}
"""Files that are no traces, by their columns, and what they are for."""


def read(
    path: str | os.PathLike[str],
    *,
    format: str = "auto",
    skip_bad: bool = False,
    block_tokens: int | None = None,
    limit: int | None = None,
    columns: Mapping[str, str] | None = None,
) -> Workload:
    """Return the trace in `path`: CSV, JSON Lines, JSON or Parquet, text gzipped, in zstd or plain, by content.

    A folder is one of conversations, as is a file of the format `weka`; `limit` counts conversations then.
    format: `auto`, `weka` or one of `FORMATS`.  skip_bad: pass over bad rows and count them in `source["skipped"]`,
    instead of raising TraceError at the first.  block_tokens: prompt tokens that one of `hash_ids` covers (None: the
    format's own, 512 or 128).  limit: read only the first `limit` rows of the file.  columns: which columns hold which
    fields, where their names do not show it, as in {"arrival_s": "created at", "prompt_tokens": "usage.prompt_tokens"};
    the format finds the others. Rows are sorted by arrival; `source` records how many moved.
    """
    file = Path(path)
    data = None if file.is_dir() else opened(file)
    if format == WEKA or (format == "auto" and is_weka(file, data)):
        if block_tokens is not None:
            raise TraceError(f"{file}: block_tokens: each conversation has a block_size of its own; leave it out")
        return _conversations(file, data, skip_bad, limit, columns)
    chosen, raw, fields = _open(file, format, limit, columns, data)
    _demand(raw, chosen, _missing(fields))
    block_tokens = chosen.block_tokens if block_tokens is None else count("block_tokens", block_tokens)
    workload = build(raw, fields, skip_bad=skip_bad, block_tokens=block_tokens)
    workload.source |= {"kind": "trace", "format": chosen.name}
    if chosen.grows:
        workload.prefixes = grown(workload)
    elif workload.prefixes is not None:
        workload.source["block_tokens"] = block_tokens
    return workload


def _conversations(
    file: Path, data: bytes | None, skip_bad: bool, limit: int | None, columns: Mapping[str, str] | None
) -> Workload:
    from poise.workload.readers.agent_trees import read_conversations

    if columns:
        raise TraceError(f"{file}: columns: the format {WEKA} has no columns to name; leave it out")
    limit = None if limit is None else count("limit", limit)
    return read_conversations(file, data, skip_bad=skip_bad, limit=limit)


def read_lengths(
    path: str | os.PathLike[str],
    *,
    format: str = "auto",
    skip_bad: bool = False,
    limit: int | None = None,
    columns: Mapping[str, str] | None = None,
) -> Pairs:
    """Return only the prompt and output lengths in `path`, for generated arrivals: `poisson(rate, lengths=…)`."""
    file = Path(path)
    data = None if file.is_dir() else opened(file)
    if format == WEKA or (format == "auto" and is_weka(file, data)):
        made = _conversations(file, data, skip_bad, limit, columns)
        return Pairs(made.prompt, made.output)
    chosen, raw, fields = _open(file, format, limit, columns, data)
    _demand(raw, chosen, [name for name in NEEDED[1:] if name not in fields])
    ledger = Ledger(raw)
    prompt, output = lengths(ledger, fields)
    kept = ledger.settle(skip_bad)
    return Pairs(np.ascontiguousarray(prompt[kept]), np.ascontiguousarray(output[kept]))


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """Which columns of a file hold which fields of a request.

    columns: the normalised names of all columns.  fields: the column of each field that the file has.
    missing: needed fields without one.  suggested: the columns that most likely hold them.
    """

    format: str
    columns: tuple[str, ...]
    fields: dict[str, str]
    missing: tuple[str, ...]
    suggested: dict[str, str]


SAMPLE = 100
"""Rows from which the columns of a file are found."""


def column_map(path: str | os.PathLike[str], *, columns: Mapping[str, str] | None = None) -> ColumnMap:
    """Return how the columns of the trace in `path` are read, and suggestions where a needed one is missing.

    Conversations have no columns, and lack none. columns: as for `read`. TraceError for a file that cannot be read, or
    has no columns.
    """
    file = Path(path)
    data = None if file.is_dir() else opened(file)
    if is_weka(file, data):
        return ColumnMap(WEKA, (), {}, (), {})
    chosen, raw, fields = _open(file, "auto", SAMPLE, columns, data)
    missing = _missing(fields)
    if not raw.columns:
        _demand(raw, chosen, missing)
    found = {field: source.column for field, source in fields.items()}
    left = set(raw.columns) - set(found.values())
    return ColumnMap(chosen.name, tuple(raw.columns), found, tuple(missing), suggested(chosen, missing, left))


def _missing(fields: Mapping[str, Source]) -> list[str]:
    """The needed fields without a column; a request that follows others needs no arrival."""
    return [name for name in NEEDED if name not in fields and not (name == "arrival_s" and "after" in fields)]


def _open(
    path: Path, format: str, limit: int | None, columns: Mapping[str, str] | None, data: bytes | None
) -> tuple[Format, Raw, dict[str, Source]]:
    if format != "auto" and format not in FORMATS:
        raise TraceError(f"{path}: format is {format!r}; it must be auto, {', '.join(FORMATS)}, {WEKA}")
    limit = None if limit is None else count("limit", limit)
    data = opened(path) if data is None else data
    if format == VLLM.name and data.lstrip()[:1] in (b"{", b"["):
        format = OPENAI.name  # vLLM's answers, which are OpenAI's
    if format == VLLM.name or (format == "auto" and is_log(data)):
        raw, format = read_log(path, text_of(path, data), limit), VLLM.name
    else:
        raw = load(path, limit, data)
    if raw.rows == 0:
        raise TraceError(f"{path}: the file has no rows; it needs at least one request")
    if format != "auto":
        chosen = FORMATS[format]
    else:
        _refuse_tables(raw)
        chosen = next((each for each in FORMATS.values() if each.matches(raw.columns)), GENERIC)
    twice = raw.twice
    raw = _prepared(chosen, raw)
    fields = chosen.fields(raw.columns) | named(raw.path, columns or {}, raw.columns)
    for name, source in fields.items():
        if source.column in twice:
            raise TraceError(f"{path}: the header has {source.column!r} twice, which holds {name}; rename one of them")
    return chosen, raw, fields


def _demand(raw: Raw, chosen: Format, missing: list[str]) -> None:
    if not missing:
        return
    if raw.broken and not raw.columns:
        row = min(raw.broken)
        raise TraceError(f"{raw.path}, {raw.place(row)}: {raw.broken[row]}; the file has no usable row")
    message = lacking(raw.path, chosen, missing, raw.columns)
    if missing == ["arrival_s"]:
        message += ", or take only the lengths of this file for arrivals of your own: poisson: {rate: 5, lengths: FILE}"
    raise TraceError(message)


def _refuse_tables(raw: Raw) -> None:
    """Raise an error for known files that hold no requests, with their use."""
    for names, cure in TABLES.items():
        if all(name in raw.columns for name in names):
            raise TraceError(f"{raw.path}: is {cure}")


def _prepared(chosen: Format, raw: Raw) -> Raw:
    """The rows of `raw` as requests."""
    if chosen.prepare is None:
        return raw
    lacking = [name for name in chosen.signature if name not in raw.columns]
    if lacking:
        raise TraceError(
            f"{raw.path}: lacks the columns {', '.join(lacking)} of format {chosen.name}; name another one"
        )
    return chosen.prepare(raw)
