"""1F1B (PipeDream-Flush: Narayanan et al., 2021): a backward follows each forward as soon as the first can run."""

from __future__ import annotations

from collections.abc import Iterator

from poise.pipeline.op import B, F, Op
from poise.pipeline.schedule import Schedule


def one_f_one_b(stages: int, microbatches: int) -> Schedule:
    """Makespan (m + p − 1)(T_F + T_B + T_W); peak min(m, p − s) on rank s."""

    def rank(stage: int) -> Iterator[Op]:
        ahead = min(stages - stage, microbatches)
        yield from (F(stage, batch) for batch in range(ahead))
        for batch in range(microbatches):
            yield B(stage, batch)
            if batch + ahead < microbatches:
                yield F(stage, batch + ahead)

    return Schedule.of((rank(stage) for stage in range(stages)), "one_f_one_b")
