"""Brings pools to the size, and replicas to the role, that the control side wants: they start, serve, drain, leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import cos, exp, log, pi, sqrt
from typing import Final

from poise.core.action import Convert, Scale
from poise.core.chance import Chance
from poise.core.records.records import Converted, Scaled
from poise.core.spec import Cluster, ReplicaSpec, Role, Startup
from poise.core.units import ps
from poise.sim.agenda import START, Agenda
from poise.sim.lifecycle import Lifecycle

FREE: Final = 0
WARMING: Final = 1
WARM: Final = 2
STARTING: Final = 3
UP: Final = 4
CONVERTING: Final = 5
"""What a slot is: empty; on its way to be pre-warmed, or that; taken by a replica that starts, that is there, or that
drains to take another role."""


class Scaling:
    """The slots of all pools, and their replicas.

    A new replica takes a pre-warmed slot, else the one that will be so first, else the lowest that is free. Who is one
    too many goes before it serves, the latest first, else the one drains that came last. A slot is taken, and paid for,
    from the begin of its start-up until its replica has left; a lost replica is replaced.
    A replica that is to take another role drains, keeps its devices, passes the stages that a pre-warmed slot has
    before it, and serves again; whoever takes its slot later has that role too. One that is lost meanwhile starts anew
    in it; one that a fault drains meanwhile leaves in the old one.
    specs: the control side's knowledge of each replica.  renew: makes a slot's replica anew.
    log, converted: record each change of a pool, and each change of a role.
    """

    def __init__(
        self,
        cluster: Cluster,
        lifecycle: Lifecycle,
        agenda: Agenda,
        seed: int,
        specs: Sequence[ReplicaSpec],
        renew: Callable[[int], None],
        log: list[Scaled],
        converted: list[Converted],
    ) -> None:
        self._lifecycle = lifecycle
        self._agenda = agenda
        self._chance = Chance(seed)
        self._specs = specs
        self._renew = renew
        self._log = log
        self._converted = converted
        self._turning: dict[int, tuple[int, Role]] = {}
        self._stages: list[Startup] = []
        self._slots: list[list[int]] = []
        self._wanted = [(pool.replicas, pool.prewarmed) for pool in cluster.pools]
        self._pool_of: list[int] = []
        self._phase: list[int] = []
        for number, pool in enumerate(cluster.pools):
            first = len(self._phase)
            self._slots.append(list(range(first, first + pool.slots)))
            self._phase += [UP] * pool.replicas + [FREE] * (pool.slots - pool.replicas)
            self._pool_of += [number] * pool.slots
            self._stages.append(pool.stages)
        self._since = [0] * len(self._phase)
        self._lives = [0] * len(self._phase)
        self._slow = [1.0] * len(self._phase)

    def begin(self) -> None:
        """Pre-warmed slots are so from the start."""
        for (_, warm), slots in zip(self._wanted, self._slots, strict=True):
            for slot in self._of(slots, FREE)[:warm]:
                self._take(slot, WARM)
        for pool in range(len(self._slots)):
            self._note(pool)

    def want(self, action: Scale) -> None:
        """Set the size of a pool."""
        self._wanted[action.pool] = action.replicas, action.warm
        self._settle(action.pool)

    def convert(self, action: Convert) -> None:
        """Change the role of a replica."""
        slot, role = action
        self._phase[slot] = CONVERTING
        self._turning[slot] = self._agenda.now, role
        self._lifecycle.drain(slot)
        self._note(self._pool_of[slot])

    def starting(self) -> bool:
        """Whether some replica is starting."""
        return STARTING in self._phase

    def changed(self, slot: int, lost: bool) -> None:
        """A replica drains, has left or is lost."""
        if self._phase[slot] == CONVERTING and self._lifecycle.alive[slot]:  # it leaves and stays away
            self._phase[slot] = UP
            del self._turning[slot]
        elif self._phase[slot] == CONVERTING:
            self._turn(slot, lost)
        elif not self._lifecycle.alive[slot]:
            self._phase[slot] = FREE
        self._settle(self._pool_of[slot])

    def _turn(self, slot: int, lost: bool) -> None:
        """The replica that changes its role is empty, or lost: another with that role prepares in its place."""
        self._lifecycle.know(slot, self._specs[slot]._replace(role=self._turning[slot][1]))
        if lost:
            self._phase[slot] = FREE
            return
        self._take(slot, STARTING)
        self._later(slot, self._lasts(slot, self._stages[self._pool_of[slot]].loading_s), self._serve)

    def _settle(self, pool: int) -> None:
        """Bring a pool to its size, as far as its slots allow."""
        slots, (replicas, warm) = self._slots[pool], self._wanted[pool]
        while self._size(slots) < replicas and (slot := self._next(slots)) is not None:
            self._start(slot)
        while self._size(slots) > replicas:  # who leaves at once has the rest settled before
            self._let_go(slots)
        idle = self._of(slots, WARMING) + self._of(slots, WARM)
        for slot in self._of(slots, FREE)[: max(warm - len(idle), 0)]:
            self._warm(slot)
        for slot in sorted(idle, key=lambda each: -self._since[each])[: max(len(idle) - warm, 0)]:
            self._free(slot)
        self._note(pool)

    def _size(self, slots: Sequence[int]) -> int:
        return len(self._of(slots, STARTING)) + len(self._of(slots, CONVERTING)) + len(self._up(slots))

    def _of(self, slots: Sequence[int], phase: int) -> list[int]:
        return [slot for slot in slots if self._phase[slot] == phase]

    def _up(self, slots: Sequence[int]) -> list[int]:
        """The replicas that serve and will stay."""
        return [slot for slot in self._of(slots, UP) if not self._lifecycle.draining[slot]]

    def _next(self, slots: Sequence[int]) -> int | None:
        for phase in (WARM, WARMING, FREE):
            found = self._of(slots, phase)
            if found:
                return min(found, key=lambda slot: (self._since[slot] if phase == WARMING else 0, slot))
        return None

    # Start-up --------------------------------------------------------------------------------------------------------

    def _take(self, slot: int, phase: int) -> None:
        """A slot is paid for from now on."""
        self._lives[slot] += 1
        self._phase[slot], self._since[slot] = phase, self._agenda.now
        self._lifecycle.lease(slot)
        sigma = self._stages[self._pool_of[slot]].sigma
        self._slow[slot] = exp(sigma * self._normal(slot)) if sigma else 1.0

    def _normal(self, slot: int) -> float:
        """A standard normal draw (Box-Muller), the same whatever else happens."""
        self._chance.key = self._lives[slot] << 20 | slot
        size = sqrt(-2 * log(1 - self._chance.draw("start-up")))
        return size * cos(2 * pi * self._chance.draw("start-up angle"))

    def _lasts(self, slot: int, seconds: float) -> int:
        return ps(seconds * self._slow[slot])

    def _warm(self, slot: int) -> None:
        """Begin to pre-warm a slot."""
        self._take(slot, WARMING)
        self._later(slot, self._lasts(slot, self._stages[self._pool_of[slot]].warming_s), self._warmed)

    def _warmed(self, slot: int) -> None:
        if self._phase[slot] == WARMING:
            self._phase[slot] = WARM
            self._note(self._pool_of[slot])

    def _start(self, slot: int) -> None:
        """A replica takes a slot, with what of its start-up is done already."""
        stages, before, now = self._stages[self._pool_of[slot]], self._phase[slot], self._agenda.now
        if before == FREE:
            self._take(slot, STARTING)
        left = 0 if before == WARM else self._since[slot] + self._lasts(slot, stages.warming_s) - now
        self._phase[slot], self._since[slot] = STARTING, now
        self._later(slot, left + self._lasts(slot, stages.loading_s), self._serve)

    def _serve(self, slot: int) -> None:
        if self._lifecycle.replicas[slot].closed:
            self._renew(slot)
        self._phase[slot], self._since[slot] = UP, self._agenda.now
        self._note(self._pool_of[slot])
        if slot in self._turning:
            since, role = self._turning.pop(slot)
            self._converted.append(Converted(since, self._agenda.now, slot, role))
        self._lifecycle.serve(slot)

    def _later(self, slot: int, after: int, call: Callable[[int], None]) -> None:
        """Do it unless the slot has been given up, or taken by another replica, since."""
        life, phase = self._lives[slot], self._phase[slot]

        def do() -> None:
            if self._lives[slot] == life and self._phase[slot] == phase:
                call(slot)

        self._agenda.later(self._agenda.now + after, START, do)

    # Shutdown --------------------------------------------------------------------------------------------------------

    def _let_go(self, slots: Sequence[int]) -> None:
        """Remove one replica."""
        starting, up = self._of(slots, STARTING), self._up(slots)
        if starting:
            self._free(self._latest(starting))
        elif up:
            self._lifecycle.drain(self._latest(up))
        else:  # it drains already, and goes instead of taking another role
            slot = self._latest(self._of(slots, CONVERTING))
            self._phase[slot] = UP
            del self._turning[slot]

    def _latest(self, slots: Sequence[int]) -> int:
        return max(slots, key=lambda slot: (self._since[slot], slot))

    def _free(self, slot: int) -> None:
        """A slot is given back before it served."""
        self._phase[slot] = FREE
        self._lives[slot] += 1
        self._turning.pop(slot, None)
        self._lifecycle.end_lease(slot)

    def _note(self, pool: int) -> None:
        """Record the state of the pool, once for each instant."""
        slots, now = self._slots[pool], self._agenda.now
        up, serving = len(self._of(slots, UP)) + len(self._of(slots, CONVERTING)), len(self._up(slots))
        warm = len(self._of(slots, WARM)) + len(self._of(slots, WARMING))
        note = Scaled(now, pool, self._wanted[pool][0], serving, len(self._of(slots, STARTING)), up - serving, warm)
        if self._log and self._log[-1][:2] == note[:2]:
            self._log[-1] = note
        else:
            self._log.append(note)
