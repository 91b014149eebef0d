"""What a lowered schedule has beside forwards and backwards: copies, passes of the output layer's shards, gathers."""

from __future__ import annotations

from poise.pipeline.lowering import Lowering, Pair
from poise.pipeline.op import Kind
from poise.program import Task
from poise.program.task import at


def copy(on: Lowering, kind: Kind, stage: int, batch: int) -> None:
    """OFFLOAD frees what has been copied to the host; RELOAD lets the copy back begin."""
    pair, tail = (stage, batch), on.tail
    host, begin = f"h{stage}.{batch}{tail}", f"begin{stage}.{batch}{tail}"
    if kind is Kind.OFFLOAD:
        on.compute("free", (on.context(pair), host), (), pair)
        return
    on.compute("wait", (), (begin,), pair)
    back = on.keep(pair, on.size[stage])
    lane = "copies" if on.shared_copy else "h2d"
    on.row(lane).append(Task("copy", on.rank, lane, (host, begin), (back,), arg=("RELOAD", *pair)))


def copy_away(on: Lowering, pair: Pair) -> None:
    """The copy to the host, as soon as there is something to copy."""
    stage, batch = pair
    host = on.into.size(f"h{stage}.{batch}{on.tail}", on.size[stage], "host")
    lane = "copies" if on.shared_copy else "d2h"
    on.row(lane).append(Task("copy", on.rank, lane, (on.context(pair),), (host,), arg=("OFFLOAD", *pair)))


def broadcast(on: Lowering, batch: int) -> None:
    """The last activation goes to all shards of the output layer."""
    ranks = tuple(range(len(on.schedule.ranks)))
    for each in ranks:
        reads = (f"x{on.stages - 1}.{batch}{on.tail}",) if each == on.rank else ()
        on.into.add(
            Task("broadcast", each, "shards", reads, (at(f"last.{batch}", each),), 0.0, ranks, (on.rank, batch))
        )


def shard(on: Lowering, kind: Kind, stage: int, batch: int) -> None:
    """A pass of the output layer's shard, and the sum over all shards behind it. The stage is the shard."""
    tail = on.tail
    number = 1 if kind is Kind.S else 2
    made = f"{'st'[number - 1]}{stage}.{batch}{tail}"
    if kind is Kind.S:
        on.compute("S", (f"last.{batch}{tail}",), (made,), (stage, batch))
    else:
        old, new = on.sum(f"out{stage}")
        on.compute("T", (f"sum1.{batch}{tail}", old), (new, made), (stage, batch))
    if number <= on.schedule.barriers:
        ranks, lane = tuple(range(len(on.schedule.ranks))), f"sum {number}"
        writes = (f"sum{number}.{batch}{tail}",)
        on.row(lane).append(Task("all_reduce", on.rank, lane, (made,), writes, 0.0, ranks, batch))


def gather(on: Lowering, kind: Kind, stage: int, batch: int) -> None:
    """UNSHARD makes whole weights, RESHARD frees them."""
    number = on.full.setdefault((on.rank, stage), 0)
    full = f"full{stage}#{number}{on.tail}"
    if kind is Kind.UNSHARD:
        on.compute("copy", (on.given(stage),), (full,))
        return
    on.compute("free", (full,), ())
    on.full[on.rank, stage] = number + 1
