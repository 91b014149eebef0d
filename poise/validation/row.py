"""The table of measurements: a row is one metric of one measured configuration."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

from poise.core.errors import TraceError

NEEDED = ("source", "engine", "model", "gpu", "isl", "osl", "concurrency_or_rate", "metric", "value")
"""Required columns; the others count as not stated where they are absent."""


SILENT = ("", "nan", "none", "null", "n/a", "na", "-")
"""What programs write into an unknown field."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measured value with its conditions as the source states them; 0 and "" where it does not.

    place: the file and line.  tensor, pipeline, expert, data: parallel degrees, of the decode side of `disagg` rows.
    prompt, output: mean tokens of a request.  load: concurrency, rate, static batch or scenario in the source's words.
    quality: A complete conditions, B some missing, C the source contradicts itself.
    """

    place: str
    source: str
    ref: str
    engine: str
    version: str
    model: str
    device: str
    devices: int
    tensor: int
    pipeline: int
    expert: int
    data: int
    precision: str
    prompt: float
    output: float
    load: str
    batch: int
    metric: str
    value: float
    unit: str
    notes: str
    disagg: bool
    quality: str


def read_rows(path: Path) -> tuple[list[Row], list[str]]:
    """The rows of a table of measurements, and a line for each row that cannot be read.

    TraceError where the file itself cannot be read or lacks a needed column.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file)
            _check_columns(path, table.fieldnames)
            return _parsed(path, list(table))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise TraceError(f"{path}: cannot be read ({why}); give a CSV table of measurements") from error


def _check_columns(path: Path, found: object) -> None:
    columns = list(found) if isinstance(found, list) else []
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        raise TraceError(f"{path}: column {missing[0]} is missing; a table of measurements has {', '.join(NEEDED)}")


def _parsed(path: Path, table: list[dict[str, str]]) -> tuple[list[Row], list[str]]:
    rows: list[Row] = []
    faults: list[str] = []
    for line, fields in enumerate(table, 2):
        place = f"{path.name}: line {line}"
        try:
            rows.append(_row(place, fields))
        except ValueError as error:
            faults.append(f"{place}: {error}")
    return rows, faults


def _row(place: str, fields: dict[str, str]) -> Row:
    value = _number(fields, "value")
    if not value > 0:
        raise ValueError(f"value is {fields['value']!r}; a measurement is a number above 0")
    return Row(
        place=place,
        source=_text(fields, "source"),
        ref=_text(fields, "ref"),
        engine=_text(fields, "engine"),
        version=_text(fields, "engine_version"),
        model=_text(fields, "model"),
        device=_text(fields, "gpu"),
        devices=_whole(fields, "n_gpus"),
        tensor=_whole(fields, "tp"),
        pipeline=_whole(fields, "pp"),
        expert=_whole(fields, "ep"),
        data=_whole(fields, "dp"),
        precision=_text(fields, "precision"),
        prompt=_number(fields, "isl"),
        output=_number(fields, "osl"),
        load=_text(fields, "concurrency_or_rate"),
        batch=_whole(fields, "max_batch"),
        metric=_text(fields, "metric"),
        value=value,
        unit=_text(fields, "unit"),
        notes=_text(fields, "notes"),
        disagg=_text(fields, "mode") == "disagg",
        quality=_text(fields, "quality") or "A",
    )


def _text(fields: dict[str, str], name: str) -> str:
    return (fields.get(name) or "").strip()


def _number(fields: dict[str, str], name: str) -> float:
    """The number under `name`, 0 where the field is empty; ValueError for anything else and for negative ones."""
    text = _text(fields, name)
    if text.lower() in SILENT:
        return 0.0
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{name} is {text!r}; a number is needed") from None
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} is {text!r}; a finite number of at least 0 is needed")
    return value


def _whole(fields: dict[str, str], name: str) -> int:
    value = _number(fields, name)
    if value != int(value):
        raise ValueError(f"{name} is {fields[name]!r}; a whole number is needed")
    return int(value)
