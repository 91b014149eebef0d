"""Results as tables: formatted in a terminal, plain aligned text everywhere else."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from poise.report.figures import (
    AGENTS,
    ATTAINMENT,
    COST,
    E2E,
    ENDS,
    ENERGY,
    GOODPUT,
    HITS,
    KEY,
    PROGRAM,
    SERIES,
    TPOT,
    TTFT,
    Case,
    Figure,
)
from poise.report.verdict import Verdict
from poise.report.wording import MISSING, write

Rows = Sequence[Sequence[str]]

_AT_ONE_LOAD = (
    ATTAINMENT,
    GOODPUT,
    TTFT[1],
    TTFT[4],
    TPOT[1],
    TPOT[4],
    E2E[1],
    PROGRAM[0],
    PROGRAM[4],
    HITS,
    *AGENTS[2:3],
    AGENTS[6],
    *AGENTS[8:],
    COST,
    ENERGY,
)
"""The columns of a comparison at one load, in reading order."""

_FRAME = 3
"""Characters that a drawn table puts around each cell: a space on both sides and a divider."""

_GAP = 2
"""Spaces between the columns of plain text."""

WIDTH = 120
"""Characters of a line of plain text; a table that is wider is split, and only a single column may exceed it."""


def _plain(title: str, headers: Sequence[str], rows: Rows, keys: int) -> str:
    """Columns aligned with spaces: the first to the left, the others to the right, in as many tables as are needed."""
    pages = _even(headers, rows, WIDTH + _GAP + 1, keys)
    tables = [_aligned([[line[at] for at in page] for line in (headers, *rows)]) for page in pages]
    return f"{title}\n" + "\n".join(tables) + "\n"


def _even(headers: Sequence[str], rows: Rows, width: int, keys: int) -> list[list[int]]:
    """As few groups as `width` allows, as wide as one another: no column is left alone without need."""
    pages = _pages(headers, rows, width, keys, _GAP)
    for less in range(width - 1, 0, -1):
        if len(tried := _pages(headers, rows, less, keys, _GAP)) > len(pages):
            break
        pages = tried
    return pages


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells as text; no line is broken or cut."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join(_line(line, widths) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    aligned = [
        cell.rjust(width) if at else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"{(' ' * _GAP).join(aligned).rstrip()}\n"


def _pages(headers: Sequence[str], rows: Rows, width: int, keys: int, frame: int) -> list[list[int]]:
    """Columns in groups that fit `width` characters, each led by the first `keys` columns; `frame`: around each."""
    sizes = [max(len(line[column]) for line in (headers, *rows)) + frame for column in range(len(headers))]
    pages = [list(range(keys))]
    for column in range(keys, len(headers)):
        if len(pages[-1]) > keys and sum(sizes[at] for at in pages[-1]) + sizes[column] >= width:
            pages.append(list(range(keys)))
        pages[-1].append(column)
    return pages


def _rich(title: str, headers: Sequence[str], rows: Rows, keys: int, file: TextIO) -> None:
    """Drawn tables, as many as the width of the terminal requires."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=file)
    for page in _pages(headers, rows, console.width, keys, _FRAME):
        table = Table(title=Text(title), title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1))
        for at in page:
            table.add_column(Text(headers[at]), justify="right" if at else "left", no_wrap=True)
        for row in rows:
            table.add_row(*(Text(row[at]) for at in page))
        console.print(table)


def show(title: str, headers: Sequence[str], rows: Rows, file: TextIO | None = None, *, keys: int = 1) -> None:
    """Print a table to `file` (default: standard output), drawn on a terminal and plain otherwise.

    The first `keys` columns are repeated where a terminal, or plain text of `WIDTH` characters, is too narrow for all.
    """
    out = file or sys.stdout
    if out.isatty():
        _rich(title, headers, rows, keys, out)
    else:
        out.write(_plain(title, headers, rows, keys))


def _with_margins(figures: Sequence[Any], result: Mapping[str, Any]) -> list[str]:
    return [" ".join(filter(None, (figure.text(result), figure.margin(result)))) for figure in figures]


def _notes(result: Mapping[str, Any], out: TextIO) -> None:
    for name, why in result.get("notes", {}).items():
        out.write(f"{name}: {why}\n")


def show_run(result: Mapping[str, Any], *, title: str = "Result", file: TextIO | None = None) -> None:
    """Print the key figures of one result (of `metrics.combine`): single numbers, latencies, then notes.

    Half-widths of 95 % intervals follow a ± where seeds give them.
    """
    out = file or sys.stdout
    numbers = [(figure.label, figure.text(result), figure.margin(result)) for figure in KEY]
    show(title, ("", "value", ""), [row for row in numbers if row[1] != MISSING], out)
    latencies = [(label, *_with_margins(figures, result)) for label, figures in SERIES.items()]
    if PROGRAM[0].path[0] not in result:
        latencies.pop()
    show("Latency of finished requests", ("", "mean", "p50", "p90", "p95", "p99"), latencies, out)
    _notes(result, out)


def show_load(
    cases: Sequence[Case], verdict: Verdict, *, title: str = "Comparison", file: TextIO | None = None
) -> None:
    """Print one row for each case of one load, then the verdict and the notes that all share.

    The deciding figure comes first, with each case's difference to the best one. ± is half of a 95 % interval; ± ?
    means that the run is too short for one. Counts of ends other than finished have a column where any case has some.
    """
    out, by = file or sys.stdout, verdict.by
    rest = [figure for figure in (*_AT_ONE_LOAD, *ENDS[1:]) if figure != by]
    rest = [figure for figure in rest if any(figure.value(case.result) for case in cases)]
    rows = [
        (case.policy, _with_doubt(by, case.result), away(case.policy, verdict), *_others(rest, case.result))
        for case in cases
    ]
    show(title, ("policy", by.label, "to the best", *(figure.label for figure in rest)), rows, out)
    if text := str(verdict):
        out.write(text + "\n")
    notes = [dict(case.result.get("notes", {})) for case in cases]
    shared = {name: why for name, why in (notes[0] if notes else {}).items() if all(n.get(name) == why for n in notes)}
    _notes({"notes": shared}, out)


def _others(figures: Sequence[Figure], result: Mapping[str, Any]) -> list[str]:
    return [figure.text(result) if figure in ENDS else _with_doubt(figure, result) for figure in figures]


def _with_doubt(figure: Figure, result: Mapping[str, Any]) -> str:
    if figure.value(result) is None:
        return MISSING
    return f"{figure.text(result)} {figure.margin(result) or '± ?'}"


def away(name: str, verdict: Verdict) -> str:
    """The difference of a case to the best one, in words."""
    if name not in verdict.differences:
        return "best" if name == verdict.best else MISSING
    gap, kind = verdict.differences[name], verdict.by.kind
    if gap.value is None:
        return MISSING
    sign = "+" if gap.value > 0 else "−" if gap.value < 0 else ""
    half = "?" if gap.half is None else write(gap.half, kind, 2)
    return f"{sign}{write(abs(gap.value), kind, 3)} ± {half}"
