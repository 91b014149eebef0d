"""The world with virtual time: the true state of replicas, links and clients, driven event by event.

`Control` decides on belief and each `Replica` on its own exact state; this module only carries things between them. A
boundary inside a held batch is met as if every step had an event of its own, so holding changes no result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Final

from poise.core.action import Abort, Action, Convert, Dispatch, Hedge, Lend, Move, Refuse, Scale, Wake
from poise.core.collector import paused
from poise.core.control.control import Control
from poise.core.control.state import DRAINING
from poise.core.engine.outcome import DONE, FIRST_TOKEN, PARKED, PREFILLED, PULL, Outcome
from poise.core.engine.replica import Replica
from poise.core.event import (
    Arrived,
    Cancelled,
    Draining,
    Event,
    Finished,
    FirstToken,
    PeerEnded,
    PeerSent,
    Refused,
    ReplicaLost,
    Tick,
)
from poise.core.fast_tuple import made
from poise.core.records.attributions import Attributions
from poise.core.records.records import FINISHED, LOST, NOT_YET, REJECTED, UNFINISHED, Run
from poise.core.request import RequestView
from poise.core.request import Sequence as Running
from poise.core.spec import Cluster
from poise.core.units import NEVER, ps
from poise.sim.agenda import (
    ARRIVE,
    DELIVER,
    END,
    FAULT,
    MEASURE,
    SAMPLE,
    START,
    STEP,
    TIMEOUT,
    TRANSFER,
    WAKE,
    Agenda,
    Entry,
)
from poise.sim.arrivals import conversations_of, programs_of, reusable
from poise.sim.clients import Clients
from poise.sim.encoding import Encoding
from poise.sim.gateways import Gateways, from_peer
from poise.sim.hedging import Hedging
from poise.sim.lending import Lending
from poise.sim.lifecycle import Lifecycle
from poise.sim.network import Network
from poise.sim.reports import Reports
from poise.sim.scaling import Scaling
from poise.sim.terms import NOTHING, TO_THE_END, UNSEEN, Saving, Stopping, Watching
from poise.sim.transfers import Transfers

if TYPE_CHECKING:
    from poise.core.records.request_log import RequestLog, RequestLogs
    from poise.core.records.trace import Trace
    from poise.workload.table import Workload


BEAT: Final = 1
"""The number of a wake that arrives with the clock, for a scaler."""

PATIENCE: Final = 1000
"""Beats for which a scaler may let requests wait when no other event is left; then they are given up."""


class World:
    """One simulated run.

    control: the control side; several, where several gateways share the requests. replicas: one for each replica of the
    cluster, in order; those that a `join` fault or a scaler brings are absent until then.  renew: makes the replica of
    a number anew, for a slot that is filled again; needed where a scaler decides. limits: the longest request (prompt
    and output) that each replica can hold, in tokens.  stopping, saving, watching: as `terms` has them.
    encoding: encoders apart from the replicas.
    """

    def __init__(
        self,
        cluster: Cluster,
        workload: Workload,
        control: Control | Sequence[Control],
        replicas: Sequence[Replica],
        limits: Sequence[int],
        *,
        renew: Callable[[int], Replica] | None = None,
        stopping: Stopping = TO_THE_END,
        saving: Saving = NOTHING,
        watching: Watching = UNSEEN,
        encoding: Encoding | None = None,
    ) -> None:
        controls = [control] if isinstance(control, Control) else list(control)
        self.control = control = controls[0]
        self.replicas = list(replicas)
        for replica in self.replicas if saving.slices else ():
            replica.slices = []
        self.agenda = Agenda()
        self.reports = Reports(control, self.replicas)
        self._limits = list(limits)
        self._until = NEVER if stopping.until_s is None else ps(stopping.until_s)
        self._drain = drain = stopping.drain
        self._enough = stopping.enough
        self._sample = ps(saving.sample_s)
        diary = saving.diary
        self._trace: Trace | RequestLog | RequestLogs | None = saving.trace if diary is None else diary
        self._after_event = watching.after_event
        self._on_progress = watching.progress
        self._plain = self._trace is None and not self.reports.watches and len(controls) == 1
        self._observed = control.observes or self._trace is not None
        self.direct = self._plain and control.plain and encoding is None
        """Whether arrivals and ends go to the control side as calls, without events that no policy would see."""
        self._stepped_at = -1
        self._stepped = -1
        self.accounts: Attributions | None = None
        if saving.blame or diary is not None:
            self.accounts = Attributions(len(workload), self.agenda, control.served, reusable(workload), diary)
            if diary is not None:
                diary.watch(controls, self.replicas)
        self.clients = Clients(
            workload, self.agenda, self._until, self._turn, self._news, self._progress, self._all_in, self.accounts,
            self._count_from,
        )  # fmt: skip
        self.clients.encoding = encoding
        self.records = self.clients.records
        self.gateways = Gateways(controls, self.clients.arrivals.session_of)
        network = Network.of(cluster)
        self.transfers = Transfers(
            self.replicas, limits, network, self.agenda, self.records,
            turn=self._turn, touch=self._touch, add=self._add, passed=self.passed,
            patience=0 if control.recovering is None else control.recovering.patience, accounts=self.accounts,
        )  # fmt: skip
        self.run = Run(
            self.records, [replica.stats for replica in self.replicas], drained=drain, programs=programs_of(workload),
            conversations=conversations_of(workload),
        )  # fmt: skip
        self.lending = Lending(self.replicas, network, self.agenda, self.run, turn=self._turn, touch=self._touch)
        self.hedging = Hedging(self.replicas, self.run, self.accounts)
        self.lifecycle = Lifecycle(
            cluster, self.replicas, self.gateways.flights, self.agenda, self._change, self._news, self.passed,
            self._gone, self._touch, self._renew, self.run.faults, control.state.replicas, self.accounts,
        )  # fmt: skip
        self.lending.lifecycle = self.lifecycle
        self._make = renew
        self.scaling: Scaling | None = None
        self._beats = 0
        if control.scaling is not None:
            self.scaling = Scaling(
                cluster, self.lifecycle, self.agenda, control.seed, control.state.replicas, self._renew,
                self.run.scaled, self.run.converted,
            )  # fmt: skip
            self.lifecycle.changed = self.scaling.changed

    def simulate(self) -> Run:
        """Run to the end; Ctrl-C ends it early and marks it so."""
        wall, cpu = time.perf_counter(), time.process_time()
        run = self.run
        try:
            with paused():  # nothing here makes cycles, and looking for them costs a tenth of the time
                self._begin()
                self._loop()
        except KeyboardInterrupt:
            run.interrupted = True
        if not self._drain and not run.interrupted:
            self.agenda.now = self._until
        self._close()
        run.wall_s, run.cpu_s = time.perf_counter() - wall, time.process_time() - cpu
        return run

    def passed(self, number: int) -> bool:
        """Whether a step of this replica that ends just now has been dealt with."""
        return self.agenda.now == self._stepped_at and number <= self._stepped

    # The loop --------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.lifecycle.begin()
        if self.scaling is not None:
            self.scaling.begin()
            self._next_beat()
        if self.reports.period:
            self.agenda.push(self.reports.period, MEASURE)
        if self._sample:
            self.agenda.push(0, SAMPLE)
        self.clients.begin()

    def _loop(self) -> None:
        agenda, clients, replicas = self.agenda, self.clients, self.replicas
        heap = agenda.heap
        status = self.control.state.status
        stop = END if self._drain else (self._until + 1, FAULT, 0)
        after_event = self._after_event
        counts = self._on_progress is not None or self._enough is not None
        direct = self.direct
        lends, due = self.control.lending is not None, self.lending.due
        handlers: dict[int, Callable[[int], None]]
        handlers = dict.fromkeys((FAULT, START, DELIVER, TRANSFER), agenda.do_later)
        handlers |= {ARRIVE: clients.arrive, TIMEOUT: clients.time_out}
        handlers |= {MEASURE: self._measure, WAKE: self._wake, SAMPLE: self._take_sample}
        count = 0
        while True:
            entry = heap[0] if heap else END
            if clients.next_arrival < entry:
                if clients.next_arrival >= stop:
                    return
                agenda.now = clients.next_arrival[0]
                row = clients.next_row
                clients.find_next()
                if direct:
                    self._arrive(row)
                else:
                    clients.arrive(row)
            elif entry >= stop:
                return
            else:
                now, kind, number = entry
                if kind == STEP:
                    replica = replicas[number]
                    if replica.next_at != now:
                        heappop(heap)  # it was cut and has another entry
                        continue
                    agenda.now = now
                    passed = now == self._stepped_at and number <= self._stepped
                    if not passed:
                        self._stepped_at, self._stepped = now, number
                    out = replica.turn(now, passed)
                    if replica.next_at < NEVER:
                        heapreplace(heap, (replica.next_at, STEP, number))
                    else:
                        heappop(heap)
                    if lends and not replica.running and replica.waiting:
                        self.lending.recall(number)
                    if out:
                        self._outcomes(out, number)
                    if status[number] == DRAINING and not replica.sequences:
                        self.lifecycle.leave_if_idle(number)
                else:
                    heappop(heap)
                    agenda.now = now
                    handlers[kind](number)
            if due:
                self.lending.settle()
            if after_event is not None:
                after_event(self)
            if counts:
                count += 1
                if not count & 0xFF and self._cut(count):
                    return

    def _cut(self, count: int) -> bool:
        """Report progress after so many events, and end a run that has shown enough."""
        if self._on_progress is not None and not count & 0x3FFF:
            self._on_progress(self.clients.ended, self.clients.arrivals.rows)
        if self._enough is None or not self._enough(self.run, self.agenda.now):
            return False
        self.run.interrupted = True
        return True

    def _all_in(self) -> None:
        """No arrivals are left: rates count until now."""
        now = self.run.arrivals_end = self.agenda.now
        for replica in self.replicas:
            replica.stats.arriving = replica.busy(now)

    def _count_from(self, at: int) -> None:
        """The caches are filled: requests count from now."""
        self.run.counted_from = at

    def _close(self) -> None:
        """End the open requests when the run stops."""
        records, run, now = self.records, self.run, self.agenda.now
        if self.clients.open and run.arrivals_end == NOT_YET:
            self._all_in()  # it was stopped before
        for replica in self.replicas:
            for request in replica.sequences:
                if records.status[request] == UNFINISHED:
                    made = replica.progress(request, now, True)
                    records.output_tokens[request] = max(made, records.output_tokens[request])
        for held in self.gateways.held():
            if self._drain and not run.interrupted and records.dispatched_at[held.id] != NOT_YET:
                records.status[held.id] = LOST  # its replica was lost, and no other ever took it
        if self._drain and not run.interrupted and self.clients.ended == self.clients.arrived:
            now = max(self.clients.last_at, 0)  # reports, samples and faults after the last request prolong no run
        if self.accounts is not None:
            self.accounts.close(now)
            run.blame = self.accounts.blame
        self.lifecycle.close(now)
        self.hedging.close()
        run.ended_at = now
        run.offered = self.clients.arrived
        if self.clients.director is not None:
            run.counts.update(self.clients.director.counts())
            for row in self.clients.director.spare():
                if run.programs is not None:
                    run.programs[row] = -1

    # Decisions -------------------------------------------------------------------------------------------------------

    def _arrive(self, row: int) -> None:
        """A request arrives for the first time where only the router sees it: `_turn` and `_dispatch` in one."""
        now, records = self.agenda.now, self.records
        request = self.clients.first_seen(row, now)
        answer = self.control.arrive(request, now)
        if not isinstance(answer, int):
            for action in answer:
                self._perform(action)
            return
        records.dispatched_at[row] = now
        records.replica[row] = records.decode_replica[row] = answer
        self._send(request, answer, self._limits[answer] - request.prompt_tokens, 0)

    def _turn(self, event: Event) -> None:
        """Apply, decide, record, perform."""
        if self._plain:
            for action in self.control.handle(event):
                if type(action) is Dispatch:
                    self._dispatch(action)
                else:
                    self._perform(action)
            return
        if type(event) is Arrived or (type(event) is Tick and self.scaling is not None):
            self._refresh()
        elif type(event) is not Cancelled and type(event) is not ReplicaLost:  # their news came before they happened
            self._news()
        self._notify(event)

    def _news(self) -> None:
        """Update the belief where a request is held that may be sent now."""
        if self.reports.watches and any(control.held for control in self.gateways.controls):
            self._refresh()

    def _refresh(self) -> None:
        """Update the belief, where that is done before each decision."""
        reports, now = self.reports, self.agenda.now
        if reports.always:
            for change in reports.adapters(now):
                self._notify(change)
            self._notify(reports.measure(now, self.passed, now))
        elif reports.watches:
            reports.refresh(now, self.passed)

    def _change(self, event: Event) -> None:
        """Replicas join or leave."""
        if type(event) is Draining:
            self.lending.recall(event.replica)
        if self.accounts is not None:
            self.accounts.settle_held()
        self._turn(event)

    def _notify(self, event: Event) -> None:
        for number, control in self.gateways.receivers(event):
            self._decide(number, control, event)

    def _decide(self, number: int, control: Control, event: Event) -> None:
        """Have one gateway decide on an event."""
        trace = self._trace
        if trace is not None:
            trace.add(event, number)
        actions = control.handle(event)
        if control.outbox:
            news, control.outbox = control.outbox, []
            at = self.agenda.now + ps(control.state.belief.share_s or 0.0)
            self.agenda.later(at, DELIVER, partial(self._share, number, news))
        for action in actions:
            if trace is not None:
                trace.add(action, number)
            self._perform(action)

    def _share(self, sender: int, news: Sequence[PeerSent | PeerEnded]) -> None:
        """The other gateways get what one reported."""
        for number, control in enumerate(self.gateways.controls):
            for item in news if number != sender else ():
                self._decide(number, control, from_peer(item, sender, self.agenda.now))

    def _perform(self, action: Action) -> None:
        if isinstance(action, Dispatch):
            self._dispatch(action)
        elif isinstance(action, Refuse):
            self._refuse(action)
        elif isinstance(action, Abort):
            self._abort(action.request, action.replica)
        elif isinstance(action, Move):
            self.transfers.move(action)
        elif isinstance(action, Lend):
            self.lending.lend(action)
        elif isinstance(action, Hedge):
            self._hedge(action)
        elif isinstance(action, Scale):
            assert self.scaling is not None
            self.scaling.want(action)
        elif isinstance(action, Convert):
            assert self.scaling is not None
            self.scaling.convert(action)
        elif isinstance(action, Wake):
            self.agenda.push(action.at, WAKE)

    def _dispatch(self, action: Dispatch) -> None:
        row, number, decode, resume = action
        now, records, made = self.agenda.now, self.records, self.lifecycle.made
        if records.dispatched_at[row] != NOT_YET:
            records.retries[row] += 1
            if not resume and made.pop(row, 0):
                records.first_token_at[row] = NOT_YET
                if self.accounts is not None:
                    self.accounts.start_again(row)
        records.dispatched_at[row] = now
        records.replica[row] = number
        records.decode_replica[row] = decode
        request = self.gateways.flight(row).request
        room = self._limits[number] - request.prompt_tokens
        if decode != number:
            room = min(room, self._limits[decode] - request.prompt_tokens)
        self._send(request, number, room, made.get(row, 0) if made else 0)

    def _send(self, request: RequestView, number: int, room: int, produced: int) -> None:
        """A request reaches its replica, which has room for `room` output tokens; `produced` are made already."""
        if room < 1:
            self._turn(Refused(self.agenda.now, request.id, number, f"prompt does not fit replica {number}"))
            return
        running = self.clients.arrivals.running(request, room, produced)
        if self.accounts is not None:
            self.accounts.queue(running, self.replicas[number])
        self._join(running, number)

    def _hedge(self, action: Hedge) -> None:
        row, number = action
        request = self.gateways.flight(row).request
        room = self._limits[number] - request.prompt_tokens
        if room < 1:
            self._turn(Refused(self.agenda.now, row, number, f"prompt does not fit replica {number}"))
            return
        copy = self.clients.arrivals.running(request, room)
        self.hedging.begin(copy, number)
        self._join(copy, number)

    def _add(self, running: Running, number: int) -> None:
        if self.accounts is not None:
            self.accounts.queue(running, self.replicas[number])
        self._join(running, number)

    def _join(self, running: Running, number: int) -> None:
        replica = self.replicas[number]
        before = replica.next_at
        now = self.agenda.now
        replica.add(running, now, now == self._stepped_at and number <= self._stepped)
        if replica.next_at != before:
            heappush(self.agenda.heap, (replica.next_at, STEP, number))

    def _refuse(self, action: Refuse) -> None:
        if self.records.status[action.request] != UNFINISHED:
            return  # its client left at this very instant, which the control side learns next
        if not self.clients.try_again(action.request):
            refusals = self.run.refusals
            refusals[action.reason] = refusals.get(action.reason, 0) + 1
            last = self.records.replica[action.request]
            lost = last >= 0 and not self.lifecycle.alive[last]
            self.clients.end(action.request, LOST if lost else REJECTED)

    def _abort(self, row: int, number: int) -> None:
        replica = self.replicas[number]
        self.transfers.aborted(row)
        self.hedging.copies.pop(row, None)
        if self.accounts is not None:
            self.accounts.lose(row, replica)  # unless its client left, and then its account is closed
        if self.lifecycle.alive[number] and row in replica.sequences:
            self._touch(number, lambda passed: replica.abort(row, self.agenda.now, passed))

    # Replicas --------------------------------------------------------------------------------------------------------

    def _outcomes(self, out: list[Outcome], number: int) -> None:
        """The outcomes of a replica's turn: record them, and notify the control side as far as it may know."""
        records, now = self.records, self.agenda.now
        for code, running in out:
            row = running.id
            if code == FIRST_TOKEN:
                if self.hedging.copies:
                    self.hedging.first_token(row, number)
                if records.first_token_at[row] < 0:
                    records.first_token_at[row] = now
                    if self.accounts is not None:
                        self.accounts.first_token(row)
                records.cached_tokens[row] = running.cached
                if self._observed:
                    self._turn(FirstToken(now, row, number))
            elif code == DONE:
                records.output_tokens[row] = running.output_tokens
                if self.transfers.trips:
                    self.transfers.ended(row)
                self.clients.end(row, FINISHED)
                if self.direct:
                    for action in self.control.finish(row, running.output_tokens, now):
                        self._perform(action)
                else:
                    self._turn(made(Finished, (now, row, running.output_tokens)))
            elif code == PREFILLED:
                records.cached_tokens[row] = running.cached
                twin = running.twin(running.output_tokens)
                twin.source = number
                self._add(twin, records.decode_replica[row])
            elif code == PULL:
                self.transfers.pull(running, number)
            elif code == PARKED:
                self.transfers.parked(row)
            else:
                records.preemptions[row] = min(records.preemptions[row] + 1, 127)
                self.transfers.preempted(row)
                self.lending.recall(number)

    def _gone(self, number: int) -> None:
        """A replica is lost."""
        self.transfers.lost(number)
        self.lending.gone(number)
        self.hedging.lost(number)

    def _touch(self, number: int, call: Callable[[bool], None]) -> None:
        """Call a replica and record when it wants to be called next."""
        replica = self.replicas[number]
        before = replica.next_at
        call(self.passed(number))
        if replica.next_at != before and replica.next_at < NEVER:
            self.agenda.push(replica.next_at, STEP, number)

    def _progress(self, row: int) -> int:
        """Output tokens that the client of `row` has by now."""
        made = self.lifecycle.made.get(row, 0)
        for number in {self.records.replica[row], self.records.decode_replica[row]} - {-1}:
            replica = self.replicas[number]
            if row in replica.sequences:
                made = max(made, replica.progress(row, self.agenda.now, self.passed(number)))
        return made

    def _wake(self, number: int) -> None:
        if number == BEAT:
            self._beats += 1
            if self._goes_on():
                self._next_beat()
        self._turn(Tick(self.agenda.now))

    def _next_beat(self) -> None:
        scaling = self.control.scaling
        assert scaling is not None
        self.agenda.push((self.agenda.now // scaling.beat + 1) * scaling.beat, WAKE, BEAT)

    def _renew(self, number: int) -> None:
        """Another replica takes the place of a lost one; the slot's figures continue."""
        assert self._make is not None
        old, new = self.replicas[number], self._make(number)
        new.stats, new.slices = old.stats, old.slices
        if self.scaling is not None:
            new.sends = self.control.state.replicas[number].role == "prefill"  # it may have another role
        self.replicas[number] = new
        self.reports.listen(number)

    # Reports and samples ---------------------------------------------------------------------------------------------

    def _measure(self, _: int) -> None:
        reports, now = self.reports, self.agenda.now
        for change in reports.adapters(now + reports.delay):
            self.agenda.later(change.at, DELIVER, partial(self._notify, change))
        report = reports.measure(now, self.passed, now + reports.delay)
        self.agenda.later(report.at, DELIVER, lambda: self._notify(report))
        if self._goes_on():
            self.agenda.push(now + reports.period, MEASURE)

    def _take_sample(self, _: int) -> None:
        now = self.agenda.now
        for number, replica in enumerate(self.replicas):
            if self.lifecycle.alive[number]:
                used = replica.pool.total - replica.space.available(now, self.passed(number))
                self.run.samples.append((now, number, len(replica.waiting), replica.running, used))
        if self._goes_on():
            self.agenda.push(now + self._sample, SAMPLE)

    def _goes_on(self) -> bool:
        """Whether any event but reports, samples and beats is left."""
        if self.clients.next_arrival < END or any(map(self._matters, self.agenda.heap)):
            self._beats = 0
            return True
        return self.scaling is not None and self._may_be_served(self.scaling)

    def _matters(self, entry: Entry) -> bool:
        at, kind, number = entry
        if kind == STEP:  # an entry of a batch that was cut since is void
            return self.replicas[number].next_at == at
        if kind == WAKE:
            return number != BEAT
        return kind not in (START, MEASURE, DELIVER, SAMPLE)

    def _may_be_served(self, scaling: Scaling) -> bool:
        """Whether a request waits for a replica that starts, or that the scaler may yet start."""
        if not any(control.held for control in self.gateways.controls):
            return False
        return scaling.starting() or self._beats < PATIENCE
