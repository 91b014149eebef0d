"""KV transfers between replicas: prompts of P/D pairs, and live migrations.

A live migration follows Llumnix (arXiv 2406.03243, section 4.2 and its code): parts are copied while decoding goes on,
each after its blocks were reserved at the target; when at most 16 blocks are left the request is paused for them.
It is given up where there is no room, where three parts did not catch up, or where the request ends or is preempted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from poise.core.action import Move
from poise.core.engine.replica import Replica
from poise.core.event import Event, Moved, MoveFailed, Prefilled
from poise.core.records.attributions import Attributions
from poise.core.records.records import Records
from poise.core.request import Phase
from poise.core.request import Sequence as Running
from poise.sim.agenda import TRANSFER, Agenda
from poise.sim.network import Network

LAST_BLOCKS = 16
"""The last part, of at most this many blocks, is copied while the request is paused."""

PARTS = 3
"""Parts that are copied while it decodes, at most."""


class InTransit:
    """A migrating request. twin: the request at its target.  part: how many parts have arrived."""

    __slots__ = ("part", "row", "source", "target", "twin")

    def __init__(self, row: int, source: int, target: int, twin: Running) -> None:
        self.row = row
        self.source = source
        self.target = target
        self.twin = twin
        self.part = 0


class Transfers:
    """Carries KV over the network and reports the results to replicas and the control side.

    limits: the longest request of each replica.  turn: passes an event to the control side.
    touch: calls a replica, with what has `passed` there.  add: hands a replica a request.
    passed: whether a step of this replica that ends just now has been dealt with.
    patience: picoseconds after which KV that has not arrived is given up, 0 for never.
    """

    def __init__(
        self,
        replicas: Sequence[Replica],
        limits: Sequence[int],
        network: Network,
        agenda: Agenda,
        records: Records,
        *,
        turn: Callable[[Event], None],
        touch: Callable[[int, Callable[[bool], None]], None],
        add: Callable[[Running, int], None],
        passed: Callable[[int], bool],
        patience: int = 0,
        accounts: Attributions | None = None,
    ) -> None:
        self.trips: dict[int, InTransit] = {}
        self.last_blocks = LAST_BLOCKS
        self._replicas = replicas
        self._limits = limits
        self._network = network
        self._agenda = agenda
        self._records = records
        self._turn = turn
        self._touch = touch
        self._add = add
        self._passed = passed
        self._patience = patience
        self._accounts = accounts

    # Prompts of P/D pairs --------------------------------------------------------------------------------------------

    def pull(self, running: Running, number: int) -> None:
        """Fetch the KV of a prompt from where it was computed."""
        size = self._replicas[number].estimator.kv_bytes(running.chunk)
        start, done = self._network.send(self._agenda.now, running.source, number, size)
        if self._accounts is not None:
            self._accounts.send(running.request.id, start)
        self._expect(done, lambda: self._pulled(running, number), lambda: self._missed(running, number))

    def _pulled(self, running: Running, number: int) -> None:
        row, origin = running.request.id, running.source
        if self._replicas[number].sequences.get(row) is not running:
            return  # it was given up meanwhile
        self._hand_over(row, origin, number)
        self._turn(Prefilled(self._agenda.now, row, origin))

    def _missed(self, running: Running, number: int) -> None:
        """The KV of a prompt did not arrive in time: it is computed where it should have arrived."""
        row, source, now = running.request.id, running.source, self._agenda.now
        origin, goal = self._replicas[source], self._replicas[number]
        if goal.sequences.get(row) is not running:
            return  # it was given up meanwhile
        self._touch(source, lambda passed: origin.kv_transfer.release(row, now, passed))
        self._touch(number, lambda passed: goal.kv_transfer.compute_here(row, now, passed))
        self._turn(Prefilled(now, row, source))

    def _expect(self, done: int, arrived: Callable[[], None], missed: Callable[[], None]) -> None:
        """KV is to arrive at an instant; where that is too late, it is given up when patience ends."""
        ends = self._agenda.now + self._patience
        if self._patience and done > ends:
            self._agenda.later(ends, TRANSFER, missed)
        else:
            self._agenda.later(done, TRANSFER, arrived)

    def _hand_over(self, row: int, source: int, target: int) -> None:
        """All of it has arrived: the source releases it, the target continues."""
        now, origin, goal = self._agenda.now, self._replicas[source], self._replicas[target]
        self._touch(source, lambda passed: origin.kv_transfer.release(row, now, passed))
        self._touch(target, lambda passed: goal.kv_transfer.pulled(row, now, passed))

    # Live migration --------------------------------------------------------------------------------------------------

    def move(self, action: Move) -> None:
        """Begin to move a request, or report why it stays."""
        row, source, target = action
        sequence = self._replicas[source].sequences.get(row)
        if sequence is None or sequence.cancelled:
            self._stay(action, "it has ended")
            return
        output = min(sequence.output_tokens, self._limits[target] - sequence.request.prompt_tokens)
        if output <= sequence.produced or (sequence.produced and output < sequence.output_tokens):
            self._stay(action, "the target cannot hold it")
            return
        twin = sequence.twin(output)
        if sequence.phase == Phase.WAITING:
            twin.source = sequence.source
            self._move_waiting(action, twin)
        elif sequence.phase == Phase.DECODE:
            trip = self.trips[row] = InTransit(row, source, target, twin)
            self._send_part(trip)
        else:
            self._stay(action, "its prompt is being computed")

    def parked(self, row: int) -> None:
        """A request is paused: copy the rest of it."""
        self._send_part(self.trips[row])

    def ended(self, row: int) -> None:
        """A request made its last token before it was moved."""
        if row in self.trips:
            self._drop_twin(self.trips.pop(row))

    def preempted(self, row: int) -> None:
        """A request was preempted before it was moved."""
        if row in self.trips:
            self._give_up(self.trips[row], "it was preempted")

    def aborted(self, row: int) -> None:
        """Its client left, or its source is lost; the control side aborts it at both ends."""
        self.trips.pop(row, None)

    def lost(self, number: int) -> None:
        """A replica is lost: requests that were moving there continue where they are."""
        for trip in [trip for trip in self.trips.values() if number in (trip.source, trip.target)]:
            del self.trips[trip.row]
            if trip.target == number:
                self._go_on(trip)

    def _move_waiting(self, action: Move, twin: Running) -> None:
        row, source, target = action
        now, origin = self._agenda.now, self._replicas[source]
        self._touch(source, lambda passed: origin.kv_transfer.withdraw(row, now, passed))
        self._note(row, source, target)
        self._turn(Moved(now, *action))
        self._add(twin, target)

    def _send_part(self, trip: InTransit) -> None:
        """Reserve room for what is computed and not yet copied, and copy it."""
        now, twin = self._agenda.now, trip.twin
        origin, goal = self._replicas[trip.source], self._replicas[trip.target]
        produced = origin.progress(trip.row, now, self._passed(trip.source))
        computed = twin.request.prompt_tokens + produced - 1
        room = []
        self._touch(
            trip.target,
            lambda passed: room.append(goal.kv_transfer.reserve(twin, produced, computed - twin.computed, now, passed)),
        )
        if not room[0]:
            self._give_up(trip, "there is no room at the target")
            return
        size = goal.estimator.kv_bytes(computed) - goal.estimator.kv_bytes(twin.computed)
        _, done = self._network.send(now, trip.source, trip.target, size)
        self._expect(done, lambda: self._arrived(trip), lambda: self._late(trip))

    def _arrived(self, trip: InTransit) -> None:
        """One part has arrived: continue with the next, pause the request for the last, or hand it over."""
        if self.trips.get(trip.row) is not trip:
            return  # it was given up meanwhile
        row, now, twin = trip.row, self._agenda.now, trip.twin
        origin, goal = self._replicas[trip.source], self._replicas[trip.target]
        goal.kv_transfer.received(row)
        if origin.sequences[row].phase == Phase.MOVING:
            del self.trips[row]
            if self._accounts is not None:
                self._accounts.go_over(twin, goal)
            self._hand_over(row, trip.source, trip.target)
            self._note(row, trip.source, trip.target)
            self._turn(Moved(now, row, trip.source, trip.target))
            return
        trip.part += 1
        produced = origin.progress(row, now, self._passed(trip.source))
        left = twin.request.prompt_tokens + produced - 1 - twin.computed
        if left <= self.last_blocks * origin.engine.block_tokens:
            self._touch(trip.source, lambda passed: origin.kv_transfer.park(row, now, passed))
        elif trip.part < PARTS:
            self._send_part(trip)
        else:
            self._give_up(trip, "it decodes faster than it is copied")

    def _late(self, trip: InTransit) -> None:
        if self.trips.get(trip.row) is trip:
            self._give_up(trip, "its KV did not arrive in time")

    def _give_up(self, trip: InTransit, reason: str) -> None:
        del self.trips[trip.row]
        self._drop_twin(trip)
        self._go_on(trip)
        self._stay(Move(trip.row, trip.source, trip.target), reason)

    def _drop_twin(self, trip: InTransit) -> None:
        goal, now = self._replicas[trip.target], self._agenda.now
        if goal.sequences.get(trip.row) is trip.twin:
            self._touch(trip.target, lambda passed: goal.abort(trip.row, now, passed))

    def _go_on(self, trip: InTransit) -> None:
        """Its source need not let it go any more."""
        origin, now = self._replicas[trip.source], self._agenda.now
        self._touch(trip.source, lambda passed: origin.kv_transfer.unpark(trip.row, now, passed))

    def _stay(self, action: Move, reason: str) -> None:
        self._turn(MoveFailed(self._agenda.now, *action, reason))

    def _note(self, row: int, source: int, target: int) -> None:
        """Record which replica computes the prompt and which the output."""
        records = self._records
        records.migrations[row] = min(records.migrations[row] + 1, 127)
        if records.replica[row] == source and records.first_token_at[row] < 0:
            records.replica[row] = target
        if records.decode_replica[row] == source:
            records.decode_replica[row] = target
