"""What a schedule that becomes a Program is so far: which rank's turn it is, and the version that each value has."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from poise.core.errors import ScheduleError
from poise.core.fast_tuple import made
from poise.pipeline.communicate import communicate
from poise.pipeline.memory import Weights
from poise.pipeline.op import Kind
from poise.pipeline.schedule import Path, Schedule
from poise.program import Builder, Content, Task
from poise.program.passes.given import checked
from poise.program.stages import STALE
from poise.program.task import Lane, Value

F, R, OFFLOAD, UNSHARD = Kind.F, Kind.R, Kind.OFFLOAD, Kind.UNSHARD

Pair = tuple[int, int]
"""(stage, microbatch)."""

Channel = tuple[list[Task], str, tuple[int, int]]
"""A lane of messages to or from one other rank: its tasks, its name, and the ranks that send and receive."""


class Lowering:
    """The Program so far. Names of values are those of the rank whose turn it is.

    homes: by microbatch and stage, the rank of the forward, or −1.  before, after: the neighbour on its path, or −1.
    bytes: of the message behind a stage, and of the gradient that comes back.
    again, away, sharded: what is recomputed, copied to the host, gathered.  size, rest, edge: of a stage's activations,
    of what its weight gradient needs of them, of its input.
    """

    def __init__(
        self, schedule: Schedule, weights: Weights, shared_copy: bool, lanes: bool, message_bytes: Sequence[float]
    ) -> None:  # fmt: skip
        self.written = schedule.communicates
        self.schedule = schedule if self.written else communicate(schedule)
        self.shared_copy, self.lanes = shared_copy, lanes
        self.stages, self.flush = schedule.stages, schedule.updates == "flush"
        self.paths = schedule.paths or (tuple(range(self.stages)),) * schedule.microbatches
        self.into = Builder(schedule.name)
        self.into.paths = self.paths
        self.into.accepts = frozenset({STALE} if schedule.updates == "latest" else ())
        self.before, self.after = self._neighbours()
        self.homes = [[-1] * self.stages for _ in self.paths]
        self.bytes = checked("message_bytes", message_bytes or [0.0] * self.stages, self.stages, "stages")
        self.again: set[Pair] = set()
        self.away: set[Pair] = set()
        self.sharded: set[int] = set()
        self._look(schedule)
        self.kept: dict[Pair, int] = {}
        self.sums: dict[tuple[int, str], int] = {}
        self.full: dict[Pair, int] = {}
        self.changed: dict[Pair, int] = {}
        self.reduced: list[tuple[int, int]] = []
        """(rank, stage), in the order of their REDUCE_GRAD."""
        self.rank, self.tail = 0, ""
        self._own: dict[str, list[Task]] = {}
        self._channels: dict[tuple[int, bool], Channel] = {}
        self._sizes(weights)

    def turn(self, rank: int) -> None:
        """What follows is done by this rank."""
        self.rank, self.tail, self._own, self._channels = rank, f"@{rank}", {}, {}

    def row(self, lane: str) -> list[Task]:
        """The tasks of one of its lanes."""
        found = self._own.get(lane)
        if found is None:
            found = self._own[lane] = self.into.rows[Lane(self.rank, lane)]
        return found

    def channel(self, peer: int, sends: bool) -> Channel:
        """Its lane of messages to or from another rank."""
        found = self._channels.get((peer, sends))
        if found is None:
            lane = "compute" if not self.lanes else f"to {peer}" if sends else f"from {peer}"
            found = self.row(lane), lane, (self.rank, peer) if sends else (peer, self.rank)
            self._channels[peer, sends] = found
        return found

    def compute(self, kind: str, reads: tuple[str, ...], writes: tuple[str, ...], arg: Pair | None = None) -> None:
        """Put a task on its lane `compute`."""
        self.row("compute").append(made(Task, (kind, self.rank, "compute", reads, writes, 0.0, (), arg)))

    def weights(self, stage: int, batch: int, forward: bool) -> str:
        """The weights that a microbatch uses on a stage."""
        if not self.flush:
            found = self.schedule.versions[stage, batch]
            return self.version(stage, found.forward if forward else found.backward)
        if stage in self.sharded:
            return f"full{stage}#{self.full.get((self.rank, stage), 0)}{self.tail}"
        return self.given(stage)

    def given(self, stage: int) -> str:
        """The weights of a stage at the start."""
        name = f"w{stage}{self.tail}"
        if name not in self.into.given:
            self.into.given[name] = Content.of("w", f"w{stage}", 0)
        return name

    def version(self, stage: int, number: int) -> str:
        """The weights of a stage behind so many updates."""
        return f"w{stage}#{number}{self.tail}" if number else self.given(stage)

    def sum(self, name: str) -> tuple[str, str]:
        """The sum of a parameter's gradients as it is, and its next version."""
        key = (self.rank, name)
        number = self.sums.get(key, 0)
        if not number:
            self.into.give(f"d{name}#0{self.tail}", Content({}))
        self.sums[key] = number + 1
        return f"d{name}#{number}{self.tail}", f"d{name}#{number + 1}{self.tail}"

    def keep(self, pair: Pair, size: float) -> str:
        """The next version of what a stage keeps of a microbatch."""
        number = self.kept[pair] = self.kept.get(pair, -1) + 1
        name = f"c{pair[0]}.{pair[1]}#{number}{self.tail}"
        if size:
            self.into.values[name] = made(Value, (name, size, "device"))
        return name

    def context(self, pair: Pair) -> str:
        """What a stage keeps of a microbatch now."""
        return f"c{pair[0]}.{pair[1]}#{self.kept.get(pair, 0)}{self.tail}"

    def _look(self, schedule: Schedule) -> None:
        """Note where everything is done; messages that follow from the rest need no look."""
        stages, count, homes = self.stages, len(self.paths), self.homes
        for rank, row in enumerate(schedule.ranks):
            for stage, kind, batch in row:
                if stage >= stages:
                    raise ScheduleError(f"stage {stage} is outside the schedule's {stages}; number them from 0")
                if batch is None:
                    if kind is UNSHARD:
                        self.sharded.add(stage)
                    continue
                if batch >= count:
                    raise ScheduleError(f"microbatch {batch} is outside the schedule's {count}; number them from 0")
                if kind is F:
                    homes[batch][stage] = rank
                elif kind is R:
                    self.again.add((stage, batch))
                elif kind is OFFLOAD:
                    self.away.add((stage, batch))

    def _neighbours(self) -> tuple[list[list[int]], list[list[int]]]:
        found = {path: self._along(path) for path in {*self.paths}}
        return [found[path][0] for path in self.paths], [found[path][1] for path in self.paths]

    def _along(self, path: Path) -> tuple[list[int], list[int]]:
        """For each stage, those before and after it on a path."""
        before, after = [-1] * self.stages, [-1] * self.stages
        for one, two in pairwise(path):
            before[two], after[one] = one, two
        return before, after

    def _sizes(self, weights: Weights) -> None:
        stages = self.stages
        held = weights.activation if weights.activation is not None else self.schedule.chunk
        each = held if isinstance(held, tuple) else (held,) * stages
        if len(each) != stages:
            raise ScheduleError(f"activation: {len(each)} values for {stages} stages; give one, or {stages}")
        self.size = [float(size) for size in each]
        self.rest = [float(size * weights.kept) for size in each]
        self.edge = [min(float(weights.boundary), size) for size in self.size]
