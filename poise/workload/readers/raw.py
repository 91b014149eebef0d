"""Files as raw columns, before any validation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    Column = pl.Series | list[Any]
else:
    Column = Any


@dataclass(slots=True)
class Raw:
    """Columns of one file under normalised names, all of `rows` rows.

    place: a row's position in the file as text ("line 17").  broken: the errors of rows that could not be taken
    apart at all; they are empty in every column. Lines with nothing in them are no rows.
    twice: names that several columns of the header have, of which the first counts.
    """

    path: str
    columns: dict[str, Column]
    rows: int
    place: Callable[[int], str]
    broken: dict[int, str] = field(default_factory=dict)
    twice: frozenset[str] = frozenset()


def numbered(row: int) -> str:
    """Return the place of a row in a file without lines."""
    return f"row {row}"


def moved(place: Callable[[int], str], kept: list[int], row: int) -> str:
    """Return the place of a row, of which `kept` are left."""
    return place(kept[row])
