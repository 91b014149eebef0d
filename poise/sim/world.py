"""The world with virtual time: the truth about replicas, links and clients, driven event by event.

`Control` decides on belief and `Replica`s on their own exact state; this module only carries things between them. At
one instant events go in a fixed order (faults, reports, transfers, arrivals, time-outs, then steps by replica), so a
run repeats itself, and a boundary inside a held batch is met as if every step had its own event.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from poise.core.action import Abort, Action, Dispatch, Refuse, Wake
from poise.core.control import Control
from poise.core.event import (
    Arrived,
    Cancelled,
    Draining,
    Event,
    Finished,
    FirstToken,
    Joined,
    Left,
    Lost,
    Prefilled,
    Refused,
    Tick,
)
from poise.core.records import CANCELLED, FINISHED, NOT_YET, REJECTED, TIMED_OUT, UNFINISHED, Records, Run
from poise.core.replica import DONE, FIRST_TOKEN, PREFILLED, PULL, Replica
from poise.core.request import Sequence as Running
from poise.core.spec import Cluster, Fault
from poise.core.state import DRAINING
from poise.core.units import NEVER, SECOND, ps
from poise.sim.arrivals import Arrivals
from poise.sim.network import Network
from poise.sim.reports import Reports

if TYPE_CHECKING:
    from poise.core.trace import Trace
    from poise.workload.table import Workload

FAULT, MEASURE, DELIVER, TRANSFER, ARRIVE, TIMEOUT, WAKE, STEP, SAMPLE = range(9)
"""Kinds of things that happen, in their order at one instant."""

_ID_BITS = 36
_AT_BITS = _ID_BITS + 4
_ID_MASK = (1 << _ID_BITS) - 1
_KIND_MASK = 15 << _ID_BITS
_STEP = STEP << _ID_BITS
_ARRIVE = ARRIVE << _ID_BITS
_END = NEVER << _AT_BITS


def _links(cluster: Cluster) -> list[float]:
    """Bytes/s of each replica's link: as stated, or the scale-out bandwidth of its devices together."""
    rates: list[float] = []
    for pool in cluster.pools:
        device = pool.device
        own = (device.scaleout_bw or device.host_bw or device.scaleup_bw) * pool.devices
        rates += [cluster.link_bw or own or 10e9] * pool.replicas
    return rates


