"""Schedules for what no schedule by name shows alone, each with a possible order drawn at random."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from poise.pipeline import B, F, I, Kind, Op, Schedule, W

RANKS = 4


def with_copies(schedule: Schedule, seed: int) -> Schedule:
    """Some forwards recomputed, some activations moved to the host, at places drawn at random."""
    draw = Random(seed)
    return replace(schedule, ranks=tuple(tuple(_moved(list(row), draw)) for row in schedule.ranks))


def _moved(row: list[Op], draw: Random) -> list[Op]:
    for op in [op for op in row if op.kind is Kind.F]:
        stage, _, batch = op
        begin = row.index(op) + 1
        ends = [at for at, other in enumerate(row) if other[::2] == (stage, batch) and other.kind in (Kind.I, Kind.B)]
        chosen = draw.choice([(), (Kind.R,), (Kind.OFFLOAD, Kind.RELOAD), (Kind.R, Kind.OFFLOAD, Kind.RELOAD)])
        places = sorted(draw.randint(begin, ends[0]) for _ in chosen)
        for more, (kind, at) in enumerate(zip(chosen, places, strict=True)):
            row.insert(at + more, Op(stage, kind, batch))
    return row


def with_paths(seed: int, stages: int = 8, microbatches: int = 6) -> Schedule:
    """Each microbatch leaves out some stages between the first and the last, and may swap two neighbours."""
    draw = Random(seed)
    home = [stage % RANKS for stage in range(stages)]
    paths = []
    for _ in range(microbatches):
        inner = [stage for stage in range(1, stages - 1) if draw.random() < 0.7]
        at = draw.randrange(max(1, len(inner) - 1))
        inner[at : at + 2] = inner[at : at + 2][::-1]
        paths.append((0, *inner, stages - 1))
    paths[0] = tuple(range(stages))
    rows: list[list[Op]] = [[] for _ in range(RANKS)]
    ready = [(batch, 0, Kind.F) for batch in range(microbatches)]
    while ready:
        batch, at, kind = ready.pop(draw.randrange(len(ready)))
        path = paths[batch]
        rows[home[path[at]]].append(Op(path[at], kind, batch))
        if kind is Kind.F:
            ready.append((batch, at + 1, kind) if at + 1 < len(path) else (batch, at, draw.choice((Kind.I, Kind.B))))
            continue
        if kind is Kind.I:
            ready.append((batch, at, Kind.W))
        if kind is not Kind.W and at:
            ready.append((batch, at - 1, draw.choice((Kind.I, Kind.B))))
    return Schedule(tuple(map(tuple, rows)), stages, microbatches, paths=tuple(paths))


def with_vocabulary(seed: int, barriers: int, microbatches: int = 5) -> Schedule:
    """One stage on each rank, and the output layer in shards; T as late as it happens where that is allowed."""
    draw = Random(seed)
    rows: list[list[Op]] = [[] for _ in range(RANKS)]
    ready: list[Op] = [F(0, batch) for batch in range(microbatches)]
    last = RANKS - 1
    while ready:
        stage, kind, batch = op = ready.pop(draw.randrange(len(ready)))
        assert batch is not None
        if kind in (Kind.S, Kind.T):
            for rank in range(RANKS):
                rows[rank].append(Op(rank, kind, batch))
        else:
            rows[stage].append(op)
        if kind is Kind.F:
            ready.append(F(stage + 1, batch) if stage < last else Op(0, Kind.S, batch))
        elif kind is Kind.S:
            ready += [Op(0, Kind.T, batch)] + ([I(last, batch)] if barriers == 1 else [])
        elif kind is Kind.T:
            ready += [B(last, batch)] if barriers == 2 else []
        elif kind is not Kind.W:
            ready += ([W(stage, batch)] if kind is Kind.I else []) + ([B(stage - 1, batch)] if stage else [])
    return Schedule(tuple(map(tuple, rows)), RANKS, microbatches, barriers=barriers)
