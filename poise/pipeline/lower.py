"""A schedule as a Program: operations on the lane `compute`; messages, copies and reductions on lanes of their own.

Values, each with its rank: `in.b` input of microbatch b; `xs.b` output of stage s; `cs.b#k` what its backward needs, as
it is kept, recomputed or reloaded; `hs.b` the same on the host; `gs.b` gradient of the stage's input; `ws#v` weights;
`dws#k` sum of their gradients; `fulls#k` weights gathered.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

from poise.core.errors import ScheduleError
from poise.pipeline.communicate import communicate
from poise.pipeline.memory import PLAIN, Weights
from poise.pipeline.op import Kind, Op
from poise.pipeline.schedule import Schedule
from poise.program import Builder, Content, Program, Task
from poise.program.stages import STALE
from poise.program.task import at

Pair = tuple[int, int]
"""(stage, microbatch)."""


def program_of(
    schedule: Schedule, *, weights: Weights = PLAIN, shared_copy: bool = False, lanes: bool = True
) -> Program:
    """The Program of a schedule, communications included (derived where they are not written out).

    Sizes of values are activations, in those of a full stage and microbatch; `weights` says what is held when. Without
    `lanes` messages stand between the operations, as written. `shared_copy`: one lane for copies both ways. The
    gradient that each update must get is the mean over the microbatches.
    """
    return _Lowering(schedule, weights, shared_copy, lanes).run()


class _Lowering:
    def __init__(self, schedule: Schedule, weights: Weights, shared_copy: bool, lanes: bool) -> None:
        self.written = schedule.communicates
        self.schedule = schedule if self.written else communicate(schedule)
        self.shared, self.lanes = shared_copy, lanes
        self.paths = schedule.paths or (tuple(range(schedule.stages)),) * schedule.microbatches
        self.flush = schedule.updates == "flush"
        self.into = Builder(schedule.name)
        ops = [(rank, op) for rank, row in enumerate(self.schedule.ranks) for op in row]
        self.home = {op[::2]: rank for rank, op in ops if op.kind is Kind.F}
        self.again = {op[::2] for _, op in ops if op.kind is Kind.R}
        self.away = {op[::2] for _, op in ops if op.kind is Kind.OFFLOAD}
        self.sharded = {op.stage for _, op in ops if op.kind is Kind.UNSHARD}
        self.kept: dict[Pair, int] = {}
        self.sums: dict[tuple[int, str], int] = {}
        self.full: dict[tuple[int, int], int] = defaultdict(int)
        self.changed: dict[tuple[int, int], int] = defaultdict(int)
        self.reduced: list[tuple[int, int]] = []
        stages = schedule.stages
        held = weights.activation if weights.activation is not None else schedule.chunk
        each = held if isinstance(held, tuple) else (held,) * stages
        if len(each) != stages:
            raise ScheduleError(f"activation: {len(each)} values for {stages} stages; give one, or {stages}")
        self.size = [float(size) for size in each]
        self.rest = [float(size * weights.kept) for size in each]
        self.edge = [min(float(weights.boundary), size) for size in self.size]

    def run(self) -> Program:
        into, schedule = self.into, self.schedule
        into.paths = self.paths
        into.accepts = frozenset({STALE} if schedule.updates == "latest" else ())
        for rank, row in enumerate(schedule.ranks):
            for op in row:
                self._add(rank, op)
        self._reductions()
        if self.flush:
            for rank, name in sorted(self.sums):
                self._update(rank, name)
        return into.build()

    def _add(self, rank: int, op: Op) -> None:
        kind = op.kind
        if kind in (Kind.F, Kind.R):
            self._forward(rank, op)
        elif kind in (Kind.I, Kind.B, Kind.W):
            self._backward(rank, op)
        elif kind in (Kind.SEND_F, Kind.SEND_B, Kind.RECV_F, Kind.RECV_B):
            self._message(rank, op)
        elif kind in (Kind.S, Kind.T):
            self._shard(rank, op)
        elif kind in (Kind.OFFLOAD, Kind.RELOAD):
            self._copy(rank, op)
        elif kind is Kind.REDUCE_GRAD:
            self._scale(rank, f"w{op.stage}", op.stage)
        else:
            self._gather(rank, op)

    def _compute(self, kind: str, rank: int, reads: list[str], writes: list[str], arg: Pair | None = None) -> None:
        self.into.add(Task(kind, rank, "compute", tuple(at(name, rank) for name in reads), _on(writes, rank), arg=arg))

    def _forward(self, rank: int, op: Op) -> None:
        pair = _pair(op)
        stage, batch = pair
        before, _ = self._neighbours(pair)
        x = f"in.{batch}" if before is None else f"x{before}.{batch}"
        if before is None:
            self.into.give(at(x, rank), Content.of("x", batch, 0))
        weights = self._weights(rank, pair, forward=True)
        if op.kind is Kind.R:
            kept = self._context(pair)
            self._compute("R", rank, [kept, weights], [self._keep(rank, pair, self.size[stage])], pair)
        elif pair in self.again:
            scratch = self.into.size(at(f"scratch{stage}.{batch}", rank), self.size[stage] - self.edge[stage])
            writes = [f"x{stage}.{batch}", self._keep(rank, pair, self.edge[stage]), scratch.rpartition("@")[0]]
            self._compute("F_NO_GRAD", rank, [x, weights], writes, pair)
        else:
            writes = [f"x{stage}.{batch}", self._keep(rank, pair, self.size[stage])]
            self._compute("F", rank, [x, weights], writes, pair)
        if pair in self.away and (op.kind is Kind.R or pair not in self.again):
            self._copy_away(rank, pair)
        if self.schedule.barriers and stage == self.schedule.stages - 1 and op.kind is Kind.F:
            self._broadcast(rank, batch)

    def _backward(self, rank: int, op: Op) -> None:
        pair = _pair(op)
        stage, batch = pair
        before, after = self._neighbours(pair)
        context = self._context(pair)
        gives = [] if before is None else [f"g{stage}.{batch}"]
        takes = [] if after is None else [f"g{after}.{batch}"]
        if after is None and self.schedule.barriers:
            takes = [f"sum{self.schedule.barriers}.{batch}"]
        if op.kind is Kind.W:
            old, new = self._sum(rank, f"w{stage}")
            self._compute("W", rank, [context, old], [new], pair)
        else:
            weights = self._weights(rank, pair, forward=False)
            if op.kind is Kind.B:
                old, new = self._sum(rank, f"w{stage}")
                self._compute("B", rank, [context, weights, old, *takes], [*gives, new], pair)
            else:
                rest = self._keep(rank, pair, self.rest[stage])
                self._compute("I", rank, [context, weights, *takes], [*gives, rest], pair)
        if not self.flush and op.kind is not Kind.I:
            self._change(rank, pair)

    def _message(self, rank: int, op: Op) -> None:
        pair = _pair(op)
        forward = op.kind in (Kind.SEND_F, Kind.RECV_F)
        sends = op.kind in (Kind.SEND_F, Kind.SEND_B)
        before, after = self._neighbours(pair)
        other = after if forward == sends else before
        peer = None if other is None else self.home.get((other, pair[1]))
        if peer is None or peer == rank or self.home.get(pair) != rank:
            raise ScheduleError(f"{op} on rank {rank} has no other rank to speak with; remove it")
        made = pair[0] if sends else other
        name = f"{'x' if forward else 'g'}{made}.{pair[1]}"
        of = (made if forward else before if sends else pair[0], pair[1])
        lane = "compute" if not self.lanes else f"to {peer}" if sends else f"from {peer}"
        if sends:
            self.into.add(Task("send", rank, lane, (at(name, rank),), (), 0.0, (rank, peer), of))
        else:
            self.into.add(Task("recv", rank, lane, (), (at(name, rank),), 0.0, (peer, rank), of))

    def _copy(self, rank: int, op: Op) -> None:
        """OFFLOAD frees what has been copied to the host; RELOAD lets the copy back begin."""
        pair = _pair(op)
        stage, batch = pair
        host, begin = f"h{stage}.{batch}", f"begin{stage}.{batch}"
        if op.kind is Kind.OFFLOAD:
            self._compute("free", rank, [self._context(pair), host], [], pair)
            return
        self._compute("wait", rank, [], [begin], pair)
        back = self._keep(rank, pair, self.size[stage])
        lane = "copies" if self.shared else "h2d"
        self.into.add(Task("copy", rank, lane, _on([host, begin], rank), _on([back], rank), arg=("RELOAD", *pair)))

    def _copy_away(self, rank: int, pair: Pair) -> None:
        """The copy to the host, as soon as there is something to copy."""
        stage, batch = pair
        host = f"h{stage}.{batch}"
        self.into.size(at(host, rank), self.size[stage], "host")
        reads, writes = _on([self._context(pair)], rank), _on([host], rank)
        self.into.add(Task("copy", rank, "copies" if self.shared else "d2h", reads, writes, arg=("OFFLOAD", *pair)))

    def _broadcast(self, rank: int, batch: int) -> None:
        """The last activation goes to all shards of the output layer."""
        ranks = tuple(range(len(self.schedule.ranks)))
        for each in ranks:
            reads = (at(f"x{self.schedule.stages - 1}.{batch}", rank),) if each == rank else ()
            writes = (at(f"last.{batch}", each),)
            self.into.add(Task("broadcast", each, "shards", reads, writes, 0.0, ranks, (rank, batch)))

    def _shard(self, rank: int, op: Op) -> None:
        """A pass of the output layer's shard, and the sum over all shards behind it."""
        shard, batch = _pair(op)
        number = 1 if op.kind is Kind.S else 2
        made = f"{'st'[number - 1]}{shard}.{batch}"
        if op.kind is Kind.S:
            self._compute("S", rank, [f"last.{batch}"], [made], (shard, batch))
        else:
            old, new = self._sum(rank, f"out{shard}")
            self._compute("T", rank, [f"sum1.{batch}", old], [new, made], (shard, batch))
        if number <= self.schedule.barriers:
            ranks = tuple(range(len(self.schedule.ranks)))
            reads, writes = (at(made, rank),), (at(f"sum{number}.{batch}", rank),)
            self.into.add(Task("all_reduce", rank, f"sum {number}", reads, writes, 0.0, ranks, batch))

    def _gather(self, rank: int, op: Op) -> None:
        """UNSHARD makes whole weights, RESHARD frees them."""
        full = f"full{op.stage}#{self.full[rank, op.stage]}"
        if op.kind is Kind.UNSHARD:
            self._compute("copy", rank, [self._given(rank, op.stage)], [full])
            return
        self._compute("free", rank, [full], [])
        self.full[rank, op.stage] += 1

    def _scale(self, rank: int, name: str, stage: int) -> None:
        old, new = self._sum(rank, name)
        self._compute("scale", rank, [old], [new], (1, self.schedule.microbatches))
        self.reduced.append((rank, stage))

    def _reductions(self) -> None:
        """Sums over the copies of stages, in one order for all ranks, or as written."""
        if self.written:
            order = self.reduced
        else:
            slot = {each: number for number, each in enumerate(self.reduced)}
            first = {rank: min(slot[each] for each in self.reduced if each[0] == rank) for rank, _ in self.reduced}
            latest: dict[int, int] = defaultdict(int)
            for rank, stage in self.reduced:
                latest[stage] = max(latest[stage], slot[rank, stage] - first[rank])
            order = sorted(self.reduced, key=lambda each: (latest[each[1]], each[1]))
        for rank, stage in order:
            homes = self.schedule.homes[stage]
            if len(homes) > 1:
                old, new = self._sum(rank, f"w{stage}")
                lane = f"group {','.join(map(str, homes))}"
                self.into.add(Task("all_reduce", rank, lane, (at(old, rank),), (at(new, rank),), 0.0, homes, stage))

    def _update(self, rank: int, name: str) -> None:
        """The optimizer, behind everything."""
        if name.startswith("out"):
            self._scale(rank, name, -1)
            self.into.give(at(name, rank), Content.of("w", name, 0))
            uses = [int(name[3:])]
        else:
            uses = [int(name[1:])]
            self._given(rank, uses[0])
        part = Fraction(1, self.schedule.microbatches)
        self.into.demands[name] = {
            (name, use, batch): part
            for use in uses
            for batch, path in enumerate(self.paths)
            if name.startswith("out") or use in path
        }
        gradient = f"d{name}#{self.sums[rank, name]}"
        self._compute("update", rank, [name, gradient], [f"{name}#1"])

    def _change(self, rank: int, pair: Pair) -> None:
        """The optimizer, behind every backward."""
        stage, batch = pair
        name, number = f"w{stage}", self.changed[rank, stage]
        gradient = f"d{name}#{self.sums[rank, name]}"
        self.into.demands[f"{name}#{number}@{rank}"] = {(name, stage, batch): 1}
        self.into.demands.setdefault(name, {})
        self._compute("update", rank, [self._version(rank, stage, number), gradient], [f"{name}#{number + 1}"])
        self.changed[rank, stage] += 1
        self.sums[rank, name] += 1
        self.into.give(at(f"d{name}#{self.sums[rank, name]}", rank), Content({}))

    def _weights(self, rank: int, pair: Pair, forward: bool) -> str:
        stage = pair[0]
        if not self.flush:
            found = self.schedule.versions[pair]
            return self._version(rank, stage, found.forward if forward else found.backward)
        if stage in self.sharded:
            return f"full{stage}#{self.full[rank, stage]}"
        return self._given(rank, stage)

    def _given(self, rank: int, stage: int) -> str:
        name = f"w{stage}"
        self.into.given.setdefault(at(name, rank), Content.of("w", name, 0))
        return name

    def _version(self, rank: int, stage: int, number: int) -> str:
        return f"w{stage}#{number}" if number else self._given(rank, stage)

    def _sum(self, rank: int, name: str) -> tuple[str, str]:
        """The sum of a parameter's gradients as it is, and its next version."""
        number = self.sums.setdefault((rank, name), 0)
        if not number:
            self.into.give(at(f"d{name}#0", rank), Content({}))
        self.sums[rank, name] = number + 1
        return f"d{name}#{number}", f"d{name}#{number + 1}"

    def _keep(self, rank: int, pair: Pair, size: float) -> str:
        """The next version of what a stage keeps of a microbatch."""
        number = self.kept.get(pair, -1) + 1
        self.kept[pair] = number
        name = f"c{pair[0]}.{pair[1]}#{number}"
        self.into.size(at(name, rank), size)
        return name

    def _context(self, pair: Pair) -> str:
        return f"c{pair[0]}.{pair[1]}#{self.kept.get(pair, 0)}"

    def _neighbours(self, pair: Pair) -> tuple[int | None, int | None]:
        """The stages before and after on the microbatch's path."""
        stage, batch = pair
        if batch >= len(self.paths):
            raise ScheduleError(f"microbatch {batch} is outside the schedule's {len(self.paths)}; number them from 0")
        path = self.paths[batch]
        if self.schedule.paths is None:
            return (stage - 1 if stage else None), (stage + 1 if stage < len(path) - 1 else None)
        if stage not in path:
            return None, None
        number = path.index(stage)
        return (path[number - 1] if number else None), (path[number + 1] if number < len(path) - 1 else None)


def _pair(op: Op) -> Pair:
    assert op.microbatch is not None
    return op.stage, op.microbatch


def _on(names: list[str], rank: int) -> tuple[str, ...]:
    return tuple(at(name, rank) for name in names)
