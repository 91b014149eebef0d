"""Schedules that no paper has: any placement, any order that can run."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import strategies as st

from poise.pipeline import B, F, I, Kind, Op, Schedule, W


def any_schedule(seed: int, *, copies: bool = True) -> Schedule:
    """A random schedule that runs: stages dealt to ranks, microbatches to copies, operations in a possible order."""
    draw = Random(seed)
    ranks, stages, microbatches = draw.randint(1, 4), draw.randint(1, 6), draw.randint(1, 5)
    ranks = min(ranks, stages)
    layouts = [_layout(draw, ranks, stages) for _ in range(draw.randint(1, 2) if copies else 1)]
    home = [draw.choice(layouts) for _ in range(microbatches)]
    rows: list[list[Op]] = [[] for _ in range(ranks)]
    ready = [F(0, batch) for batch in range(microbatches)]
    while ready:
        op = ready.pop(draw.randrange(len(ready)))
        stage, kind, batch = op
        assert batch is not None
        rows[home[batch][stage]].append(op)
        if kind == 0:
            ready.append(F(stage + 1, batch) if stage + 1 < stages else _backward(draw, stage, batch))
            continue
        if kind == 1:
            ready.append(W(stage, batch))
        if kind in (1, 3) and stage:
            ready.append(_backward(draw, stage - 1, batch))
    return Schedule(tuple(tuple(row) for row in rows), stages, microbatches)


def _layout(draw: Random, ranks: int, stages: int) -> list[int]:
    """Every rank has a stage at least."""
    dealt = [*range(ranks), *(draw.randrange(ranks) for _ in range(stages - ranks))]
    draw.shuffle(dealt)
    return dealt


def _backward(draw: Random, stage: int, batch: int) -> Op:
    return draw.choice((I, B))(stage, batch)


def beside(seed: int) -> Schedule:
    """A random schedule of which some pairs are recomputed, some live on the host, some both."""
    base, draw = any_schedule(seed), Random(seed + 1)
    rows = []
    for row in base.ranks:
        new = list(row)
        for stage, kind, batch in row:
            if kind is not Kind.F:
                continue
            again, away = draw.random() < 0.3, draw.random() < 0.4
            more = [Kind.R] * again + [Kind.OFFLOAD, Kind.RELOAD] * away
            place = new.index(Op(stage, Kind.F, batch))
            for each in more:
                end = next(at for at, op in enumerate(new) if op[0] == stage and op[1] in (1, 3) and op[2] == batch)
                place = draw.randint(place + 1, end)
                new.insert(place, Op(stage, each, batch))
        rows.append(tuple(new))
    return replace(base, ranks=tuple(rows))


schedules = st.integers(0, 1 << 30).map(any_schedule)
homes = st.integers(0, 1 << 30).map(lambda seed: any_schedule(seed, copies=False))
"""The same with one home for each stage, which PyTorch's files need."""
