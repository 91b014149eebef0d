"""Pipelined backpropagation (Kosson et al., MLSys 2021): no flush, and no old weights are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from poise.pipeline.delay import delay
from poise.pipeline.op import B, F, Op
from poise.pipeline.schedule import Schedule


def pipelined_backprop(stages: int, microbatches: int) -> Schedule:
    """Every rank has a forward and a backward in each cycle; the weights of stage s change 2(p − 1 − s) times between.

    Works on single samples: all ranks are busy once the pipeline is full, where filling and draining for each of them
    would use 1 / p of it. Peak 2(p − s) − 1 on rank s. A backward uses the newest weights, so the optimizer has to make
    up for the delay (delay.py).
    """

    def rank(stage: int) -> Iterator[Op]:
        ahead = delay(stages, stage)
        yield from (F(stage, batch) for batch in range(min(ahead, microbatches)))
        for batch in range(microbatches):
            if batch + ahead < microbatches:
                yield F(stage, batch + ahead)
            yield B(stage, batch)

    made = Schedule.of((rank(stage) for stage in range(stages)), "pipelined_backprop")
    return replace(made, updates="latest")
