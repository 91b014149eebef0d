"""How weights change in a lowered schedule: gradients scaled, summed over the copies of stages, and the optimizer."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

from poise.pipeline.lowering import Lowering, Pair
from poise.pipeline.op import Kind
from poise.program import Content, Task


def scale(on: Lowering, kind: Kind, stage: int, batch: int) -> None:
    """REDUCE_GRAD: the mean over microbatches; the sum over the copies of the stage follows (`reduce`)."""
    _scale(on, f"w{stage}")
    on.reduced.append((on.rank, stage))


def _scale(on: Lowering, name: str) -> None:
    old, new = on.sum(name)
    on.row("compute").append(Task("scale", on.rank, "compute", (old,), (new,), arg=(1, on.schedule.microbatches)))


def reduce(on: Lowering) -> None:
    """Sums over the copies of stages, in one order for all ranks, or as written."""
    for rank, stage in on.reduced if on.written else _ordered(on.reduced):
        homes = on.schedule.homes[stage]
        if len(homes) > 1:
            on.turn(rank)
            old, new = on.sum(f"w{stage}")
            lane = f"group {','.join(map(str, homes))}"
            on.row(lane).append(Task("all_reduce", rank, lane, (old,), (new,), 0.0, homes, stage))


def _ordered(reduced: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """By when the last copy of a stage is done, counted on each rank."""
    slot = {each: number for number, each in enumerate(reduced)}
    first = {rank: min(slot[each] for each in reduced if each[0] == rank) for rank, _ in reduced}
    latest: dict[int, int] = defaultdict(int)
    for rank, stage in reduced:
        latest[stage] = max(latest[stage], slot[rank, stage] - first[rank])
    return sorted(reduced, key=lambda each: (latest[each[1]], each[1]))


def update(on: Lowering, name: str) -> None:
    """The optimizer, behind everything."""
    if shard := name.startswith("out"):
        _scale(on, name)
        weights = on.into.give(f"{name}{on.tail}", Content.of("w", name, 0))
        use = int(name[3:])
    else:
        use = int(name[1:])
        weights = on.given(use)
    if name not in on.into.demands:
        part = Fraction(1, on.schedule.microbatches)
        on.into.demands[name] = {
            (name, use, batch): part for batch, path in enumerate(on.paths) if shard or use in path
        }
    gradient = f"d{name}#{on.sums[on.rank, name]}{on.tail}"
    on.compute("update", (weights, gradient), (f"{name}#1{on.tail}",))


def change(on: Lowering, pair: Pair) -> None:
    """The optimizer, behind every backward."""
    stage, batch = pair
    name, number = f"w{stage}", on.changed.get((on.rank, stage), 0)
    made = on.sums[on.rank, name]
    on.into.demands[f"{name}#{number}@{on.rank}"] = {(name, stage, batch): 1}
    on.into.demands.setdefault(name, {})
    on.compute("update", (on.version(stage, number), f"d{name}#{made}{on.tail}"), (f"{name}#{number + 1}{on.tail}",))
    on.changed[on.rank, stage] = number + 1
    on.sums[on.rank, name] = made + 1
    on.into.give(f"d{name}#{made + 1}{on.tail}", Content({}))
