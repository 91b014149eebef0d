"""Which combinations are run in which block: a nearly orthogonal array of mixed levels.

Every cell (a block at a load) gets equally many combinations, and within it each level of a factor comes equally often.
Levels are then exchanged within cells until the levels of any two factors meet as evenly as that allows, by the
criterion of Xu, *Technometrics* 44 (2002): the squared departures of the counts of all pairs from equal ones. So a
factor's effect is free of those of blocks and loads by construction, and nearly free of those of other factors.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

from poise.experiment.tournament.factor import Combination

TRIES = 40
"""Exchanges that are tried for each run."""


def balanced(levels: Sequence[int], cells: int, each: int, seed: int) -> list[list[Combination]]:
    """`each` combinations for each of `cells`, of factors with so many `levels`."""
    chance = random.Random(seed)
    columns = [_even(count, cells, each, chance) for count in levels]
    _distinct(columns, each, chance)
    _exchange(columns, levels, each, chance)
    rows = list(zip(*columns, strict=True))
    return [rows[begin : begin + each] for begin in range(0, cells * each, each)]


def _even(levels: int, cells: int, each: int, chance: random.Random) -> list[int]:
    """A column in which a level comes equally often in every cell, give or take one, and on the whole."""
    endless = _rounds(levels, chance)
    column: list[int] = []
    for _ in range(cells):
        part = [next(endless) for _ in range(each)]
        chance.shuffle(part)
        column += part
    return column


def _rounds(levels: int, chance: random.Random) -> Iterator[int]:
    """All levels in a random order, again and again."""
    while True:
        yield from chance.sample(range(levels), levels)


def _exchange(columns: list[list[int]], levels: Sequence[int], each: int, chance: random.Random) -> None:
    """Swap levels of a factor within a cell wherever pairs with the other factors become more even, and no row comes
    twice."""
    counts = {(one, two): _pairs(columns, levels, one, two) for one, two in combinations(range(len(columns)), 2)}
    total = len(columns[0]) if columns else 0
    varied = [at for at, count in enumerate(levels) if count > 1]
    if len(varied) < 2 or each < 2:
        return
    rows = list(zip(*columns, strict=True))
    cells = [set(rows[begin : begin + each]) for begin in range(0, total, each)]
    for _ in range(TRIES * total):
        at = chance.choice(varied)
        row = chance.randrange(total)
        other = row - row % each + chance.randrange(each)
        one, two = columns[at][row], columns[at][other]
        if one == two:
            continue
        cell, before = cells[row // each], {_row(columns, row), _row(columns, other)}
        after = {_row(columns, row, at, two), _row(columns, other, at, one)}
        if len(after) == 2 and not after & (cell - before) and _try(columns, counts, at, row, other):
            cell -= before
            cell |= after


def _row(columns: list[list[int]], row: int, at: int = -1, level: int = 0) -> Combination:
    """A row, with another level of the factor `at` where that is one."""
    return tuple(level if place == at else column[row] for place, column in enumerate(columns))


def _pairs(columns: list[list[int]], levels: Sequence[int], one: int, two: int) -> list[list[int]]:
    table = [[0] * levels[two] for _ in range(levels[one])]
    for first, second in zip(columns[one], columns[two], strict=True):
        table[first][second] += 1
    return table


def _try(
    columns: list[list[int]], counts: dict[tuple[int, int], list[list[int]]], at: int, row: int, other: int
) -> bool:
    """Swap two levels of a factor, but where the sum of squared counts grows, for equal counts have the least; whether
    it was done."""
    own, its = columns[at][row], columns[at][other]
    growth = 0
    moves = []
    for beside in range(len(columns)):
        here, there = columns[beside][row], columns[beside][other]
        if beside == at or here == there:
            continue
        table = counts[min(at, beside), max(at, beside)]
        spots = [(own, here, -1), (its, here, 1), (its, there, -1), (own, there, 1)]
        for level, partner, step in spots:
            x, y = (level, partner) if at < beside else (partner, level)
            growth += 2 * step * table[x][y] + 1
            moves.append((table, x, y, step))
    if growth > 0:
        return False
    columns[at][row], columns[at][other] = its, own
    for table, x, y, step in moves:
        table[x][y] += step
    return True


def _distinct(columns: list[list[int]], each: int, chance: random.Random) -> None:
    """Swap levels of rows that a cell has twice with those of others in it; a few may stay, and count once."""
    for begin in range(0, len(columns[0]), each):
        cell = Counter(_row(columns, row) for row in range(begin, begin + each))
        for row in range(begin, begin + each):
            for _ in range(TRIES):
                if cell[_row(columns, row)] < 2:
                    break
                _part(columns, cell, row, chance.randrange(begin, begin + each), chance.randrange(len(columns)))


def _part(columns: list[list[int]], cell: Counter[Combination], row: int, other: int, at: int) -> None:
    """Swap a level of two rows of a cell where that makes two that it has not."""
    one, two = columns[at][row], columns[at][other]
    after = [_row(columns, row, at, two), _row(columns, other, at, one)]
    if one == two or after[0] == after[1] or any(cell[each] for each in after):
        return
    cell.subtract([_row(columns, row), _row(columns, other)])
    columns[at][row], columns[at][other] = two, one
    cell.update(after)


def imbalance(rows: Sequence[Combination], levels: Sequence[int]) -> float:
    """By which share the counts of pairs of levels depart from equal ones at most; 0 is orthogonal."""
    worst = 0.0
    columns = [list(column) for column in zip(*rows, strict=True)]
    for one, two in combinations(range(len(levels)), 2):
        mean = len(rows) / (levels[one] * levels[two])
        table = _pairs(columns, levels, one, two)
        worst = max(worst, *(abs(count - mean) / mean for line in table for count in line))
    return worst
