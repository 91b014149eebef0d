"""Sends and receives that are written out: each result once, matched in order, without deadlock; gradients reduced."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import NamedTuple

from poise.core.errors import ScheduleError
from poise.pipeline.graph import Graph
from poise.pipeline.op import COMMUNICATIONS, MESSAGES, Kind, Op
from poise.pipeline.schedule import Schedule
from poise.pipeline.walk import walk

_SENDS = (Kind.SEND_F, Kind.SEND_B)
_FORWARD = (Kind.SEND_F, Kind.RECV_F)


class _End(NamedTuple):
    """A send or receive: the computing operation whose result it carries, and its position."""

    carries: int
    rank: int
    slot: int
    op: Op

    def __str__(self) -> str:
        return f"{self.op} (rank {self.rank}, slot {self.slot})"


Channel = dict[tuple[int, int], list[_End]]

Matched = dict[tuple[int, int], tuple[int, int]]


def check_messages(schedule: Schedule, graph: Graph) -> None:
    """Prove the communications of `schedule`, whose computing operations `graph` are proven already."""
    sends, receives = _ends(schedule, graph)
    matched = _match(sends, receives)
    first, needs = _rows(schedule, graph)
    _buffered(schedule, first, needs, matched)
    _waiting(schedule, first, needs, matched)
    _reduced(schedule)


def _rows(schedule: Schedule, graph: Graph) -> tuple[list[int], list[int]]:
    """Where the rows of the ranks and of the barriers begin, and what is waited for besides messages (−1: nothing)."""
    first = [0, *accumulate(len(row) for row in schedule.ranks)]
    needs = [-1] * first[-1]
    if not graph.joins:
        return first, needs
    flat = (op for row in schedule.ranks for op in row)
    place = [index for index, op in enumerate(flat) if op.kind not in COMMUNICATIONS]
    for index, need in enumerate(graph.waits.tolist()):
        if graph.kind[index] == Kind.S:
            needs[place[index]] = place[need]
    for join in graph.joins:
        needs += [place[need] for need in join.needed]
        first.append(len(needs))
        for index in join.waiters:
            needs[place[index]] = len(needs) - 1
    return first, needs


def _ends(schedule: Schedule, graph: Graph) -> tuple[Channel, Channel]:
    """The sends and receives of each ordered pair of ranks, in the order of the sender and of the receiver."""
    sends: Channel = {}
    receives: Channel = {}
    needs, rank_of = graph.needs.tolist(), graph.rank.tolist()
    users = {need: index for index, need in enumerate(needs) if need >= 0}
    index = 0
    for rank, row in enumerate(schedule.ranks):
        done: set[int] = set()
        arrived: set[int] = set()
        for slot, op in enumerate(row):
            if op.kind in MESSAGES:
                end = _end(schedule, graph, rank, slot, op, users)
                if op.kind in _SENDS:
                    if end.carries not in done:
                        raise ScheduleError(f"{end} comes before {graph.at(end.carries)[2]}, which makes what it sends")
                    sends.setdefault((rank, rank_of[users[end.carries]]), []).append(end)
                else:
                    receives.setdefault((rank_of[end.carries], rank), []).append(end)
                    arrived.add(end.carries)
            elif op.kind not in COMMUNICATIONS:
                need = needs[index]
                if need >= 0 and rank_of[need] != rank and need not in arrived:
                    name = "RECV_F" if op.kind is Kind.F else "RECV_B"
                    raise ScheduleError(
                        f"{op} (rank {rank}, slot {slot}) uses what {graph.place(need)} makes, but no "
                        f"{op.stage}{name}{op.microbatch} stands before it; add one"
                    )
                done.add(index)
                index += 1
    return sends, receives


def _end(schedule: Schedule, graph: Graph, rank: int, slot: int, op: Op, users: dict[int, int]) -> _End:
    """A send or receive with the operation whose result it carries; ScheduleError where there is no such result."""
    batch, fault = op.microbatch, ""
    if batch is None or op.stage >= schedule.stages or batch >= schedule.microbatches:
        raise ScheduleError(
            f"{op} (rank {rank}, slot {slot}) is outside the schedule's stages and microbatches; remove it"
        )
    table = graph.forward if op.kind in _FORWARD else graph.gradient
    own = int(table[op.stage * schedule.microbatches + batch])
    carries = -1
    if own < 0 or graph.rank[own] != rank:
        fault = "concerns a stage whose microbatch is on another rank; move it there"
    else:
        far = users.get(own, -1) if op.kind in _SENDS else int(graph.needs[own])
        carries = own if op.kind in _SENDS else far
        if far < 0 or graph.rank[far] == rank:
            fault = "has no other rank to speak with; remove it"
    if fault:
        raise ScheduleError(f"{op} (rank {rank}, slot {slot}) {fault}")
    return _End(carries, rank, slot, op)


def _match(sends: Channel, receives: Channel) -> Matched:
    """For each receive (rank, slot) the (rank, slot) of its send; ScheduleError where the orders differ."""
    matched = {}
    for pair in sorted({*sends, *receives}):
        sent, received = sends.get(pair, []), receives.get(pair, [])
        for at, (one, two) in enumerate(zip(sent, received, strict=False)):
            if one.carries != two.carries:
                raise ScheduleError(
                    f"ranks {pair[0]} and {pair[1]}: message {at} is sent by {one} but received by {two}; messages "
                    "between two ranks match in order, so the wrong tensor would be used without any error: "
                    f"receive on rank {pair[1]} in the order in which rank {pair[0]} sends"
                )
            matched[two.rank, two.slot] = one.rank, one.slot
        if len(sent) != len(received):
            extra = (sent if len(sent) > len(received) else received)[min(len(sent), len(received))]
            missing = "receive" if len(sent) > len(received) else "send"
            raise ScheduleError(f"ranks {pair[0]} and {pair[1]}: {extra} has no {missing}; add it on the other rank")
    return matched


def _buffered(schedule: Schedule, first: list[int], needs: list[int], matched: Matched) -> None:
    """No deadlock where a send returns at once and a receive waits for its message."""
    needs = list(needs)
    for (rank, slot), (sender, sent) in matched.items():
        needs[first[rank] + slot] = first[sender] + sent
    zeros = [0] * first[-1]
    *_, stopped = walk(first, needs, zeros, zeros)
    for rank in range(len(schedule.ranks)):
        if stopped[rank] < first[rank + 1]:
            raise ScheduleError(_stuck(schedule, first, stopped, rank, "even with buffered sends"))


def _waiting(schedule: Schedule, first: list[int], needs: list[int], matched: Matched) -> None:
    """No deadlock where send and receive wait for each other, as large messages do."""
    partner = [-1] * len(needs)
    for (rank, slot), (sender, sent) in matched.items():
        partner[first[rank] + slot] = first[sender] + sent
        partner[first[sender] + sent] = first[rank] + slot
    owner = [row for row, (low, high) in enumerate(pairwise(first)) for _ in range(low, high)]
    at, ready = list(first[:-1]), list(range(len(first) - 1))
    waiters: dict[int, list[int]] = {}
    while ready:
        rank = ready.pop()
        index = at[rank]
        while index < first[rank + 1]:
            need, other = needs[index], partner[index]
            if need >= at[owner[need]] and need >= 0:
                waiters.setdefault(need, []).append(rank)
                break
            if other >= 0:
                if at[owner[other]] != other:
                    break
                at[owner[other]] += 1
                ready.append(owner[other])
            if waiters:
                ready.extend(waiters.pop(index, ()))
            index += 1
            at[rank] = index
    for rank in range(len(schedule.ranks)):
        if at[rank] < first[rank + 1]:
            raise ScheduleError(_stuck(schedule, first, at, rank, "where sends wait for their receiver"))


def _stuck(schedule: Schedule, first: list[int], at: list[int], rank: int, when: str) -> str:
    """The positions of all ranks that are blocked."""
    stand = [
        f"rank {each} at {schedule.ranks[each][at[each] - first[each]]} (slot {at[each] - first[each]})"
        for each in range(len(schedule.ranks))
        if at[each] < first[each + 1]
    ]
    return f"deadlock {when}: {', '.join(stand)}; bring sends and receives into one common order on rank {rank}"


def _reduced(schedule: Schedule) -> None:
    """REDUCE_GRAD, which also divides by the number of microbatches, once behind the last backward of each stage."""
    for rank, row in enumerate(schedule.ranks):
        last = {op.stage: slot for slot, op in enumerate(row) if op.kind in (Kind.W, Kind.B)}
        seen: set[int] = set()
        for slot, op in enumerate(row):
            if op.kind is not Kind.REDUCE_GRAD:
                continue
            if schedule.updates != "flush":
                raise ScheduleError(
                    f"{op} (rank {rank}, slot {slot}): with updates {schedule.updates} every backward changes the "
                    "weights, so nothing is reduced at the end; remove it"
                )
            if op.stage in seen or op.stage not in last:
                raise ScheduleError(f"{op} (rank {rank}, slot {slot}) has nothing left to reduce; remove it")
            if slot < last[op.stage]:
                late = row[last[op.stage]]
                raise ScheduleError(f"{op} (rank {rank}, slot {slot}) comes before {late}; move it behind")
            seen.add(op.stage)
        for stage, slot in last.items():
            if stage not in seen and schedule.updates == "flush":
                raise ScheduleError(
                    f"{stage}REDUCE_GRAD is missing on rank {rank}: it divides the gradients by the number of "
                    f"microbatches, which would be {schedule.microbatches} times too large; add it behind slot {slot}"
                )
