"""Sums of gradients in slices, each of which fits where its link is idle: FSMoE's gradient partition, first step.

After Pan et al., "FSMoE" (ASPLOS 2025, arXiv 2501.10714), section 5. The second step, an evolutionary search for what
fits nowhere, is left out: where slices are free of start-up costs, nothing that fits nowhere is hidden by moving it.
"""

from __future__ import annotations

from collections.abc import Sequence

from poise.core.errors import ProgramError
from poise.program.program import Builder, Program
from poise.program.task import Lane, Task, at, base, version

OPTIMIZER = "optimizer"
"""The lane of slicing, of putting together, and of updates."""


def sliced(program: Program, parts: Sequence[float]) -> Program:
    """Each `all_reduce` of one value in slices, with these parts of its work; ProgramError unless they are 1 together.

    The slices follow each other on the lane of the sum; a pass that moves them later keeps their order.
    """
    if not parts or min(parts) < 0 or abs(sum(parts) - 1) > 1e-9:
        raise ProgramError(f"sliced: parts {list(parts)}; give parts of 0 or more that are 1 together")
    into = Builder.of(program)
    for row in list(into.rows.values()):
        row[:] = [each for task in row for each in _slices(into, task, parts)]
    return into.build()


def _slices(into: Builder, task: Task, parts: Sequence[float]) -> list[Task]:
    if task.kind != "all_reduce" or len(task.reads) != 1:
        return [task]
    rank, read, write = task.rank, task.reads[0], task.writes[0]
    pieces = [at(f"{base(read).partition('#')[0]}.{number}", rank) for number in range(len(parts))]
    sums = [at(f"{base(each)}#{version(write)}", rank) for each in pieces]
    row = into.rows[Lane(rank, OPTIMIZER)]
    row[:0] = [
        Task("slice", rank, OPTIMIZER, (read,), tuple(pieces)),
        Task("unslice", rank, OPTIMIZER, tuple(sums), (write,)),
    ]
    return [
        task._replace(reads=(piece,), writes=(total,), work=task.work * part, arg=(task.arg, number))
        for number, (piece, total, part) in enumerate(zip(pieces, sums, parts, strict=True))
    ]


def filled(seconds: float, windows: Sequence[float]) -> list[float]:
    """Seconds of a sum put into each window in turn, as much as it holds; the last entry is what is left over."""
    found = []
    for window in windows:
        found.append(min(max(window, 0.0), seconds))
        seconds -= found[-1]
    return [*found, seconds]