class World:
    """One simulated run.

    replicas: one for each replica of the cluster, in order; those that a `join` fault brings are absent until then.
    limits: the longest request (prompt and output) that each replica can hold, in tokens.
    until_s: no arrivals later than this; with `drain` what has arrived is finished, else the run stops there.
    sample_s: period of the timeline in `Run.samples`, 0 for none.  after_event: called after each event (for tests).
    progress: called now and then with (requests ended, requests).
    """

    def __init__(
        self,
        cluster: Cluster,
        workload: Workload,
        control: Control,
        replicas: Sequence[Replica],
        limits: Sequence[int],
        *,
        until_s: float | None = None,
        drain: bool = True,
        sample_s: float = 0.0,
        trace: Trace | None = None,
        after_event: Callable[[World], None] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.cluster = cluster
        self.control = control
        self.replicas = list(replicas)
        self.arrivals = Arrivals(workload)
        self.records = Records(self.arrivals.rows)
        self.now = 0
        self.arrived = 0
        self.ended = 0
        self.refusals: dict[str, int] = {}
        self._limits = list(limits)
        self._until = NEVER if until_s is None else ps(until_s)
        self._drain = drain
        self._sample = ps(sample_s)
        self._trace = trace
        self._after_event = after_event
        self._progress = progress
        self._patience = workload.retry
        self._slots = workload.concurrency
        self._heap: list[int] = []
        self._next = _END
        self._next_row = -1
        self._stepped_at = -1
        self._stepped = -1
        self.alive = [True] * len(self.replicas)
        self._attempts: dict[int, int] = {}
        self._made: dict[int, int] = {}  # tokens that a client has from a replica that was lost
        self._laters: dict[int, Callable[[], None]] = {}
        self._later_count = 0
        self._handlers: dict[int, Callable[[int], None]] = {
            FAULT: self._do_later,
            MEASURE: self._measure,
            DELIVER: self._do_later,
            TRANSFER: self._do_later,
            ARRIVE: self._arrive,
            TIMEOUT: self._time_out,
            WAKE: lambda _: self._turn(Tick(self.now)),
            SAMPLE: self._take_sample,
        }
        self._observed = control.observes or trace is not None
        self.network = Network(_links(cluster), cluster.link_latency_s)
        self.reports = Reports(control, self.replicas)
        self._handle = control.handle
        self._plain = trace is None and not self.reports.watches
        self.run = Run(self.records, [replica.stats for replica in self.replicas])
        self.run.drained = drain

    # The loop --------------------------------------------------------------------------------------------------------

    def simulate(self) -> Run:
        """Run to the end; Ctrl-C ends it early and marks it so."""
        wall, cpu = time.perf_counter(), time.process_time()
        run = self.run
        collecting = gc.isenabled()
        gc.disable()  # nothing here makes cycles, and looking for them costs a tenth of the time
        try:
            self._begin()
            self._loop()
        except KeyboardInterrupt:
            run.interrupted = True
        finally:
            if collecting:
                gc.enable()
        if not self._drain and not run.interrupted:
            self.now = min(self._until, NEVER - 1)
        self._close()
        run.wall_s, run.cpu_s = time.perf_counter() - wall, time.process_time() - cpu
        return run

    def _begin(self) -> None:
        for fault in self.cluster.faults:
            if fault.kind == "join":
                self.alive[fault.replica] = False
                self.replicas[fault.replica].stats.up_from = -1  # not up until it joins
            self._later(ps(fault.at_s), FAULT, lambda fault=fault: self._fault(fault))  # type: ignore[misc]
        if self.reports.period:
            self._push(self.reports.period, MEASURE)
        if self._sample:
            self._push(0, SAMPLE)
        for _ in range(self._slots):
            self._enter()
        if not self._slots:
            self._find_next()

    def _loop(self) -> None:
        heap, replicas = self._heap, self.replicas
        status = self.control.state.status
        stop = _END if self._drain else (self._until + 1) << _AT_BITS
        after_event, progress = self._after_event, self._progress
        count = 0
        while True:
            key = heap[0] if heap else _END
            if self._next < key:
                key = self._next
                if key >= stop:
                    return
                self.now = key >> _AT_BITS
                row = self._next_row
                self._find_next()
                self._arrive(row)
            elif key >= stop:
                return
            else:
                heappop(heap)
                now = key >> _AT_BITS
                number = key & _ID_MASK
                if key & _KIND_MASK == _STEP:
                    replica = replicas[number]
                    if replica.next_at != now:
                        continue  # it was cut and has another entry
                    self.now = now
                    if now != self._stepped_at:
                        self._stepped_at, self._stepped = now, number
                    elif number > self._stepped:
                        self._stepped = number
                    out = replica.turn(now)
                    if replica.next_at < NEVER:
                        heappush(heap, replica.next_at << _AT_BITS | _STEP | number)
                    if out:
                        self._outcomes(out, number)
                    if status[number] == DRAINING and not replica.sequences:
                        self._leave_if_idle(number)
                else:
                    self.now = now
                    self._handlers[key >> _ID_BITS & 15](number)
            if after_event is not None:
                after_event(self)
            if progress is not None:
                count += 1
                if not count & 0x3FFF:
                    progress(self.ended, self.arrivals.rows)

    def _close(self) -> None:
        """Settle what is still open when the run stops."""
        records, run = self.records, self.run
        run.ended_at = self.now
        for number, replica in enumerate(self.replicas):
            for request in replica.sequences:
                if records.status[request] == UNFINISHED:
                    made = replica.progress(request, self.now, True)
                    records.output_tokens[request] = max(made, records.output_tokens[request])
            if self.alive[number]:
                replica.stats.up_until = self.now
                replica.close(self.now, True)
        run.offered = self.arrived

    # Clients ---------------------------------------------------------------------------------------------------------

    def _find_next(self) -> None:
        """Look up the next row that arrives by the clock."""
        row = next(self.arrivals.order, -1)
        at = self.arrivals.arrival[row] if row >= 0 else NEVER
        self._next = at << _AT_BITS | _ARRIVE if at <= self._until and row >= 0 else _END
        self._next_row = row

    def _enter(self) -> None:
        """Closed load: let the next row in."""
        row = next(self.arrivals.order, -1)
        if row >= 0:
            at = max(self.now, self.arrivals.arrival[row])
            if at <= self._until:
                self._push(at, ARRIVE, row)

    def _arrive(self, row: int) -> None:
        now, records = self.now, self.records
        request = self.arrivals.view(row, now)
        attempt = self._attempts.get(row, 0) if self._attempts else 0
        if not attempt:
            self.arrived += 1
            records.arrived_at[row] = now
            records.prompt_tokens[row] = request.prompt_tokens
            if self.arrivals.timeout and self.arrivals.timeout[row]:
                self._push(now + self.arrivals.timeout[row], TIMEOUT, row)
        elif records.status[row] != UNFINISHED:
            return  # it left while it waited to try again
        else:
            request = request._replace(arrived_at=records.arrived_at[row])
        self._turn(Arrived(now, request, attempt))

    def _end(self, row: int, status: int) -> None:
        """A request has met its end: let its followers, or the next of a closed load, go on."""
        records = self.records
        records.status[row] = status
        records.ended_at[row] = self.now
        self.ended += 1
        if self._slots:
            self._enter()
        if self.arrivals.followers:
            self._follow(row, status)

    def _follow(self, row: int, status: int) -> None:
        """Its followers arrive after their delay; if it failed they never come, and count as cancelled."""
        arrivals = self.arrivals
        for follower in arrivals.followers.get(row, ()):
            if self.records.status[follower] != UNFINISHED:
                continue
            if status != FINISHED:
                self.arrived += 1
                self.records.arrived_at[follower] = self.now
                self.records.prompt_tokens[follower] = arrivals.prompt[follower]
                self._end(follower, CANCELLED)
                continue
            arrivals.awaited[follower] -= 1
            if not arrivals.awaited[follower]:
                at = self.now + (arrivals.delay[follower] if arrivals.delay else 0)
                if at <= self._until:
                    self._push(at, ARRIVE, follower)

    def _time_out(self, row: int) -> None:
        records = self.records
        if records.status[row] != UNFINISHED:
            return
        made = self._made.get(row, 0)
        for number in {records.replica[row], records.decode_replica[row]} - {-1}:
            replica = self.replicas[number]
            if row in replica.sequences:
                made = max(made, replica.progress(row, self.now, self.passed(number)))
        records.output_tokens[row] = made
        self._end(row, TIMED_OUT)
        self._turn(Cancelled(self.now, row, "timed out"))

    # Decisions -------------------------------------------------------------------------------------------------------

    def _turn(self, event: Event) -> None:
        """Apply, decide, perform."""
        if self._plain:
            for action in self._handle(event):
                if type(action) is Dispatch:
                    self._dispatch(action)
                else:
                    self._perform(action)
            return
        control, reports = self.control, self.reports
        if reports.watches and (type(event) is Arrived or control.held):
            if reports.always:
                self._perform_all(reports.measure(self.now, self.passed, self.now))
            else:
                reports.refresh(self.now, self.passed)
        self._perform_all(event)

    def _perform_all(self, event: Event) -> None:
        trace = self._trace
        if trace is None:
            for action in self.control.handle(event):
                self._perform(action)
            return
        trace.add(event)
        for action in self.control.handle(event):
            trace.add(action)
            self._perform(action)

    def _perform(self, action: Action) -> None:
        kind = type(action)
        if kind is Dispatch:
            self._dispatch(action)  # type: ignore[arg-type]
        elif kind is Wake:
            self._push(action.at, WAKE)  # type: ignore[union-attr]
        elif kind is Abort:
            self._abort(action.request, action.replica)  # type: ignore[union-attr]
        else:
            self._refuse(action)  # type: ignore[arg-type]

    def _dispatch(self, action: Dispatch) -> None:
        row, number, now, records = action.request, action.replica, self.now, self.records
        if records.dispatched_at[row] != NOT_YET:
            records.retries[row] += 1
            if not action.resume and self._made.pop(row, 0):
                records.first_token_at[row] = NOT_YET
        records.dispatched_at[row] = now
        records.replica[row], records.decode_replica[row] = number, action.decode
        request = self.control.flights[row].request
        room = min(self._limits[number], self._limits[action.decode]) - request.prompt_tokens
        if room < 1:
            self._turn(
                Refused(now, row, number, f"prompt of {request.prompt_tokens} tokens does not fit replica {number}")
            )
            return
        output = min(self.arrivals.truth(row), room)
        made = self._made.get(row, 0) if self._made else 0
        running = Running(request, output, made, self.arrivals.output_id(row))
        self._add(running, number)

    def _add(self, running: Running, number: int) -> None:
        replica = self.replicas[number]
        before = replica.next_at
        now = self.now
        replica.add(running, now, now == self._stepped_at and number <= self._stepped)
        if replica.next_at != before:
            heappush(self._heap, replica.next_at << _AT_BITS | _STEP | number)

    @property
    def retrying(self) -> set[int]:
        """Requests that were turned away and whose clients will try again."""
        return {
            row for row in self._attempts if row not in self.control.flights and self.records.status[row] == UNFINISHED
        } - {request.id for request in self.control.held}

    def _refuse(self, action: Refuse) -> None:
        row = action.request
        attempt = self._attempts.get(row, 0)
        if attempt < self._patience:
            self._attempts[row] = attempt + 1
            self.records.retries[row] += 1
            self._push(self.now + (SECOND << attempt), ARRIVE, row)  # 1 s, 2 s, 4 s …
        else:
            self.refusals[action.reason] = self.refusals.get(action.reason, 0) + 1
            self._end(row, REJECTED)

    def _abort(self, row: int, number: int) -> None:
        replica = self.replicas[number]
        if self.alive[number] and row in replica.sequences:
            self._touch(number, lambda passed: replica.abort(row, self.now, passed))

    # Replicas --------------------------------------------------------------------------------------------------------

    def _outcomes(self, out: list[tuple[int, Running]], number: int) -> None:
        """What came of a replica's turn: note it, and tell the control side what it may know."""
        records, now = self.records, self.now
        for code, running in out:
            row = running.request.id
            if code == FIRST_TOKEN:
                if records.first_token_at[row] == NOT_YET:
                    records.first_token_at[row] = now
                records.cached_tokens[row] = running.cached
                if self._observed:
                    self._turn(FirstToken(now, row, number))
            elif code == DONE:
                records.output_tokens[row] = running.output_tokens
                self._end(row, FINISHED)
                self._turn(Finished(now, row, running.output_tokens))
            else:
                self._outcome(code, running, number)

    def _outcome(self, code: int, running: Running, number: int) -> None:
        records = self.records
        row = running.request.id
        if code == PREFILLED:
            records.cached_tokens[row] = running.cached
            twin = Running(running.request, running.output_tokens, running.produced, running.output_id)
            twin.source = number
            self._add(twin, records.decode_replica[row])
        elif code == PULL:
            size = self.replicas[number].estimator.kv_bytes(running.chunk)
            done = self.network.send(self.now, running.source, number, size)
            self._later(done, TRANSFER, lambda: self._transferred(row, running, number))
        else:
            records.preemptions[row] = min(records.preemptions[row] + 1, 127)

    def _transferred(self, row: int, running: Running, number: int) -> None:
        source, target = self.replicas[running.source], self.replicas[number]
        if target.sequences.get(row) is not running:
            return  # it was given up meanwhile
        origin = running.source
        self._touch(origin, lambda passed: source.release(row, self.now, passed))
        self._touch(number, lambda passed: target.pulled(row, self.now, passed))
        self._turn(Prefilled(self.now, row, origin))

    def _touch(self, number: int, call: Callable[[bool], None]) -> None:
        """Tell a replica something and note when it wants to be called next."""
        replica = self.replicas[number]
        before = replica.next_at
        call(self.passed(number))
        if replica.next_at != before and replica.next_at < NEVER:
            self._push(replica.next_at, STEP, number)

    def passed(self, number: int) -> bool:
        """Whether a step of this replica that ends just now has been dealt with."""
        return self.now == self._stepped_at and number <= self._stepped

    def _fault(self, fault: Fault) -> None:
        number, now = fault.replica, self.now
        if fault.kind == "join":
            start = self.cluster.pools[self.cluster.pool_of(number)].start_s
            self._later(now + ps(start), FAULT, lambda: self._join(number))
        elif not self.alive[number]:
            return
        elif fault.kind == "lost":
            self._lose(number)
        else:
            if fault.kind == "reclaimed":
                self._later(now + ps(fault.notice_s), FAULT, lambda: self._lose(number))
            self._turn(Draining(now, number))
            self._leave_if_idle(number)

    def _join(self, number: int) -> None:
        self.alive[number] = True
        self.replicas[number].stats.up_from = self.now
        self._turn(Joined(self.now, number))

    def _lose(self, number: int) -> None:
        if not self.alive[number]:
            return
        replica = self.replicas[number]
        for row in replica.sequences:
            made = replica.progress(row, self.now, self.passed(number))
            if made:
                self._made[row] = max(made, self._made.get(row, 0))
        self._shut(number)
        self._turn(Lost(self.now, number))

    def _leave_if_idle(self, number: int) -> None:
        """A drained replica goes once nothing runs on it or is on its way to it."""
        flights = self.control.flights.values()
        if self.replicas[number].sequences or any(number in (flight.replica, flight.decode) for flight in flights):
            return
        self._shut(number)
        self._turn(Left(self.now, number))

    def _shut(self, number: int) -> None:
        self.alive[number] = False
        replica = self.replicas[number]
        replica.close(self.now, self.passed(number))
        replica.stats.up_until = self.now

    # The clock -------------------------------------------------------------------------------------------------------

    def _push(self, at: int, kind: int, number: int = 0) -> None:
        heappush(self._heap, at << _AT_BITS | kind << _ID_BITS | number)

    def _later(self, at: int, kind: int, call: Callable[[], None]) -> None:
        """Do `call` at `at`, in the order in which it was asked for."""
        self._later_count += 1
        self._laters[self._later_count] = call
        self._push(at, kind, self._later_count)

    def _do_later(self, number: int) -> None:
        self._laters.pop(number)()

    def _goes_on(self) -> bool:
        """Whether anything but reports and samples is still to come."""
        return self._next < _END or any(map(self._matters, self._heap))

    def _matters(self, key: int) -> bool:
        kind = key >> _ID_BITS & 15
        if kind == STEP:  # an entry of a batch that was cut since is void
            return self.replicas[key & _ID_MASK].next_at == key >> _AT_BITS
        return kind not in (MEASURE, DELIVER, SAMPLE)

    def _measure(self, _: int) -> None:
        reports = self.reports
        report = reports.measure(self.now, self.passed, self.now + reports.delay)
        self._later(report.at, DELIVER, lambda: self._perform_all(report))
        if self._goes_on():
            self._push(self.now + reports.period, MEASURE)

    def _take_sample(self, _: int) -> None:
        for number, replica in enumerate(self.replicas):
            if self.alive[number]:
                _, _, waiting, running, free = replica.look(self.now, self.passed(number))
                self.run.samples.append((self.now, number, waiting, running, replica.pool.total - free))
        if self._goes_on():
            self._push(self.now + self._sample, SAMPLE)
