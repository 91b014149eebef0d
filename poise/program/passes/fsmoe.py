"""Chunks of the exchange, of the node's collectives and of the experts' products side by side: FSMoE.

After Pan et al., "FSMoE: A Flexible and Scalable Training System for Sparse Mixture-of-Experts Models" (ASPLOS 2025,
arXiv 2501.10714), section 4: each part of a layer takes start + whole / r for each of r chunks; sums of gradients are
put between the dispatches and the combines; r by closed forms of which part dominates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import floor, sqrt
from typing import NamedTuple

from poise.core.errors import ProgramError
from poise.program.program import Program
from poise.program.task import Task

PARTS = frozenset({"dispatch", "token_gather", "up", "down", "token_scatter", "combine"})


def chunked(program: Program, chunks: int) -> Program:
    """A layer (`poise.program.expert_layer`) in so many equal chunks of its tokens; ProgramError for fewer than 1.

    A lane of collectives has all dispatches, then all combines; a computing one the products chunk by chunk. Sums of
    gradients come between the dispatches and the combines.
    """
    if chunks < 1:
        raise ProgramError(f"chunked: {chunks} chunks; give 1 or more")
    return program.with_rows({lane: [*_chunked(_between(row), chunks)] for lane, row in program.rows.items()})


def _between(row: Sequence[Task]) -> list[Task]:
    """A lane with its sums before the first combine."""
    return sorted(row, key=lambda task: 2 if task.kind == "combine" else 1 if task.kind == "all_reduce" else 0)


def _chunked(row: Sequence[Task], chunks: int) -> Iterator[Task]:
    for _, run in groupby(row, lambda task: task.kind if task.group else task.kind in PARTS):
        tasks = list(run)
        if tasks[0].kind in PARTS:
            yield from (_chunk(task, each, chunks) for each in range(chunks) for task in tasks)
            continue
        for task in tasks:
            reads, writes = task.reads, task.writes
            if task.kind == "join":
                reads = tuple(_renamed(reads[0], each) for each in range(chunks))
            if task.kind == "split":
                writes = tuple(_renamed(writes[0], each) for each in range(chunks))
            yield task._replace(reads=reads, writes=writes)


def _chunk(task: Task, chunk: int, chunks: int) -> Task:
    names = [tuple(_renamed(name, chunk) for name in each) for each in (task.reads, task.writes)]
    return task._replace(
        reads=names[0], writes=names[1], work=task.work / chunks, arg=(task.arg[0], chunk, chunks)
    )  # fmt: skip


def _renamed(name: str, chunk: int) -> str:
    return name.replace(".0@", f".{chunk}@")


class Part(NamedTuple):
    """A part of a layer: seconds before each chunk, and of all chunks together."""

    start: float
    whole: float

    def of(self, chunks: float) -> float:
        """Seconds of one chunk."""
        return self.start + self.whole / chunks


class Layer(NamedTuple):
    """A layer with equal parts there and back. exchange: over nodes.  node: inside one.  reduction: seconds of sums."""

    exchange: Part
    node: Part
    experts: Part
    reduction: float = 0.0

    def seconds(self, chunks: float) -> float:
        """Of the layer in so many chunks: the longest of the cases, which is the makespan of `chunked`."""
        a, g, e = (part.of(chunks) for part in self[:3])
        ends = 2 * (a + g)
        one, two = ends + e + (chunks - 1) * max(a, g, e), ends + 2 * (chunks - 1) * max(a, g)
        return max(one, two, 2 * chunks * a + self.reduction)

    def best(self, most: int = 64) -> int:
        """The number of chunks with the least seconds: beside the least of a case, or where two cases meet.

        Each case is A + B·r + C/r with C ≥ 0, so that the longest of them is convex in r.
        """
        cases = list(self._cases())
        at_best = [sqrt(c / b) for _, b, c in cases if b > 0]
        for one in range(len(cases)):
            for two in range(one):
                at_best += _roots(*(left - right for left, right in zip(cases[one], cases[two], strict=True)))
        near = {min(max(floor(each) + step, 1), most) for each in (*at_best, 1, most) for step in (0, 1)}
        return min(sorted(near), key=self.seconds)

    def _cases(self) -> Iterator[tuple[float, float, float]]:
        """A, B and C of each: one of three parts is the longest in all chunks; the exchange; two on both ways."""
        a, g, e = self[:3]
        for part in (a, g, e):
            yield (2 * a.start + 2 * g.start + e.start - part.start + part.whole, part.start,
                   2 * a.whole + 2 * g.whole + e.whole - part.whole)  # fmt: skip
        yield 2 * a.whole + self.reduction, 2 * a.start, 0.0
        for part, other in ((a, g), (g, a)):
            yield 2 * other.start + 2 * part.whole, 2 * part.start, 2 * other.whole


def _roots(a: float, b: float, c: float) -> Iterator[float]:
    """Where a + b·r + c/r is 0, for r > 0."""
    if b == 0:
        roots = [-c / a] if a else []
    else:
        under = a * a - 4 * b * c
        roots = [(-a + sign * sqrt(under)) / (2 * b) for sign in (-1, 1)] if under >= 0 else []
    yield from (each for each in roots if 0 < each < 1e9)
