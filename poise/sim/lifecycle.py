"""Replicas that join, drain, are reclaimed, lost or slow, by the cluster's faults or a scaler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from poise.core.control.flight import InFlight
from poise.core.engine.replica import Replica
from poise.core.engine.slowness import Slowdown
from poise.core.estimate import after_loss
from poise.core.event import Draining, Event, ReplicaJoined, ReplicaLeft, ReplicaLost, ReplicaUpdated
from poise.core.records.attributions import Attributions
from poise.core.records.records import NOT_YET, Occurrence
from poise.core.spec import Cluster, Fault, ReplicaSpec
from poise.core.units import NEVER, ps
from poise.sim.agenda import FAULT, Agenda


class Lifecycle:
    """The state of all replicas.

    news: updates the belief, as before a decision, so that none is made between a loss and its news.
    flights: what the control side has sent.  passed: whether a step of a replica that ends just now has been dealt
    with.  gone: called with each replica that is lost.  touch: calls a replica, with what has `passed` there.
    renew: puts another replica in the place of one that is gone.  happened: the faults so far.
    alive, draining: by replica.
    changed: called with each replica that drains, has left or is lost, and whether it is lost, when the control side
    knows; None: no callback.
    specs: the control side's prior knowledge of each replica; it is notified when one that was to return will not.
    made: output tokens that a client already has from a replica that was lost, by request.
    """

    def __init__(
        self,
        cluster: Cluster,
        replicas: Sequence[Replica],
        flights: Callable[[], Iterable[InFlight]],
        agenda: Agenda,
        turn: Callable[[Event], None],
        news: Callable[[], None],
        passed: Callable[[int], bool],
        gone: Callable[[int], None],
        touch: Callable[[int, Callable[[bool], None]], None],
        renew: Callable[[int], None],
        happened: list[Occurrence],
        specs: Sequence[ReplicaSpec],
        accounts: Attributions | None = None,
    ) -> None:
        self.alive = [True] * len(replicas)
        self.draining = [False] * len(replicas)
        self.replicas = replicas
        self.changed: Callable[[int, bool], None] | None = None
        self.made: dict[int, int] = {}
        self._accounts = accounts
        self._cluster = cluster
        self._flights = flights
        self._agenda = agenda
        self._turn = turn
        self._news = news
        self._passed = passed
        self._gone = gone
        self._touch = touch
        self._renew = renew
        self._happened = happened
        self._factors: dict[int, list[float]] = {}  # of the current slow spells, by replica
        self._away: dict[int, list[tuple[int, int]]] = {}  # lost devices by replica: until when, and how many
        self._specs = list(specs)
        self._starts = Counter(fault.replica for fault in cluster.faults if fault.kind == "join")  # that are to come
        self._next: dict[int, Fault] = {}  # starts that wait until who drains there has left

    def begin(self) -> None:
        """Add all faults; a replica that joins later is absent until then."""
        first = 0
        for pool in self._cluster.pools:
            for number in range(first + pool.replicas, first + pool.slots):
                self._absent(number)
            first += pool.slots
        for number in self._cluster.absent:
            self._absent(number)
        for fault in self._cluster.faults:
            if fault.kind in ("link_slow", "link_lost"):  # the network's, which looks ahead
                self._note(fault, ps(fault.at_s), ps(fault.at_s) + ps(fault.for_s) if fault.for_s else NEVER)
            else:
                self._later(ps(fault.at_s), self._happen, fault)

    def leave_if_idle(self, number: int) -> None:
        """A drained replica leaves once nothing runs on it or is on its way to it."""
        if self.replicas[number].sequences or any(number in flight.places for flight in self._flights()):
            return
        self._returns_no_more(number)
        self._shut(number)
        self._turn(ReplicaLeft(self._agenda.now, number))
        self._notify(number)

    def drain(self, number: int, gone_at: int = 0) -> None:
        """A replica takes no new requests, and leaves when it is empty; `gone_at`: or then, 0 for never."""
        self.draining[number] = True
        self._turn(Draining(self._agenda.now, number, gone_at))
        self.leave_if_idle(number)

    def lease(self, number: int) -> None:
        """The devices of a replica are taken, and paid for from now on."""
        stats = self.replicas[number].stats
        if stats.up_from >= 0:
            stats.before.append((stats.up_from, stats.up_until))
        stats.up_from, stats.up_until = self._agenda.now, NOT_YET

    def end_lease(self, number: int) -> None:
        """The devices are given back."""
        self.replicas[number].stats.up_until = self._agenda.now

    def serve(self, number: int) -> None:
        """A replica is ready for requests."""
        self.alive[number], self.draining[number] = True, False
        self._turn(ReplicaJoined(self._agenda.now, number))

    def know(self, number: int, spec: ReplicaSpec) -> None:
        """Replace the known properties of a replica."""
        self._turn(ReplicaUpdated(self._agenda.now, number, spec))

    def close(self, now: int) -> None:
        """The run is over; every step that ends by now counts, and no replica was up longer."""
        for replica, alive in zip(self.replicas, self.alive, strict=True):
            stats = replica.stats
            if alive:
                stats.up_until = now
                replica.close(now, True)
            else:
                stats.up_until = now if stats.up_until == NOT_YET else min(stats.up_until, now)
            if stats.up_from > now:
                stats.up_from = -1
            stats.before = [(since, min(until, now)) for since, until in stats.before if since <= now]

    def _later(self, at: int, call: Callable[[Fault], None], fault: Fault) -> None:
        self._agenda.later(at, FAULT, lambda: call(fault))

    def _happen(self, fault: Fault) -> None:
        number, now = fault.replica, self._agenda.now
        if fault.kind == "join":
            self._start(fault)
        elif not self.alive[number]:
            return
        elif fault.kind == "slow":
            self._slow(fault)
        elif fault.kind == "device_lost":
            self._lose_devices(fault)
        elif fault.kind == "lost":
            self._note(fault, now, now)
            self._lose(number)
        else:
            gone_at = 0
            self._note(fault, now, now + ps(fault.notice_s))
            if fault.kind == "reclaimed":
                gone_at, replica = now + ps(fault.notice_s), self.replicas[number]
                self._later(gone_at, lambda _: self._lose(number, replica), fault)
            self.drain(number, gone_at)
            self._notify(number)

    def _start(self, fault: Fault) -> None:
        """A replica begins to start, unless one of its number is up or starts; where that one drains, after it."""
        number, now = fault.replica, self._agenda.now
        if self.draining[number] and number not in self._next:
            self._next[number] = fault
            return
        self._starts[number] -= 1
        if self.alive[number] or self.replicas[number].stats.up_until == NOT_YET != self.replicas[number].stats.up_from:
            return
        self.lease(number)
        stages = self._cluster.pools[self._cluster.pool_of(number)].stages
        serves_at = now + ps((stages.warming_s + stages.loading_s) * fault.factor)
        self._note(fault, now, serves_at)
        self._later(serves_at, self._join, fault)

    def _join(self, fault: Fault) -> None:
        if self.replicas[fault.replica].closed:
            self._renew(fault.replica)
        self.serve(fault.replica)

    def _slow(self, fault: Fault) -> None:
        """A device slows; of several spells at once the worst counts."""
        number, replica = fault.replica, self.replicas[fault.replica]
        factors = self._factors.setdefault(number, [])

        def end(_: Fault) -> None:
            if self.replicas[number] is replica and not replica.closed:
                factors.remove(fault.factor)
                self._pace(number)

        factors.append(fault.factor)
        self._pace(number)
        until = self._agenda.now + ps(fault.for_s) if fault.for_s else NEVER
        self._note(fault, self._agenda.now, until)
        if fault.for_s:
            self._later(until, end, fault)

    def _lose_devices(self, fault: Fault) -> None:
        """Devices are lost: their replica is slower until they return if its estimator survives that, else lost."""
        number, now, replica = fault.replica, self._agenda.now, self.replicas[fault.replica]
        until = now + ps(fault.for_s) if fault.for_s else NEVER
        lost, away = (until, fault.devices), self._away.setdefault(number, [])

        def end(_: Fault) -> None:
            if self.replicas[number] is replica and not replica.closed:
                away.remove(lost)
                self._pace(number)

        away.append(lost)
        self._note(fault, now, until)
        if self._survives(number) is None:
            back_at = max(at for at, _ in away)
            if back_at < NEVER and self.changed is None:  # else the scaler decides what starts
                self._starts[number] += 1
                self._later(back_at, self._start, Fault(fault.at_s, "join", number))
            self._lose(number)
            return
        self._pace(number)
        if fault.for_s:
            self._later(until, end, fault)

    def _survives(self, number: int) -> float | None:
        """The factor on a replica's step times with its remaining devices; None: it is lost."""
        lost = sum(devices for _, devices in self._away.get(number, ()))
        return after_loss(self.replicas[number].estimator, lost) if lost else 1.0

    def _pace(self, number: int) -> None:
        """Set a replica's speed: a slow device and the loss of another multiply."""
        factor = max([1.0, *self._factors.get(number, ())]) * (self._survives(number) or 1.0)
        replica = self.replicas[number]
        self._touch(number, lambda passed: _set_pace(replica, factor, self._agenda.now, passed))

    def _note(self, fault: Fault, at: int, until: int) -> None:
        self._happened.append(Occurrence(at, until, fault.kind, fault.replica))

    def _absent(self, number: int) -> None:
        self.alive[number] = False
        self.replicas[number].stats.up_from = -1

    def _notify(self, number: int, lost: bool = False) -> None:
        if self.changed is not None:
            self.changed(number, lost)

    def _lose(self, number: int, reclaimed: Replica | None = None) -> None:
        """A replica is lost; `reclaimed`: unless another one has taken its place since."""
        now, replica = self._agenda.now, self.replicas[number]
        if not self.alive[number] or (reclaimed is not None and reclaimed is not replica):
            return
        self._news()
        self._returns_no_more(number)
        for row in replica.sequences:
            made = replica.progress(row, now, self._passed(number))
            if made:
                self.made[row] = max(made, self.made.get(row, 0))
            if self._accounts is not None:
                self._accounts.lose(row, replica)
        self._shut(number)
        self._turn(ReplicaLost(now, number))
        self._notify(number, True)

    def _returns_no_more(self, number: int) -> None:
        """Announce a replica that leaves now and will not start again: nothing may be sent to it once it is gone."""
        spec = self._specs[number]
        if spec.returns and not self._starts[number] and self.changed is None:
            self.know(number, spec._replace(returns=False))

    def _shut(self, number: int) -> None:
        self.alive[number] = self.draining[number] = False
        self._factors.pop(number, None)
        self._away.pop(number, None)
        replica = self.replicas[number]
        replica.close(self._agenda.now, self._passed(number))
        self.end_lease(number)
        self._gone(number)
        if number in self._next:
            self._later(self._agenda.now, self._start, self._next.pop(number))


def _set_pace(replica: Replica, factor: float, now: int, passed: bool) -> None:
    """Steps of a replica that begin from now on take `factor` times as long as they would; 1: as long as usual."""
    busy = replica.busy(now)
    if replica.spells and replica.spells[-1].until == NEVER:
        replica.spells[-1].until = busy
    if factor != 1:
        replica.spells.append(Slowdown(busy, factor))
    replica.slowed = factor
    replica.retime()
    replica.look_again(now, passed)
