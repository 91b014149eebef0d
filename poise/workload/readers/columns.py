"""Raw columns as arrays of numbers, codes or lists; what cannot be read becomes NaN or a mark, never an error."""

from __future__ import annotations

import re
from itertools import chain
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from poise.workload.readers.raw import Column

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

DATES = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%+")
"""Forms of a stamp with date and time; the last one has an offset from UTC."""


def numbers(column: Column) -> Floats:
    """Return `column` as floats; NaN where a value is missing or not a number."""
    if isinstance(column, list):
        if set(map(type, column)) <= {int, float}:
            return np.array(column, dtype=np.float64)
        return np.fromiter(map(_number, column), np.float64, len(column))
    import polars as pl

    if column.dtype == pl.String:
        column = column.str.strip_chars()
    elif not column.dtype.is_numeric():
        return np.full(len(column), np.nan)
    return np.array(column.cast(pl.Float64, strict=False).to_numpy(), dtype=np.float64)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return float("nan")
    try:
        return float(value)
    except (ValueError, OverflowError):
        return float("nan")


def missing(column: Column) -> Mask:
    """Return where `column` has nothing: null, or a text of blanks."""
    if isinstance(column, list):
        return np.fromiter((each is None or (isinstance(each, str) and not each.strip()) for each in column), bool)
    import polars as pl

    empty = column.is_null()
    if column.dtype == pl.String:
        empty = empty | (column.str.strip_chars() == "").fill_null(True)
    elif column.dtype.is_float():
        empty = empty | column.is_nan().fill_null(True)
    return np.array(empty.to_numpy(), dtype=bool)


def stamps(column: Column, unit: float) -> tuple[Floats, str]:
    """Return seconds (NaN where unreadable), and for dates the first of them in words, from which they count."""
    plain = numbers(column)
    if not np.isnan(plain).all() or missing(column).all():
        return plain * unit, ""
    import polars as pl

    texts = [each if isinstance(each, str) else None for each in column] if isinstance(column, list) else None
    series = cast(pl.Series, column) if texts is None else pl.Series(texts, dtype=pl.String)
    if isinstance(series.dtype, pl.Datetime):
        dates = series.dt.cast_time_unit("ns")
    elif series.dtype == pl.String:
        series = series.str.strip_chars()
        readings = [series.str.to_datetime(form, time_unit="ns", strict=False) for form in DATES]
        dates = min(readings, key=pl.Series.null_count)
    else:
        return plain, ""
    whole = dates.to_physical()
    first = str(dates.min() or "none").split(".")[0].split("+")[0]
    # Whole nanoseconds less the first stamp keep what a float of seconds since 1970 would lose.
    return np.array((whole - cast(int, whole.min() or 0)).cast(pl.Float64).to_numpy()) * 1e-9, first


def codes(column: Column) -> tuple[NDArray[np.int64], list[str]]:
    """Return for each row the number of its name, counted in order of appearance, and the names; -1 where missing."""
    values, index = _distinct(column)
    known: dict[str, int] = {}
    numbered = np.full(len(values), -1, dtype=np.int64)
    for at in np.flatnonzero(~missing(values)).tolist():
        name = str(values[at]).strip()
        if name != "-1":
            numbered[at] = known.setdefault(name, len(known))
    return numbered[index], list(known)


def _distinct(column: Column) -> tuple[list[Any], NDArray[np.int64]]:
    """The different values of a column in order of appearance, and for each row the number of its value."""
    if isinstance(column, list) or column.dtype.is_nested():
        # As texts: values of two types may be equal (1 and true) and still have names of their own.
        texts = [None if each is None else str(each) for each in column]
        place = {text: at for at, text in enumerate(dict.fromkeys(texts))}
        return list(place), np.fromiter(map(place.__getitem__, texts), np.int64, len(texts))
    import polars as pl

    values = column.unique(maintain_order=True)
    numbered = column.replace_strict(values, pl.Series(range(len(values))), return_dtype=pl.Int64)
    return values.to_list(), np.array(numbered.to_numpy(), dtype=np.int64)


def lists(column: Column) -> tuple[NDArray[np.int64], list[Any], Mask]:
    """Return (items of each row, all items flat, rows that hold no list of ids).

    A row holds a list, one value, nothing, or a text such as `[1, 2]`, `1 2` or `1;2`. Ids are whole numbers or
    texts.
    """
    rows = [_items(value) for value in (column if isinstance(column, list) else column.to_list())]
    bad = np.zeros(len(rows), dtype=bool)
    if not set(map(type, chain.from_iterable(row for row in rows if row is not None))) <= {int} or None in rows:
        for at, row in enumerate(rows):
            if row is None or not set(map(type, row)) <= {int, str}:
                rows[at], bad[at] = [], True
    sizes = np.fromiter((len(row) for row in rows if row is not None), np.int64, len(rows))
    return sizes, list(chain.from_iterable(row for row in rows if row is not None)), bad


def _items(value: Any) -> list[Any] | None:
    if value is None or isinstance(value, list):
        return value or []
    if isinstance(value, str):
        parts = re.split(r"[\s,;|]+", value.strip(" []"))
        return [int(part) if part.isdecimal() else part.strip("'\"") for part in parts if part]
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return [] if value != value else None
    return [int(value)] if value == int(value) else None
