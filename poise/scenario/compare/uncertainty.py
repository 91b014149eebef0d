"""Confidence intervals of the figures of some cells: over seeds where they differ by them, else over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from poise.experiment import intervals
from poise.experiment.intervals import mean
from poise.report.blocks import Blocks
from poise.report.bootstrap import Floats, Path, Sample, Spread, average, interval, minus, settle
from poise.report.figures import ATTAINMENT, KEY, PROGRAMS, SERIES, Figure
from poise.report.intervals import TOO_SHORT, Interval
from poise.report.seeds import CONFIDENCE
from poise.report.shares import sample_size, score
from poise.scenario.compare.cell import Cell

Cells = Sequence[Cell]
"""The cells of one policy at one load, by seed."""

NO_TIME = "the requests all begin at one instant, so there is no time to cut into blocks"
SHARES = {ATTAINMENT: ("requests",), PROGRAMS[2]: ("programs", "begun")}
"""Shares of requests or programs, and where their number stands."""


def single(cells: Cells, figure: Figure, by_seeds: bool, confidence: float) -> Interval:
    """A figure with its interval."""
    if by_seeds:
        return _sure([cells], figure, intervals.single(cells, figure, confidence), True, confidence)
    values = [figure.value(cell.figures) for cell in cells]
    if blocks_of(cells) is None:
        return Interval(mean(values), None, NO_TIME)
    found = interval(mean(values), spreads(cells, _family(figure)).get(figure.path), confidence)
    return _sure([cells], figure, found, False, confidence)


def paired(base: Cells, other: Cells, figure: Figure, by_seeds: bool, confidence: float) -> Interval:
    """How much more of a figure `other` has than `base`, with the same requests."""
    found = (intervals.paired if by_seeds else _by_block)(base, other, figure, confidence)
    return _sure([base, other], figure, found, by_seeds, confidence)


def _by_block(base: Cells, other: Cells, figure: Figure, confidence: float) -> Interval:
    before, after = (mean([figure.value(cell.figures) for cell in cells]) for cells in (base, other))
    if before is None or after is None:
        return Interval(None, None, "one of them has no such figure")
    blocks = blocks_of(base)
    if blocks is None:
        return Interval(after - before, None, NO_TIME)
    family = _family(figure)

    def differences(weights: Floats) -> dict[Path, Sample]:
        one, two = (_samples(cells, family, weights) for cells in (base, other))
        return {path: minus(two[path], one[path]) for path in (figure.path,) if path in one and path in two}

    return interval(after - before, settle(differences, blocks[0].bins).get(figure.path), confidence)


def _sure(sides: Sequence[Cells], figure: Figure, found: Interval, by_seeds: bool, confidence: float) -> Interval:
    """The interval of a share, or of the difference of two, also near 0 and 1; that of another figure as it is."""
    if figure not in SHARES or found.half is None:
        return found
    shares = [share for cells in sides if (share := mean([figure.value(cell.figures) for cell in cells])) is not None]
    return score(found, shares, min(_size(cells, figure, by_seeds) for cells in sides), confidence)


def _size(cells: Cells, figure: Figure, by_seeds: bool) -> float:
    """The effective number of independent requests of a share."""
    counts, shares = [_count(cell, figure) for cell in cells], [figure.value(cell.figures) for cell in cells]
    return sample_size(counts, [cell.independent for cell in cells], shares, by_seeds)


def _count(cell: Cell, figure: Figure) -> float:
    """How many requests or programs a share is of."""
    tree: Any = cell.figures
    for name in SHARES[figure]:
        tree = tree[name]
    return float(tree)


def over_time(cells: Cells, result: Mapping[str, Any]) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """Half-widths from blocks of time in the shape of the figures in `result`, and a note on those that have none."""
    if blocks_of(cells) is None:
        return None, {"interval": NO_TIME}
    halves: dict[str, Any] = {}
    lacking = []
    found: dict[Path, Spread | None] = {}
    for family in ("", *(series[0].path[0] for series in SERIES.values())):
        found |= spreads(cells, family)
    for figure in (*KEY, *(each for series in SERIES.values() for each in series)):
        if figure.path in found and (value := figure.value(result)) is not None:
            half = _sure([cells], figure, interval(value, found[figure.path]), False, CONFIDENCE).half
            home = halves if len(figure.path) == 1 else halves.setdefault(figure.path[0], {})
            home[figure.path[-1]] = half
            lacking += [figure.label] if half is None else []
    return halves, {"interval": f"{TOO_SHORT}: {', '.join(lacking)}"} if lacking else {}


def shares_over_seeds(cells: Cells, halves: dict[str, Any] | None) -> None:
    """Put the intervals of shares in the place of the t-intervals in `halves`, which has the shape of the figures."""
    for figure in SHARES:
        home = halves if len(figure.path) == 1 or halves is None else halves.get(figure.path[0])
        if home and home.get(figure.path[-1]) is not None:
            home[figure.path[-1]] = single(cells, figure, True, CONFIDENCE).half


def blocks_of(cells: Cells) -> list[Blocks] | None:
    """The runs cut into the same bins; None where they were not."""
    found = [cell.blocks() for cell in cells]
    known = [blocks for blocks in found if blocks is not None]
    return known if known and len(known) == len(found) and len({each.bins for each in known}) == 1 else None


def spreads(cells: Cells, family: str) -> dict[Path, Spread | None]:
    """Resampled figures of a family over time (see `Blocks.resample`)."""
    blocks = blocks_of(cells)
    return settle(partial(_samples, cells, family), blocks[0].bins) if blocks is not None else {}


def _samples(cells: Cells, family: str, weights: Floats) -> dict[Path, Sample]:
    """Figures under resamples of time, the same for all seeds: the mean over these."""
    runs = [blocks.resample(family, cell.figures, weights) for cell in cells if (blocks := cell.blocks()) is not None]
    common = [path for path in runs[0] if all(path in run for run in runs)]
    return {path: average([run[path] for run in runs]) for path in common}


def _family(figure: Figure) -> str:
    """The family's name in `Blocks.resample`."""
    return figure.path[0] if any(figure in series for series in SERIES.values()) else ""
