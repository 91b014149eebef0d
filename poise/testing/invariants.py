"""Invariants that hold after every event, checked by scanning everything: requests, tokens and blocks balance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poise.core.control.control import Control
from poise.core.control.state import DRAINING, SERVING
from poise.core.engine.adapters import AdapterSlots
from poise.core.engine.replica import Replica
from poise.core.records.records import NOT_YET, UNFINISHED, Run
from poise.core.request import Phase

if TYPE_CHECKING:
    from poise.sim.world import World


def check_replica(replica: Replica, now: int, passed: bool = False) -> None:
    """Every block is in one place, and every running sum equals a scan."""
    pool = replica.pool
    private = running = queued = 0
    odd = replica._cancelled or replica.kv_transfer.leaving or replica.pins.heap or replica.swaps.flying
    assert replica.odd or not odd or replica.space.only is None, "something is odd and the replica does not know"
    explicit = replica.swaps.leaving
    for lane in replica.lanes:
        lane.group.check()
        private += lane.group.private(lane.reach(now, passed))
        explicit += sum(pool.private(each) for each in (*lane.prefilling, *lane.joining, *lane.paused.values()))
        queued += sum(each.need - each.computed for each in lane.prefilling)
        running += lane.group.n + len(lane.paused) + len(lane.prefilling) + len(lane.joining)
        assert lane.until > now or lane.until == now >= 0, "a batch ended in the past"
    for sequence in replica.sequences.values():
        if sequence.phase == Phase.PULLING:
            running += 1
            explicit += pool.private(sequence)
            queued += sequence.need - sequence.computed
        elif sequence.phase in (Phase.SENDING, Phase.MOVING):
            running += sequence.phase == Phase.MOVING
            explicit += pool.private(sequence)
        elif sequence.phase == Phase.WAITING:
            queued += sequence.need
    assert explicit == pool.explicit, f"{pool.explicit} explicit private blocks, sequences say {explicit}"
    assert running == replica.running, f"{replica.running} running, lanes say {running}"
    assert queued == replica.queued_tokens, f"{replica.queued_tokens} queued tokens, sequences say {queued}"
    assert running <= replica.engine.max_sequences or replica.pins.heap, "more sequences than allowed"
    waiting = {sequence.id for sequence in replica.waiting}
    assert waiting == {each.id for each in replica.sequences.values() if each.phase == Phase.WAITING}
    loans = replica.loans
    assert pool.total == replica.stats.total_blocks - sum(loans.lent.values()) + sum(loans.borrowed.values())
    pool.check(private + explicit, loans.lost)
    if replica.adapters is not None:
        _check_adapters(replica, replica.adapters)


def _check_adapters(replica: Replica, adapters: AdapterSlots) -> None:
    """The adapters of admitted requests are those that run, and they are on the device."""
    adapters.check()
    named: dict[int, int] = {}
    for sequence in (*replica.sequences.values(), *replica._cancelled):
        if sequence.request.lora >= 0 and sequence.phase not in (Phase.WAITING, Phase.SENDING, Phase.ENDED):
            named[sequence.request.lora] = named.get(sequence.request.lora, 0) + 1
    assert named == adapters.running, f"adapters {adapters.running} run, sequences say {named}"


def check_world(world: World) -> None:
    """Every request is in one place, no instant runs backwards, and every live replica balances."""
    records = world.records
    open_rows = {
        row for row in range(records.rows) if records.arrived_at[row] != NOT_YET and records.status[row] == UNFINISHED
    }
    assert world.clients.arrived - world.clients.ended == len(open_rows), "a request ended twice or never arrived"
    placed = _known(world) | _retrying(world)
    assert placed == open_rows, f"open {sorted(open_rows)}, but the control side knows of {sorted(placed)}"
    for number, replica in enumerate(world.replicas):
        if world.lifecycle.alive[number]:
            check_replica(replica, world.agenda.now, world.passed(number))
    _check_loans(world)
    for control in world.gateways.controls:
        _check_counts(control)
    for row in range(records.rows):
        dispatched, first, ended = records.dispatched_at[row], records.first_token_at[row], records.ended_at[row]
        assert max(first, dispatched, ended) <= world.agenda.now
        assert first == NOT_YET or first >= records.arrived_at[row]
        assert ended == NOT_YET or ended >= max(first, records.arrived_at[row])


def _check_counts(control: Control) -> None:
    """The requests counted at each replica are those in flight there, its own gateway's and the others'."""
    state = control.state
    if not state.belief.in_flight:
        return
    counts = [0] * len(state.replicas)
    for flight in (*control.flights.values(), *control.peers.in_flight.flights.values()):
        for place in flight.places:
            counts[place] += state.status[place] in (SERVING, DRAINING)
    assert state.requests == counts, f"requests counted {state.requests}, in flight {counts}"


def _check_loans(world: World) -> None:
    """Every block lent is borrowed by the other side, or on its way; a lender does not borrow."""
    loans = world.lending.loans
    for number, replica in enumerate(world.replicas):
        if world.lifecycle.alive[number]:
            lent = {debtor: loan.blocks for (debtor, creditor), loan in loans.items() if creditor == number}
            assert lent == replica.loans.lent, f"replica {number} has lent {replica.loans.lent}, loans say {lent}"
            assert not (lent and replica.loans.borrowed), f"replica {number} lends and borrows"
            for creditor, blocks in replica.loans.borrowed.items():
                assert blocks <= loans[number, creditor].blocks, f"replica {number} has borrowed more than was lent"
    for pair, loan in loans.items():
        assert loan.blocks >= max(loan.due, 1) and all(world.lifecycle.alive[each] for each in pair)
        assert bool(loan.due) == (pair in world.lending.due)


def _known(world: World) -> set[int]:
    """Requests that some gateway has sent, or holds; no two gateways have the same."""
    known = [flight.request.id for flight in world.gateways.flights()]
    known += [request.id for request in world.gateways.held()]
    assert len(set(known)) == len(known), f"known twice: {sorted(known)}"
    return set(known)


def _retrying(world: World) -> set[int]:
    """Requests that were rejected and whose clients will retry."""
    known = _known(world)
    return {row for row in world.clients.attempts if row not in known and world.records.status[row] == UNFINISHED}


def check_blame(run: Run) -> None:
    """The parts of each request's time are not negative, and add up to the picosecond, however it ended."""
    blame, records = run.blame, run.records
    assert blame is not None, "the run was not asked for blame"
    for row in range(records.rows):
        arrived, first, ended = records.arrived_at[row], records.first_token_at[row], records.ended_at[row]
        until = run.ended_at if ended == NOT_YET else ended
        middle = until if first == NOT_YET else first
        for half, wanted in ((blame.ttft, middle - arrived), (blame.rest, until - middle)):
            parts = [column[row] for column in half]
            assert min(parts) >= 0, f"request {row} has a negative part: {parts}"
            assert sum(parts) == (0 if arrived == NOT_YET else wanted), f"request {row}: {parts} are not {wanted} ps"
