"""From computing operations to sends, receives and reductions, in the order in which PyTorch writes them out."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import chain

from poise.core.errors import ScheduleError
from poise.core.fast_tuple import made
from poise.pipeline.graph import Graph, graph_of
from poise.pipeline.op import Kind, Op
from poise.pipeline.schedule import Schedule

F, W, SEND_F, RECV_F, SEND_B, RECV_B = Kind.F, Kind.W, Kind.SEND_F, Kind.RECV_F, Kind.SEND_B, Kind.RECV_B
REDUCE_GRAD = Kind.REDUCE_GRAD


def communicate(schedule: Schedule) -> Schedule:
    """The schedule with its communications, as `_add_send_recv` of PyTorch's schedules.py orders them.

    Ranks take turns, an operation each where it is ready; an operation whose result another rank uses puts the send
    behind itself and the receive at the end of what the other rank has so far. So sends and receives have one common
    order of all ranks: messages between two ranks match first in, first out, and even sends that wait for their
    receiver cannot deadlock. A stage's gradients are reduced behind its last backward on each rank; where weights
    change behind every backward, each of them is an update of its own and nothing is written.
    """
    graph = graph_of(schedule)
    rows: list[list[Op]] = [[] for _ in schedule.ranks]
    last = _last_backward(graph) if schedule.updates == "flush" else set()
    receivers = _receivers(graph)
    gates = _gates(graph)
    needs, rank_of, stage_of = graph.needs.tolist(), graph.rank.tolist(), graph.stage.tolist()
    ops, first = list(chain.from_iterable(graph.schedule.ranks)), graph.first
    there = bytearray(first[-1])
    at, turns = first[:-1], deque(range(len(rows)))
    idle = 0
    while turns:
        rank = turns.popleft()
        index = at[rank]
        if index == first[rank + 1]:
            continue
        turns.append(rank)
        need = needs[index]
        if (need >= 0 and not there[need]) or (gates and not all(there[each] for each in gates.get(index, ()))):
            idle += 1
            if idle > len(turns):
                raise ScheduleError(f"{graph.place(index)} can never start; `check` tells the cycle")
            continue
        idle = 0
        op = ops[index]
        rows[rank].append(op)
        there[index] = 1
        at[rank] += 1
        target = receivers[index]
        if target >= 0 and rank_of[target] != rank:
            stage, kind, batch = op
            send, receive = (SEND_F, RECV_F) if kind is F else (SEND_B, RECV_B)
            rows[rank].append(made(Op, (stage, send, batch)))
            rows[rank_of[target]].append(made(Op, (stage_of[target], receive, batch)))
        if index in last:
            rows[rank].append(Op(op.stage, REDUCE_GRAD, None))
    return replace(schedule, ranks=tuple(tuple(row) for row in rows))


def _receivers(graph: Graph) -> list[int]:
    """For each operation the one that waits for its result, or −1."""
    found = [-1] * graph.first[-1]
    for index, need in enumerate(graph.needs.tolist()):
        if need >= 0:
            found[need] = index
    return found


def _gates(graph: Graph) -> dict[int, list[int]]:
    """What vocabulary passes and the backwards behind them wait for: no messages, but an order all the same."""
    found = {index: [need] for index, need in enumerate(graph.waits.tolist()) if need >= 0} if graph.joins else {}
    for join in graph.joins:
        for index in join.waiters:
            found[index] = [*found.get(index, ()), *join.needed]
    return found


def _last_backward(graph: Graph) -> set[int]:
    """The last weight gradient of each stage on each of its ranks."""
    found: dict[tuple[int, int], int] = {}
    for index, (rank, stage, kind) in enumerate(
        zip(graph.rank.tolist(), graph.stage.tolist(), graph.kind.tolist(), strict=True)
    ):
        if kind in (W, Kind.B):
            found[rank, stage] = index
    return set(found.values())
