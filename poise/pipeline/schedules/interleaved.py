"""Interleaved 1F1B (Megatron-LM: Narayanan et al., SC 2021, section 2.2): several chunks on each rank."""

from __future__ import annotations

from collections.abc import Iterator

from poise.core.errors import ScheduleError
from poise.pipeline.op import B, F, Op
from poise.pipeline.schedule import Schedule


def interleaved(stages: int, microbatches: int, chunks: int = 2, group: int | None = None) -> Schedule:
    """Rank r has chunks r, p + r, 2p + r, …; microbatches go through them in groups of `group`.

    Bubble (p − 1)(T_F + T_B + T_W) / v and peak on rank 0 min(m, (2(p − 1) + (v − 1) group + 1) / v), where groups
    are full or the last one has at least p. The paper's group is p, which needs m to be a multiple of p; the default is
    the least one that keeps the bubble (as Megatron-LM accepts them), or m where m < p.
    """
    size = group or group_of(stages, microbatches)
    if not 1 <= size <= microbatches:
        raise ScheduleError(f"group {size}: must be from 1 to the {microbatches} microbatches")
    table = list(slots(microbatches, chunks, size))

    def rank(place: int) -> Iterator[Op]:
        ahead = min(len(table), 2 * (stages - place - 1) + (chunks - 1) * size)
        forward = [F(chunk * stages + place, batch) for chunk, batch in table]
        backward = [B((chunks - 1 - chunk) * stages + place, batch) for chunk, batch in table]
        yield from forward[:ahead]
        for one, other in zip(forward[ahead:], backward, strict=False):
            yield one
            yield other
        yield from backward[len(table) - ahead :]

    return Schedule.of((rank(place) for place in range(stages)), "interleaved")


def group_of(stages: int, microbatches: int) -> int:
    """The least group of at least p microbatches that leaves a last group of none or of at least p."""
    for size in range(stages, microbatches):
        if microbatches % size == 0 or microbatches % size >= stages:
            return size
    return microbatches


def slots(microbatches: int, chunks: int, group: int) -> Iterator[tuple[int, int]]:
    """(chunk, microbatch) in the order of the forwards: for each group, for each chunk, its microbatches."""
    for begin in range(0, microbatches, group):
        for chunk in range(chunks):
            for batch in range(begin, min(begin + group, microbatches)):
                yield chunk, batch
