"""Breadth-first pipeline parallelism (Lamy-Poirier, MLSys 2023): a chunk runs all microbatches before the next."""

from __future__ import annotations

from collections.abc import Iterator

from poise.pipeline.op import B, F, Op
from poise.pipeline.schedule import Schedule


def breadth_first(stages: int, microbatches: int, chunks: int = 2) -> Schedule:
    """Bubble (p − 1)(T_F + T_B + T_W) / v for every m ≥ p; peak m on every rank.

    With sharded weights each chunk is gathered twice per step, whatever the number of microbatches, and the last one
    once, as it turns round: 2 − 1 / v full stages on every rank (`gathers.py`).
    """

    def rank(place: int) -> Iterator[Op]:
        for chunk in range(chunks):
            yield from (F(chunk * stages + place, batch) for batch in range(microbatches))
        for chunk in reversed(range(chunks)):
            yield from (B(chunk * stages + place, batch) for batch in range(microbatches))

    return Schedule.of((rank(place) for place in range(stages)), "breadth_first")
