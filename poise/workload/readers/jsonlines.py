"""JSON Lines (one object a line) and JSON (one list of objects) as raw columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from poise.core.errors import TraceError
from poise.workload.readers.format import normal
from poise.workload.readers.raw import Column, Raw, numbered


def read_json(path: Path, text: str, limit: int | None) -> Raw:
    """Return the first `limit` objects of `text`; lines that are no JSON object are broken rows."""
    if text.lstrip()[:1] == "[":
        return _array(path, text, limit)
    decode = msgspec.json.Decoder().decode
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    broken: dict[int, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line or line.isspace():
            continue
        if len(rows) == limit:
            break
        try:
            row = decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            row, broken[len(rows)] = {}, f"broken JSON ({error})"
        if not isinstance(row, dict):
            row, broken[len(rows)] = {}, f"is {_kind(row)}; each line must be an object"
        rows.append(row)
        lines.append(number)
    return Raw(str(path), _columns(rows), len(rows), lambda row: f"line {lines[row]}", broken)


def _array(path: Path, text: str, limit: int | None) -> Raw:
    try:
        items = msgspec.json.decode(text)[:limit]
    except (msgspec.DecodeError, RecursionError) as error:
        raise TraceError(f"{path}: broken JSON ({error}); mend it, or write one object a line") from None
    odd = {at: item for at, item in enumerate(items) if not isinstance(item, dict)}
    broken = {at: f"is {_kind(item)}; each must be an object" for at, item in odd.items()}
    rows = [{} if at in odd else item for at, item in enumerate(items)]
    return Raw(str(path), _columns(rows), len(rows), numbered, broken)


DEEP = 4
"""Levels of nested objects whose values are columns."""


def _columns(rows: list[dict[str, Any]]) -> dict[str, Column]:
    """A column for each key, and for each key of an object inside by its path, as usage.prompt_tokens."""
    rows = [_flat(row) if any(type(value) is dict for value in row.values()) else row for row in rows]
    # Sorted, so that two keys that differ only in case are resolved the same way in every run.
    keys = sorted(set().union(*rows))
    return {normal(key): [row.get(key) for row in rows] for key in keys}


def _flat(row: dict[str, Any], before: str = "", depth: int = DEEP) -> dict[str, Any]:
    flat = {}
    for key, value in row.items():
        flat[before + key] = value
        if type(value) is dict and depth > 1:
            flat |= _flat(value, f"{before}{key}.", depth - 1)
    return flat


def _kind(value: object) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
