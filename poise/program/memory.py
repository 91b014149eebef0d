"""The most memory that each rank can hold in each tier, whatever the durations of tasks.

A value takes its memory when its writer starts and gives it back when its last reader ends, or at once if
there is none. A task that is the last to read a version of a value and writes the next one does so in place. What is
given stays.
On the lane `compute` the order says which values are held together. A task on another lane may run at any time between
the last computation that it waits for and the first that waits for it; its values are counted for all of that time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from poise.core.errors import ProgramError
from poise.program.bounds import NEVER, Bounds
from poise.program.index import Index
from poise.program.program import Program
from poise.program.task import Value, rank_of, stem

BEFORE = -1


class Peak(NamedTuple):
    """The most memory, and the task during which it is held (−1: before all)."""

    bytes: float
    task: int


Key = tuple[int, str]
"""A rank and a tier."""


def peaks(index: Index, order: Sequence[int]) -> dict[Key, Peak]:
    """The peak of each (rank, tier) in which there are values with a size."""
    sized = {name: value for name, value in index.program.values.items() if value.bytes}
    if not sized:
        return {}
    readers = readers_of(index, sized)
    bounds = Bounds(index, order, [*(index.writer[name] for name in sized if name in index.writer), *_all(readers)])
    passed = in_place(index, sized, readers)
    taken = {old: new for new, old in passed.items()}
    changes: dict[Key, list[tuple[int, float]]] = defaultdict(list)
    for name, value in sized.items():
        writer = index.writer.get(name)
        row = changes[rank_of(name), value.tier]
        begin = BEFORE if writer is None else bounds.begin(writer)
        grown = value.bytes - (sized[passed[name]].bytes if name in passed else 0.0)
        row.append((begin if grown > 0 or writer is None else bounds.end(writer), grown))
        if writer is not None and name not in taken:
            last = max((bounds.end(each) for each in readers[name] or [writer]), default=NEVER)
            row.append((last, -value.bytes))
    return {key: _highest(bounds, key[0], each) for key, each in changes.items()}


def readers_of(index: Index, names: Container[str]) -> dict[str, list[int]]:
    """For each of these values the tasks that read it, ascending."""
    found: dict[str, list[int]] = defaultdict(list)
    for number, task in enumerate(index.tasks):
        for name in task.reads:
            if name in names:
                found[name].append(number)
    return found


def _all(readers: Mapping[str, list[int]]) -> list[int]:
    return [each for row in readers.values() for each in row]


def in_place(index: Index, sized: Mapping[str, Value], readers: Mapping[str, list[int]]) -> dict[str, str]:
    """For each version of a value that takes over the memory of another, that other."""
    found = {}
    for name in sized:
        writer = index.writer.get(name)
        if writer is not None and "#" in name:
            own, tier = stem(name), sized[name].tier
            for read in index.tasks[writer].reads:
                if (
                    read in sized
                    and stem(read) == own
                    and sized[read].tier == tier
                    and _last(index, readers[read], writer)
                ):
                    found[name] = read
    return found


def _last(index: Index, readers: list[int], writer: int) -> bool:
    """Whether all other readers come before `writer` on its lane."""
    return all(each <= writer and index.lane[each] == index.lane[writer] for each in readers)


def _highest(bounds: Bounds, rank: int, changes: list[tuple[int, float]]) -> Peak:
    level, most, when = 0.0, 0.0, BEFORE
    for instant, change in sorted(changes):  # at one instant what is given back comes first
        level += change
        if level > most:
            most, when = level, instant
    return Peak(most, bounds.task(rank, when))


def within(program: Program, found: Mapping[Key, Peak], limits: Mapping[str, float]) -> None:
    """ProgramError with the first rank that can hold more than `limits` allow."""
    for (rank, tier), peak in sorted(found.items()):
        limit = limits.get(tier)
        if limit is not None and peak.bytes > limit:
            place = "before the first task" if peak.task < 0 else f"during {program.index.place(peak.task)}"
            raise ProgramError(
                f"rank {rank} holds {peak.bytes:g} on tier {tier} {place}, of {limit:g}; raise the limit to that, "
                "recompute or offload some of it, or choose a schedule that holds less"
            )
