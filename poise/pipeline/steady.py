"""A long schedule from a short one: where all ranks repeat themselves, they repeat themselves more often."""

from __future__ import annotations

import numpy as np

from poise.pipeline.candidate import Candidate
from poise.pipeline.constraint_graph import ConstraintGraph, Rows
from poise.pipeline.graph import Ints

PERIODS = (1, 2, 3, 4, 6)
"""How many microbatches a repeated part may have."""

_COMMON = 12


def short(ranks: int, microbatches: int) -> int:
    """How many microbatches show warm-up, steady state and drain; the rest is a multiple of every period."""
    least = max(2 * ranks + 8, 24)
    return microbatches if microbatches <= least + _COMMON else least + (microbatches - least) % _COMMON


def lengthen(line: Candidate, net: ConstraintGraph) -> Candidate | None:
    """The line on a net with more microbatches, or None where no instant is found at which all ranks repeat themselves.

    At an instant between two entries of microbatches each rank has before it a part of its order in which each stage
    has each kind of operation equally often, and which comes again behind it: that part is put in once more for each
    period that is missing. Microbatches are then numbered in order. The result is proven to run within the room.
    """
    count, starts = line.net.count, np.array(line.times[0], dtype=object)
    rows = [(row // count, starts[row]) for row in line.rows.ranks]
    entries = starts[:count]
    for cut in range(count - 1, count // 3, -1):
        for period in PERIODS:
            times, rest = divmod(net.count - count, period)
            longer = [] if rest else _all_repeated(rows, entries[cut], period, times)
            found = _line(line, longer, net) if longer else None
            if found is not None:
                return found
    return None


def _all_repeated(rows: list[tuple[Ints, Ints]], cut: int, period: int, times: int) -> list[Ints]:
    """The letters of all ranks, or none where one of them does not repeat itself."""
    found = []
    for letters, begun in rows:
        longer = _repeated(letters, begun, cut, period, times)
        if longer is None:
            return []
        found.append(longer)
    return found


def _repeated(letters: Ints, begun: Ints, cut: int, period: int, times: int) -> Ints | None:
    """The letters of a rank with those behind the cut repeated, if they make a period."""
    at = int(np.searchsorted(begun, cut))
    kinds = len(np.unique(letters))
    part = letters[at : at + kinds * period]
    again = letters[at + len(part) : at + 2 * len(part)]
    if not np.array_equal(part, again) and not np.array_equal(part, letters[max(0, at - len(part)) : at]):
        return None
    if len(part) < kinds * period or (np.unique(part, return_counts=True)[1] != period).any():
        return None
    return np.concatenate([letters[:at], np.tile(part, times), letters[at:]])


def _line(line: Candidate, rows: list[Ints], net: ConstraintGraph) -> Candidate | None:
    """The line of these letters (kind · stages + stage), if it runs and fits."""
    ranks = []
    for letters in rows:
        order = np.argsort(letters, kind="stable")
        batch = np.empty(len(letters), dtype=np.int64)
        batch[order] = np.arange(len(letters)) % net.count
        ranks.append(letters * net.count + batch)
    found = Candidate(net, Rows(line.name, tuple(ranks)), line.by)
    return found if found.fits and found.runs else None
