"""The clients: when requests arrive, how long they wait, whether they retry, and which follow which."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from poise.core.event import Arrived, Cancelled, Event
from poise.core.fast_tuple import made
from poise.core.records.attributions import Attributions
from poise.core.records.records import CANCELLED, FINISHED, NOT_YET, TIMED_OUT, UNFINISHED, Records
from poise.core.request import RequestView
from poise.core.units import SECOND
from poise.sim.agenda import ARRIVE, END, START, TIMEOUT, Agenda, Entry
from poise.sim.arrivals import Arrivals
from poise.sim.encoding import Encoding
from poise.sim.lanes import Conversing

if TYPE_CHECKING:
    from poise.workload.table import Workload


class Clients:
    """All clients of a run.

    until: no arrivals later.  turn: passes an event to the control side.
    news: updates the belief, as before a decision, so that none is made for a client that has just left.
    progress: output tokens that a request has by now.
    next_arrival, next_row: the next arrival by the clock, as an entry of the agenda (END: none).
    accounts: latency attribution, where it is recorded.
    open: whether every request arrives at its own time, and waits for no other.  all_in: called with the last one.
    arrived, ended: the numbers so far; last_at: when the last one ended.
    opened: called with the instant from which the requests of lanes count.
    lanes: conversations of which a number is under way at any time, where the load is that.
    director: what decides which rows arrive, where the load is decided as it runs.
    attempts: how often a request was rejected and will be sent again.
    encoding: what encodes images and audio before requests are sent on; None: the replicas do.
    """

    def __init__(
        self,
        workload: Workload,
        agenda: Agenda,
        until: int,
        turn: Callable[[Event], None],
        news: Callable[[], None],
        progress: Callable[[int], int],
        all_in: Callable[[], None],
        accounts: Attributions | None = None,
        opened: Callable[[int], None] | None = None,
    ) -> None:
        self.arrivals = Arrivals(workload)
        self._order, self._stamps = self.arrivals.order, self.arrivals.arrival
        self.records = Records(self.arrivals.rows)
        self.next_arrival: Entry = END
        self.next_row = -1
        self.arrived = 0
        self.ended = 0
        self.last_at = -1
        self.attempts: dict[int, int] = {}
        self._accounts = accounts
        self._agenda = agenda
        self._until = until
        self._turn = turn
        self._news = news
        self._progress = progress
        self._patience = workload.retry
        self._slots = workload.concurrency
        self.lanes: Conversing | None = None
        if workload.lanes is not None:
            self.lanes = Conversing(workload.lanes, self.arrivals, agenda, self._cancel, opened)
        self.director = None if workload.directed is None else workload.directed()
        self.open = not self._slots and not self.arrivals.followers and self.lanes is None and self.director is None
        self._all_in = all_in
        self.encoding: Encoding | None = None
        self._encoded: set[int] = set()

    def begin(self) -> None:
        """Send the first requests."""
        for _ in range(self._slots):
            self._enter()
        if self.director is not None:
            self._send(self.director.begin())
        elif self.lanes is not None:
            self.lanes.begin()
        elif not self._slots:
            self.find_next()

    def find_next(self) -> None:
        """Find the next row that arrives by the clock."""
        row = next(self._order, -1)
        if row >= 0:
            at = self._stamps[row]
            if at <= self._until:
                self.next_row = row
                self.next_arrival = (at, ARRIVE, 0)
                return
        self.next_arrival = END
        if self.open:
            self._all_in()

    def arrive(self, row: int) -> None:
        """A request is sent, for the first time or again."""
        now, records = self._agenda.now, self.records
        if row in self._encoded:
            self._encoded.remove(row)
            if records.status[row] == UNFINISHED:  # else it left while it was encoded
                self._turn(Arrived(now, self._seen_before(row, now), 0))
        elif row not in self.attempts:
            request = self.first_seen(row, now)
            ready = now if self.encoding is None else self.encoding.ready(row, now)
            if ready > now:
                self._encoded.add(row)
                self._agenda.push(ready, ARRIVE, row)
                return
            self._turn(made(Arrived, (now, request, 0)))
        elif records.status[row] == UNFINISHED:  # else it left while it waited to try again
            if self._accounts is not None:
                self._accounts.come_back(row)
            self._turn(Arrived(now, self._seen_before(row, now), self.attempts[row]))

    def _seen_before(self, row: int, now: int) -> RequestView:
        """A request that goes on or comes again: its view, with its first arrival."""
        return self.arrivals.view(row, now)._replace(arrived_at=self.records.arrived_at[row])

    def first_seen(self, row: int, now: int) -> RequestView:
        """A request arrives for the first time: its view, and a record of its arrival."""
        arrivals, records = self.arrivals, self.records
        request = arrivals.view(row, now)
        self.arrived += 1
        records.arrived_at[row] = now
        records.prompt_tokens[row] = request.prompt_tokens
        if self.lanes is not None:
            self.lanes.arrived(row)
        if arrivals.timeout and arrivals.timeout[row]:
            self._agenda.push(now + arrivals.timeout[row], TIMEOUT, row)
        if self._accounts is not None:
            self._accounts.arrive(request)
        return request

    def try_again(self, row: int) -> bool:
        """Whether a rejected client retries: after 1 s, 2 s, 4 s …, as long as its patience lasts."""
        attempt = self.attempts.get(row, 0)
        if attempt >= self._patience:
            return False
        self.attempts[row] = attempt + 1
        self.records.retries[row] += 1
        if self._accounts is not None:
            self._accounts.leave(row)
        self._agenda.push(self._agenda.now + (SECOND << attempt), ARRIVE, row)
        return True

    def time_out(self, row: int) -> None:
        """A client's patience is over."""
        if self.records.status[row] == UNFINISHED:
            self._news()
        if self.records.status[row] == UNFINISHED:  # else that news had it rejected
            made = self._progress(row)
            self.records.output_tokens[row] = made
            self.end(row, TIMED_OUT)
            self._turn(Cancelled(self._agenda.now, row, "timed out", made))

    def _cancel(self, row: int) -> None:
        """A client takes back what is under way."""
        self._news()
        if self.records.status[row] != UNFINISHED:
            return
        made = self._progress(row)
        self.records.output_tokens[row] = made
        self.end(row, CANCELLED)
        self._turn(Cancelled(self._agenda.now, row, "cancelled", made))

    def end(self, row: int, status: int) -> None:
        """A request has ended: start its followers, or the next of a closed load."""
        records = self.records
        records.status[row] = status
        records.ended_at[row] = self.last_at = self._agenda.now
        self.ended += 1
        if self._accounts is not None:
            self._accounts.end(row)
        if self.director is not None:
            self._send(self.director.ended(row, self._agenda.now, status == FINISHED))
            return
        if self._slots:
            self._enter()
        if self.arrivals.followers and (self.lanes is None or not self.lanes.over):
            self._follow(row, status)
        if self.lanes is not None:
            self.lanes.ended(row)

    def _send(self, sends: Iterable[tuple[int, int]]) -> None:
        """Let rows arrive at their instants, and wake the director at its own."""
        for row, at in sends:
            if at <= self._until:
                if row >= 0:
                    self._agenda.push(at, ARRIVE, row)
                else:
                    self._agenda.later(at, START, self._wake)

    def _wake(self) -> None:
        if self.director is not None:
            self._send(self.director.woken(self._agenda.now))

    def _enter(self) -> None:
        """Closed load: send the next row."""
        row = next(self.arrivals.order, -1)
        if row >= 0:
            at = max(self._agenda.now, self.arrivals.arrival[row])
            if at <= self._until:
                self._agenda.push(at, ARRIVE, row)

    def _follow(self, row: int, status: int) -> None:
        """Its followers arrive after their delay; if it failed they never arrive, and count as cancelled."""
        arrivals, records, now = self.arrivals, self.records, self._agenda.now
        for follower in arrivals.followers.get(row, ()):
            if records.arrived_at[follower] != NOT_YET:
                continue
            if status != FINISHED:
                self.arrived += 1
                records.arrived_at[follower] = now
                records.prompt_tokens[follower] = arrivals.prompt[follower]
                if self.lanes is not None:
                    self.lanes.arrived(follower)
                self.end(follower, CANCELLED)
                continue
            at = arrivals.met(row, follower, now)
            if 0 <= at <= self._until:
                if self.lanes is not None:
                    self.lanes.expect(follower, at)
                self._agenda.push(at, ARRIVE, follower)
