"""A schedule as a Program: operations on the lane `compute`; messages, copies and reductions on lanes of their own.

Values, each with its rank: `in.b` input of microbatch b; `xs.b` output of stage s; `cs.b#k` what its backward needs, as
it is kept, recomputed or reloaded; `hs.b` the same on the host; `gs.b` gradient of the stage's input; `ws#v` weights;
`dws#k` sum of their gradients; `fulls#k` weights gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from poise.core.collector import paused
from poise.core.errors import ScheduleError
from poise.core.fast_tuple import made
from poise.pipeline.lower_beside import broadcast, copy, copy_away, gather, shard
from poise.pipeline.lower_updates import change, reduce, scale, update
from poise.pipeline.lowering import Lowering
from poise.pipeline.memory import PLAIN, Weights
from poise.pipeline.op import Kind
from poise.pipeline.schedule import Schedule
from poise.program import Content, Program, Task

F, R, I, SEND_F, RECV_F = Kind.F, Kind.R, Kind.I, Kind.SEND_F, Kind.RECV_F  # noqa: E741


def program_of(
    schedule: Schedule, *, weights: Weights = PLAIN, shared_copy: bool = False, lanes: bool = True,
    message_bytes: Sequence[float] = (),
) -> Program:  # fmt: skip
    """The Program of a schedule, communications included (derived where they are not written out).

    Sizes of values are activations, in those of a full stage and microbatch; `weights` says what is held when. Without
    `lanes` messages stand between the operations, as written. `shared_copy`: one lane for copies both ways. The
    gradient that each update must get is the mean over the microbatches. `message_bytes[s]` are those that stage s
    sends on, and gets back as a gradient; nothing: messages have none (`passes.sized` gives them later).
    """
    with paused():
        on = Lowering(schedule, weights, shared_copy, lanes, message_bytes)
        for rank, row in enumerate(on.schedule.ranks):
            on.turn(rank)
            for stage, kind, batch in row:
                _RULES[kind](on, kind, stage, batch if batch is not None else -1)
        reduce(on)
        if on.flush:
            for rank, name in sorted(on.sums):
                on.turn(rank)
                update(on, name)
        return on.into.build()


def _forward(on: Lowering, kind: Kind, stage: int, batch: int) -> None:
    pair = (stage, batch)
    tail, before = on.tail, on.before[batch][stage]
    x = f"in.{batch}{tail}" if before < 0 else f"x{before}.{batch}{tail}"
    if before < 0:
        on.into.give(x, Content.of("x", batch, 0))
    weights = on.weights(stage, batch, True)
    if kind is R:
        on.compute("R", (on.context(pair), weights), (on.keep(pair, on.size[stage]),), pair)
    elif pair in on.again:
        scratch = on.into.size(f"scratch{stage}.{batch}{tail}", on.size[stage] - on.edge[stage])
        kept = on.keep(pair, on.edge[stage])
        on.compute("F_NO_GRAD", (x, weights), (f"x{stage}.{batch}{tail}", kept, scratch), pair)
    else:
        kept = on.keep(pair, on.size[stage])
        on.compute("F", (x, weights), (f"x{stage}.{batch}{tail}", kept), pair)
    if pair in on.away and (kind is R or pair not in on.again):
        copy_away(on, pair)
    if on.schedule.barriers and kind is F and stage == on.stages - 1:
        broadcast(on, batch)


def _backward(on: Lowering, kind: Kind, stage: int, batch: int) -> None:
    pair, tail = (stage, batch), on.tail
    before, after = on.before[batch][stage], on.after[batch][stage]
    context, weights = on.context(pair), on.weights(stage, batch, False)
    gives = (f"g{stage}.{batch}{tail}",) if before >= 0 else ()
    takes: tuple[str, ...] = ()
    if after >= 0:
        takes = (f"g{after}.{batch}{tail}",)
    elif on.schedule.barriers:
        takes = (f"sum{on.schedule.barriers}.{batch}{tail}",)
    if kind is I:
        on.compute("I", (context, weights, *takes), (*gives, on.keep(pair, on.rest[stage])), pair)
        return
    old, new = on.sum(f"w{stage}")
    on.compute("B", (context, weights, old, *takes), (*gives, new), pair)
    if not on.flush:
        change(on, pair)


def _weight_gradient(on: Lowering, kind: Kind, stage: int, batch: int) -> None:
    pair = (stage, batch)
    old, new = on.sum(f"w{stage}")
    on.compute("W", (on.context(pair), old), (new,), pair)
    if not on.flush:
        change(on, pair)


def _send(on: Lowering, kind: Kind, stage: int, batch: int) -> None:
    if kind is SEND_F:
        other = on.after[batch][stage]
        name, of = f"x{stage}.{batch}{on.tail}", stage
    else:
        other = on.before[batch][stage]
        name, of = f"g{stage}.{batch}{on.tail}", other
    row, lane, pair = on.channel(_peer(on, kind, stage, batch, other), True)
    row.append(made(Task, ("send", on.rank, lane, (name,), (), on.bytes[of], pair, (of, batch))))


def _receive(on: Lowering, kind: Kind, stage: int, batch: int) -> None:
    if kind is RECV_F:
        other = on.before[batch][stage]
        name, of = f"x{other}.{batch}{on.tail}", other
    else:
        other = on.after[batch][stage]
        name, of = f"g{other}.{batch}{on.tail}", stage
    row, lane, pair = on.channel(_peer(on, kind, stage, batch, other), False)
    row.append(made(Task, ("recv", on.rank, lane, (), (name,), on.bytes[of], pair, (of, batch))))


def _peer(on: Lowering, kind: Kind, stage: int, batch: int, other: int) -> int:
    """The rank of the stage at the other end of a message."""
    homes, rank = on.homes[batch], on.rank
    peer = homes[other] if other >= 0 else -1
    if peer < 0 or peer == rank or homes[stage] != rank:
        raise ScheduleError(f"{stage}{kind.name}{batch} on rank {rank} has no other rank to speak with; remove it")
    return peer


_RULES: dict[Kind, Callable[[Lowering, Kind, int, int], None]] = {
    Kind.F: _forward, Kind.R: _forward, Kind.B: _backward, Kind.I: _backward, Kind.W: _weight_gradient,
    Kind.SEND_F: _send, Kind.SEND_B: _send, Kind.RECV_F: _receive, Kind.RECV_B: _receive,
    Kind.S: shard, Kind.T: shard, Kind.OFFLOAD: copy, Kind.RELOAD: copy, Kind.REDUCE_GRAD: scale,
    Kind.UNSHARD: gather, Kind.RESHARD: gather,
}  # fmt: skip
