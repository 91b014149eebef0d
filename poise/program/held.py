"""What each rank holds in each tier at every instant of a timed Program."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from math import lcm
from typing import NamedTuple

from poise.program.index import Index
from poise.program.memory import Key, in_place, readers_of
from poise.program.task import rank_of

__all__ = ["Held", "Key", "held"]


class Held(NamedTuple):
    """Memory over time: `levels[k]` is held from `instants[k]` (in ticks) to the next one."""

    instants: list[int]
    levels: list[Fraction]

    @property
    def peak(self) -> tuple[Fraction, int]:
        """The most that is held for longer than an instant, and when first; before the first task at −1."""
        most = max(self.levels, default=Fraction(0))
        return most, self.instants[self.levels.index(most)] if self.levels else 0


def held(index: Index, starts: Sequence[int], ends: Sequence[int]) -> dict[Key, Held]:
    """The memory of each (rank, tier) in which there are values with a size, exactly.

    The lifetimes are those of `memory`: from the start of a value's writer to the end of its last reader, or of the
    writer where there is none; the next version of a value takes over its memory where it can; what is given is held
    from the first instant on and stays.
    """
    sized = {name: value for name, value in index.program.values.items() if value.bytes}
    unit = lcm(*(value.bytes.as_integer_ratio()[1] for value in sized.values()))
    size = {name: int(value.bytes * unit) for name, value in sized.items()}
    readers = readers_of(index, sized)
    passed = in_place(index, sized, readers)
    taken = {*passed.values()}
    changes: dict[Key, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    begin = min(starts, default=0)
    for name, value in sized.items():
        row = changes[rank_of(name), value.tier]
        writer = index.writer.get(name)
        if writer is None:
            row[begin] += size[name]
            continue
        grown = size[name] - (size[passed[name]] if name in passed else 0)
        row[starts[writer] if grown > 0 else ends[writer]] += grown
        if name not in taken:
            row[max(ends[each] for each in readers[name] or [writer])] -= size[name]
    return {key: _levels(row, unit) for key, row in changes.items()}


def _levels(changes: dict[int, int], unit: int) -> Held:
    """Levels from the changes at each instant; those that cancel out are no change."""
    instants = sorted(instant for instant, change in changes.items() if change)
    return Held(instants, [Fraction(level, unit) for level in accumulate(changes[each] for each in instants)])
