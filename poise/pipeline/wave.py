"""The uniform repetition of GIS-H's block (Wan et al., "PipeOffload", ICML 2025, section 4), for PO-H and PO-F.

A microbatch passes down through all chunks without a stop and up again; the next one follows three slots per chunk
later. Of every three slots of a rank one is for forwards, one for input and one for weight gradients, so that waves
that go down by one slot a rank and up by two never meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from poise.core.errors import ScheduleError
from poise.pipeline.op import F, I, Op, W
from poise.pipeline.schedule import Schedule

_PERIOD = 3


def wave(stages: int, microbatches: int, chunks: int, name: str) -> Schedule:
    """Rank r has chunks r, p + r, …; peak about (v + 1) p / 2 chunks, of which chunk c takes (v − c) p / v."""
    if chunks < 2:
        raise ScheduleError(f"{name}: {chunks} chunks; it copies the longer lived of them, so give 2 or more")
    down = _starts(0, stages, 0, chunks)
    up = _starts(down[-1] + stages, 2 * stages - 1, stages % _PERIOD, chunks)[::-1]
    return Schedule.of((_rank(rank, stages, microbatches, down, up) for rank in range(stages)), name)


def _starts(first: int, gap: int, residue: int, chunks: int) -> list[int]:
    """When the waves of one microbatch start: `gap` apart at least, each in a period that no other chunk has."""
    found: list[int] = []
    taken: set[int] = set()
    for _ in range(chunks):
        while first % _PERIOD != residue or first // _PERIOD % chunks in taken:
            first += 1
        taken.add(first // _PERIOD % chunks)
        found.append(first)
        first += gap
    return found


def _rank(rank: int, stages: int, microbatches: int, down: list[int], up: list[int]) -> Iterator[Op]:
    """All operations of a rank, in the order of their slots."""
    found: list[tuple[int, int, int, Callable[[int, int], Op]]] = []
    for chunk, (one, two) in enumerate(zip(down, up, strict=True)):
        stage, back = chunk * stages + rank, two + 2 * (stages - 1 - rank)
        for batch in range(microbatches):
            shift = _PERIOD * len(down) * batch
            found.append((shift + one + rank, stage, batch, F))
            found.append((shift + back, stage, batch, I))
            found.append((shift + back + 1, stage, batch, W))
    yield from (make(stage, batch) for _, stage, batch, make in sorted(found))
