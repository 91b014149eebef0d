"""Trace files read as raw columns, by what their bytes look like."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from poise.core.errors import TraceError
from poise.workload.readers.format import normal
from poise.workload.readers.inflate import inflate, most_bytes
from poise.workload.readers.jsonlines import read_json
from poise.workload.readers.raw import Column, Raw, moved, numbered

TEXT = (".csv", ".tsv", ".txt", ".log", ".jsonl", ".ndjson", ".json")
ENDINGS = (*TEXT, ".parquet", *(f"{each}.gz" for each in TEXT), *(f"{each}.zst" for each in TEXT))

PARQUET_ROW_BYTES = 8
"""What a row of Parquet counts as, inflated: a number."""


def load(path: Path, limit: int | None, data: bytes | None = None) -> Raw:
    """Return the first `limit` rows of `path` (all: None), decompressed and taken apart by what its bytes look like.

    data: the bytes, where they were read before.
    """
    data = opened(path) if data is None else data
    if data[:4] == b"PAR1":
        return _parquet(path, data, limit)
    text = text_of(path, data)
    begin = text.lstrip()[:1]
    if not begin:
        raise TraceError(f"{path}: the file is empty; it needs a header and at least one request")
    if begin in "{[":
        return read_json(path, text, limit)
    return _csv(path, text, limit)


def text_of(path: Path, data: bytes) -> str:
    """The text of `data` with every line ending as a line feed."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TraceError(f"{path}, line {line}: not UTF-8 text; save the file as UTF-8 CSV or JSON Lines") from None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def opened(path: Path) -> bytes:
    """The bytes of a trace file, decompressed; TraceError where it cannot be read or has an unknown ending."""
    if not path.exists():
        raise TraceError(f"{path}: no such file; check the path (it is relative to the working directory)")
    if path.is_dir():
        raise TraceError(f"{path}: is a directory; name one file in it, or a folder of conversations (format weka)")
    if not path.name.lower().endswith(ENDINGS):
        known = ", ".join(ENDINGS)
        raise TraceError(f"{path}: unknown ending {path.suffix!r}; rename or convert it to one of {known}")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror}); check its permissions") from None
    return inflate(data, path)  # a trace may have been decompressed in passing without losing its ending


def _parquet(path: Path, data: bytes, limit: int | None) -> Raw:
    import polars as pl

    try:
        rows = pl.scan_parquet(io.BytesIO(data)).select(pl.len()).collect().item()  # from its footer
        most = most_bytes(len(data)) // PARQUET_ROW_BYTES
        if rows > most and (limit is None or limit > most):
            raise TraceError(
                f"{path}: its {len(data):,} bytes hold {rows:,} rows; at most {most:,} rows are read of a file of that "
                "size, so read part of it by a limit, or give it as CSV"
            )
        table = pl.read_parquet(io.BytesIO(data), n_rows=limit)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise TraceError(f"{path}: broken Parquet ({reason}); fetch or write the file again") from None
    return Raw(str(path), {normal(name): table[name] for name in reversed(table.columns)}, len(table), numbered)


def _csv(path: Path, text: str, limit: int | None) -> Raw:
    text = text.lstrip("\n")
    header = text.split("\n", 1)[0]
    separator = max(",;\t", key=header.count)
    names = Counter(map(normal, next(_records(path, text, separator))[1]))
    twice = frozenset(name for name, count in names.items() if count > 1)
    return replace(_table(path, text, separator, limit), twice=twice)


def _table(path: Path, text: str, separator: str, limit: int | None) -> Raw:
    import polars as pl

    try:
        table = pl.read_csv(text.encode(), infer_schema=False, n_rows=limit, separator=separator)
    except pl.exceptions.PolarsError:
        return _uneven(path, text, separator, limit)
    place: Callable[[int], str] = _Lines(path, separator)
    if len(table) and table.select(pl.all_horizontal(pl.all().is_null()).any()).item():
        # Only now distinguish an empty line, which does not count, from a row of empty fields, which is an error.
        records = [record for _, record in _records(path, text, separator)]
        kept = [row for row in range(len(table)) if records[row + 1]]
        table, place = table[kept], partial(moved, place, kept)
    return Raw(str(path), {normal(name): table[name] for name in reversed(table.columns)}, len(table), place)


def _uneven(path: Path, text: str, separator: str, limit: int | None) -> Raw:
    """Read a CSV whose rows differ in width, one by one; rows of a width other than the header's are broken."""
    records = _records(path, text, separator)
    _, names = next(records)
    rows: list[list[Any]] = []
    lines: list[int] = []
    broken: dict[int, str] = {}
    for line, record in records:
        if not record:
            continue
        if len(rows) == limit:
            break
        if len(record) != len(names):
            broken[len(rows)] = f"has {len(record)} fields; the header names {len(names)}"
        rows.append([None] * len(names) if len(rows) in broken else record)
        lines.append(line)
    columns: dict[str, Column] = {normal(name): [row[at] for row in rows] for at, name in reversed([*enumerate(names)])}
    return Raw(str(path), columns, len(rows), lambda row: f"line {lines[row]}", broken)


def _records(path: Path, text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Every record with the number of its last line, empty lines as empty records."""
    lines = (line[0] for line in re.finditer(r"[^\n]*\n|[^\n]+", text))  # one at a time: no copy of a large file
    reader = csv.reader(lines, delimiter=separator)
    try:
        for record in reader:
            yield reader.line_num, record
    except csv.Error as error:
        raise TraceError(f"{path}, line {reader.line_num}: not CSV ({error}); mend or drop the line") from None


@dataclass(frozen=True, slots=True)
class _Lines:
    """Finds the line of a CSV row by reading the file once more: that is needed only when a row is wrong."""

    path: Path
    separator: str

    def __call__(self, row: int) -> str:
        text = text_of(self.path, opened(self.path))
        begin = len(text) - len(text.lstrip("\n"))
        for at, (line, _) in enumerate(_records(self.path, text[begin:], self.separator)):
            if at == row + 1:
                return f"line {begin + line}"
        return f"row {row}"
