"""Figures as tidy rows, one value a row, for tables and plots made elsewhere: figures.csv and figures.parquet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from poise.report.figures import KEY, SERIES, Case, Figure
from poise.report.files import replacing

if TYPE_CHECKING:
    from polars import DataFrame

NAME = "figures"
"""The files' name, without their ending."""

_UNITS = {
    "seconds": "s", "share": "1", "dollars": "USD/Mtok", "offered_rps": "req/s", "goodput_rps": "req/s",
    "requests_per_s": "req/s", "output_tokens_per_s": "tok/s", "total_tokens_per_s": "tok/s",
    "energy_j_per_mtok": "J/Mtok", "energy_j_per_mtok_output": "J/Mtok", "replica_hours": "h",
}  # fmt: skip
"""Units by the name of a figure, else by its kind; counts have none."""


class Row(NamedTuple):
    """One value. case: a policy, a fleet or a layout.  load: a factor on the traffic, rate: its requests per second.

    seed: None for the mean over seeds.  low, high: the ends of the 95 % interval, None where there is none.
    """

    case: str
    load: float | None
    rate: float | None
    seed: int | None
    metric: str
    unit: str
    value: float
    low: float | None = None
    high: float | None = None


def unit(figure: Figure) -> str:
    """The unit of a figure's values: s, req/s, 1 for a share; empty for counts."""
    return _UNITS.get(figure.name) or _UNITS.get(figure.kind, "")


def between(value: float, half: float | None, *, share: bool = False) -> tuple[float | None, float | None]:
    """The ends of an interval, None where there is none; those of a share stay between 0 and 1."""
    if half is None:
        return None, None
    low, high = value - half, value + half
    return (max(low, 0.0), min(high, 1.0)) if share else (low, high)


def rows(cases: Iterable[Case]) -> Iterator[Row]:
    """Every figure of every case: the mean with its interval, then the value of each seed."""
    for case in cases:
        for figure in (*KEY, *(each for series in SERIES.values() for each in series)):
            if (value := figure.value(case.result)) is None:
                continue
            ends = between(float(value), figure.half_width(case.result), share=figure.kind == "share")
            head = (case.policy, case.load, case.rate)
            yield Row(*head, None, figure.name, unit(figure), float(value), *ends)
            for seed in case.result.get("per_seed", ()):
                if (one := figure.value(seed)) is not None:
                    yield Row(*head, int(seed["seed"]), figure.name, unit(figure), float(one))


def frame(found: Iterable[Row]) -> DataFrame:
    """The rows as a polars frame."""
    import polars as pl

    text, number = pl.String, pl.Float64
    schema: dict[str, Any] = dict.fromkeys(Row._fields, number)
    schema |= {"case": text, "metric": text, "unit": text, "seed": pl.Int64}
    return pl.DataFrame(list(found), schema=schema, orient="row")


def write_figures(found: Iterable[Row], page: str, folder: Path) -> list[Path]:
    """Write figures.csv, figures.parquet and the drawings of a page as figures/*.svg; returns their paths."""
    from poise.report.svg import write_drawings

    table = frame(found)
    files = [folder / f"{NAME}.csv", folder / f"{NAME}.parquet"]
    with replacing(files[0]) as text, replacing(files[1]) as packed:
        table.write_csv(text)
        table.write_parquet(packed)
    return files + write_drawings(page, folder)


def in_short(files: Sequence[Path], folder: Path) -> list[str]:
    """Names of written files in short: those below `figures` as one."""
    plain = [file.name for file in files if file.parent == folder]
    drawn = len(files) - len(plain)
    return plain + ([f"figures/ ({drawn} drawings)"] if drawn else [])
