"""What the tasks of a step take: computations a clock, transfers so much of a link that each alone takes its time.

A link of a device carries `speed` bytes/s. A transfer that the cost model lets take s seconds alone, behind its first
ones, puts s · speed bytes on it, so that algorithms and the part of a link that they reach are the cost model's, and
transfers at once share the link.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from poise.core.units import ps
from poise.cost.training.transfers import Moved, Transfers
from poise.pipeline.costs import Durations
from poise.pipeline.program_time import ticks_by
from poise.program import Program, Task
from poise.program.index import MESSAGES
from poise.program.passes.gather import LANE as GATHER
from poise.program.passes.gradients import LANE as SYNC
from poise.sim.links import Wiring
from poise.sim.program import Clock

COLLECTIVES = frozenset({SYNC, GATHER})


@dataclass(frozen=True, slots=True)
class Weighed:
    """Seconds and bytes of the tasks of one pipeline's ranks, and of its replicas'.

    hops: in picoseconds, if messages take the times of a recorded step; None: those of the cost model.
    optimizer: seconds of a rank's updates together.
    """

    transfers: Transfers
    ranks: int
    optimizer: float
    hops: Durations | None = None

    def program(self, program: Program, *, messages: bool, collectives: bool) -> Program:
        """The same with the bytes that its transfers put on links; of kinds that are left out none."""

        def weighed(task: Task) -> Task:
            if task.kind in MESSAGES:
                own = messages and self.hops is None
                return task._replace(work=self._message() if own else 0.0)
            if task.lane in COLLECTIVES:
                speed = self.transfers.speeds[self.transfers.far[1]]
                return task._replace(work=self._alone(task) * speed if collectives else 0.0)
            return task._replace(work=0.0) if task.work else task

        return program.with_rows({lane: [weighed(task) for task in row] for lane, row in program.rows.items()})

    def clock(self, program: Program, durations: Durations, *, messages: bool, collectives: bool) -> Clock:
        """Picoseconds of its tasks; `durations` are in picoseconds. A rank's first update takes those of all."""
        ticks, _, scale = ticks_by(program, durations, {})
        took = [each // scale for each in ticks]
        lags = [0] * len(took)
        updated: set[int] = set()
        for number, task in enumerate(program.index.tasks):
            if task.kind == "recv" and messages:
                lags[number] = self._hop(task.group)
            elif task.kind == "update" and task.rank not in updated:
                updated.add(task.rank)
                took[number] = ps(self.optimizer)
            elif task.lane in COLLECTIVES and collectives:
                took[number] = ps(self._moved(task)[0].fixed)
        return Clock(took, lags)

    def seconds(self, task: Task) -> float:
        """Of a collective alone on its link."""
        return self._moved(task)[0].fixed + self._alone(task)

    def wiring(self, replicas: int) -> Wiring:
        """Of each device a port within its server and one between servers; both ways.

        A message takes the kind that the cost model has for it, a collective likewise: in a group of one rank its own
        device's, else on the way to the next one.
        """
        count = self.ranks * replicas
        base = {far: 2 * count * far for far in (False, True)}
        (near_bw, far_bw), (message, collective) = self.transfers.speeds, self.transfers.far
        ports = range(count)
        return Wiring(
            bytes_per_s=(near_bw,) * (2 * count) + (far_bw,) * (2 * count),
            node=tuple(rank // self.ranks for rank in ports),
            out=tuple(base[collective] + 2 * rank for rank in ports),
            into=tuple(base[collective] + 2 * rank + 1 for rank in ports),
            inside_out=tuple(base[message] + 2 * rank for rank in ports),
            inside_in=tuple(base[message] + 2 * rank + 1 for rank in ports),
        )

    def _message(self) -> float:
        return self.transfers.message.seconds * self.transfers.speeds[self.transfers.far[0]]

    def _hop(self, pair: Collection[int]) -> int:
        if self.hops is None:
            return ps(self.transfers.message.fixed)
        here, there = (rank % self.ranks for rank in pair)
        return self.hops.hop(here, there) // self.hops.scale

    def _moved(self, task: Task) -> list[Moved]:
        """What a collective moves: of several parts where it was joined."""
        of = self.transfers.gathers if task.lane == GATHER else self.transfers.gradients
        return [of[part] for part in (task.arg if isinstance(task.arg, tuple) else (task.arg,))]

    def _alone(self, task: Task) -> float:
        return sum(each.seconds for each in self._moved(task))
