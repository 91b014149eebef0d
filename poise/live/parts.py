"""The files of a recording: their names, reading them as one trace, and converting them to columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from glob import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from poise.core.errors import TraceError
from poise.core.records.trace import ACTIONS, EVENTS, Trace, read_header

ENDINGS = (".jsonl", ".parquet")

GROUP_ROWS = 100_000
"""Rows of a row group."""

_NUMBERED = re.compile(r"(.+)\.(\d{4,})")


def part(path: Path, number: int) -> Path:
    """The file of part `number`: `day.jsonl`, then `day.0001.jsonl`, …"""
    return path.with_suffix(f".{number:04d}{path.suffix}") if number else path


def free(path: Path) -> Path:
    """`path`, or where a recording of that name exists already, `day-1.jsonl`, `day-2.jsonl`, …"""
    number, name = 0, path
    while any(name.with_suffix(ending).exists() for ending in ENDINGS):
        number += 1
        name = path.with_stem(f"{path.stem}-{number}")
    return name


class Recording(Trace):
    """A trace that is read from its parts on each iteration; `lines` stays empty.

    parts: the files.  torn: the rest of a last line that a crash cut off, once the lines have been read.
    """

    def __init__(self, header: dict[str, Any], parts: list[Path]) -> None:
        super().__init__(header)
        self.header, self.parts = header, parts
        self.lines = []

    @staticmethod
    def decode(text: Any) -> Any:
        """One line as plain values."""
        try:
            return _DECODER.decode(text)
        except msgspec.DecodeError as error:
            raise ValueError(str(error)) from None

    def body(self) -> Iterator[str]:
        """The lines after the headers, part by part."""
        for place in self.parts:
            lines = _lines(place)
            next(lines)
            for text in lines:
                if text.endswith("\n"):
                    yield text
                else:
                    self.torn = text


def read_recording(path: str | Path) -> Recording:
    """All parts of the recording that begins at `path`, `.jsonl` or `.parquet`; given a later part, that part alone.

    Parts at the beginning may be missing. TraceError for a file that is not a recording, for a part that is missing
    between two others and for one of another recording.
    """
    place = Path(path)
    found = [place] if place.is_file() and _header(place).get("part") else _parts(place)
    if not found:
        raise TraceError(f"{path}: no such file; give the first file that `poise serve --record` wrote")
    headers = [header for place in found if (header := _header(place))]
    if not headers:  # nothing but a torn line
        read_header("", found[0])
    for place, header in zip(found, headers, strict=False):
        if header.get("recording") != headers[0].get("recording"):
            raise TraceError(f"{place}: is a part of another recording than {found[0]}; move it away")
    return Recording(headers[0], found[: len(headers)])


def _header(path: Path) -> dict[str, Any]:
    """The header of a part; empty where a crash cut it off."""
    first = next(_lines(path), "")
    return read_header(first, path) if first.endswith("\n") else {}


def _parts(path: Path) -> list[Path]:
    """The files of a recording in order; of a part that exists twice, its columns."""
    found: dict[int, Path] = {}
    for place in (path.with_suffix(ending) for ending in ENDINGS):
        if place.is_file():
            found[0] = place
    for place in path.parent.glob(f"{escape(path.stem)}.*"):
        name = _NUMBERED.fullmatch(place.stem)
        if name and name[1] == path.stem and place.suffix in ENDINGS:
            number = int(name[2])
            found[number] = place if place.suffix == ".parquet" else found.get(number, place)
    numbers = sorted(found)
    for before, number in pairwise(numbers):
        if number != before + 1:
            lacking = part(path, before + 1)
            raise TraceError(
                f"{lacking}: this part is missing, and there are later ones; put it back, or name one part"
            )
    return [found[number] for number in numbers]


def _lines(path: Path) -> Iterator[str]:
    """The lines of a part with their ends; a line without an end was cut off."""
    if path.suffix == ".parquet":
        import polars as pl

        try:
            rows = pl.scan_parquet(path).select("line")
            count = rows.select(pl.len()).collect().item()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise TraceError(f"{path}: is not a recording ({error}); give a file of `poise serve --record`") from None
        for begin in range(0, count, GROUP_ROWS):
            for text in rows.slice(begin, GROUP_ROWS).collect()["line"]:
                yield f"{text}\n"
    else:
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            yield from file


def to_parquet(path: Path) -> Path:
    """Turn a part into columns: `kind`, `at`, `request` (null where a line has none) and the whole `line`, zstd.

    It streams through polars' own threads, and the lines are removed once the columns are there. OSError where they
    cannot be written; the lines stay then.
    """
    import polars as pl

    text = pl.col("line")
    kind = text.str.extract(r'^\["([A-Za-z]+)').fill_null("Header")
    first = text.str.extract(r'^\["[^"]+",(\d+)').cast(pl.Int64, strict=False)
    second = text.str.extract(r'^\["[^"]+",\d+,\[?(\d+)').cast(pl.Int64, strict=False)
    at, later, direct = ([name for name in _FIELDS if has(_FIELDS[name])] for has in (_at_first, _then, _at_once))
    nothing = pl.lit(None, pl.Int64)
    columns = (
        kind.alias("kind"),
        pl.when(kind.is_in(at)).then(first).otherwise(nothing).alias("at"),
        pl.when(kind.is_in(later))
        .then(second)
        .when(kind.is_in(direct))
        .then(first)
        .otherwise(nothing)
        .alias("request"),
        text,
    )
    target, fresh = path.with_suffix(".parquet"), path.with_suffix(".parquet.part")
    lines = pl.scan_csv(path, has_header=False, separator="\x01", quote_char=None, schema={"line": pl.String})
    try:
        lines.select(columns).sink_parquet(fresh, compression="zstd", row_group_size=GROUP_ROWS)
        fresh.replace(target)
    except (pl.exceptions.PolarsError, OSError) as error:
        fresh.unlink(missing_ok=True)
        raise OSError(f"{target}: {error}") from None
    path.unlink()
    return target


def _at_first(fields: tuple[str, ...]) -> bool:
    return fields[0] == "at"


def _then(fields: tuple[str, ...]) -> bool:
    return fields[0] == "at" and fields[1:2] == ("request",)


def _at_once(fields: tuple[str, ...]) -> bool:
    return fields[0] == "request"


_FIELDS: dict[str, tuple[str, ...]] = {name: kind._fields for name, kind in (EVENTS | ACTIONS).items()}
_DECODER = msgspec.json.Decoder()
