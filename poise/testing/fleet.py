"""Replicas with requests in flight, and the rules for moving such requests."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from poise.core.action import Move
from poise.core.units import SECOND
from poise.testing.builders import a_cluster, a_flight, a_replica, a_request
from poise.testing.columns import ClusterColumns, ReplicaColumns
from poise.testing.rule import RuleBroken
from poise.testing.twins import Twins

BLOCKS = 1000


def a_fleet(rng: random.Random, count: int, now: int) -> list[ReplicaColumns]:
    """Replicas that are lost, idle, busy, or full with waiting requests, and the requests sent to each."""
    return [_replica(rng, number, 100 * (now // SECOND) + 10 * number, now) for number in range(count)]


def _replica(rng: random.Random, number: int, first: int, now: int) -> ReplicaColumns:
    free, running, waiting = rng.choice(((0, 0, 0), (BLOCKS, 0, 0), (600, 5, 0), (100, 5, 2), (0, 5, 4)))
    requests = [
        a_request(
            id=first + each, prompt_tokens=rng.choice((100, 9000)), priority=rng.randrange(2),
            session=rng.choice((-1, each)), arrived_at=now - rng.randrange(1, 5) * SECOND // 5,
        )
        for each in range(running + waiting)
    ]  # fmt: skip
    flights = tuple(
        a_flight(
            request, replica=number, sent_at=request.arrived_at, first_token_at=now - 1 if place < running else -1,
            target=rng.choice((-1, -1, -1, (number + 1) % 4)),
        )
        for place, request in enumerate(requests)
    )  # fmt: skip
    queued = sum(request.prompt_tokens for request in requests[running:])
    return a_replica(
        requests=running + waiting, running=running, waiting=waiting, free_blocks=free, queued_tokens=queued,
        tokens=(BLOCKS - free) * 16 + queued, flights=flights, total_blocks=BLOCKS, able=rng.random() < 0.8,
        measured_at=now - rng.choice((0, SECOND)),
    )  # fmt: skip


def view_of(replicas: list[ReplicaColumns], needs: tuple[str, ...], now: int) -> Callable[[], ClusterColumns]:
    """Views of them, equal each time."""
    return lambda: a_cluster(*replicas, now=now, needs=needs)


def check_moves(twins: Twins, moves: list[Any], replicas: list[ReplicaColumns]) -> None:
    """Each move is of a request that is there and does not move yet, at most one of it, to a peer."""
    cluster, begun = a_cluster(*replicas), set()
    for move in moves:
        if type(move) is not Move or not 0 <= move.source < len(replicas):
            raise RuleBroken(f"{twins.who} answers {move!r}; it must be a Move from one of the replicas; {twins.where}")
        there = {each.request.id: each for each in replicas[move.source].flights}
        flight = there.get(move.request)
        if flight is None or flight.target >= 0 or move.request in begun:
            raise RuleBroken(
                f"{twins.who} asks for {move}; a request moves from where it is, and only once at a time; {twins.where}"
            )
        peers = cluster.peers(flight.request, move.source)
        if move.target not in peers:
            raise RuleBroken(f"{twins.who} asks for {move}; the peers are {list(peers)}; {twins.where}")
        begun.add(move.request)
