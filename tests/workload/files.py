"""Write traces in every form that `read` takes."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def as_csv(rows: list[Row], separator: str = ",") -> bytes:
    out = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(out, names, delimiter=separator, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return out.getvalue().encode()


def _cell(value: Any) -> Any:
    return "" if value is None else json.dumps(value) if isinstance(value, list) else value


def as_jsonl(rows: list[Row]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def as_parquet(rows: list[Row]) -> bytes:
    import polars as pl

    out = io.BytesIO()
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(out)
    return out.getvalue()


FORMS = {
    "trace.csv": as_csv,
    "trace.csv.gz": lambda rows: gzip.compress(as_csv(rows)),
    "trace.tsv": lambda rows: as_csv(rows, "\t"),
    "semicolons.csv": lambda rows: as_csv(rows, ";"),
    "trace.jsonl": as_jsonl,
    "trace.jsonl.gz": lambda rows: gzip.compress(as_jsonl(rows)),
    "trace.json": lambda rows: json.dumps(rows).encode(),
    "trace.parquet": as_parquet,
}


def write(folder: Path, name: str, rows: list[Row]) -> Path:
    """Write `rows` as the form of `FORMS` called `name`."""
    return put(folder, name, FORMS[name](rows))


def put(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
