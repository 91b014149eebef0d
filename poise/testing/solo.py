"""Runs one replica alone against a list of arrivals, with the order of events at one instant as in a world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from poise.core.engine.outcome import DONE, FIRST_TOKEN, PREEMPTED, PREFILLED, PULL
from poise.core.engine.replica import Replica
from poise.core.request import RequestView
from poise.core.request import Sequence as Running
from poise.core.units import NEVER
from poise.testing.rule import RuleBroken

OUTCOMES = {FIRST_TOKEN: "first token", DONE: "done", PREFILLED: "prefilled", PULL: "pull", PREEMPTED: "preempted"}
"""Names of what a turn may report."""

_STANDSTILL = 100  # turns at one instant without an outcome, after which nothing will come of it


class Client(NamedTuple):
    """A request, the tokens after which it ends, and when its client leaves (0: it stays).

    output_id: the extent id under which prompt and output are found later, -1 for none.
    """

    request: RequestView
    output_tokens: int
    leaves_at: int = 0
    output_id: int = -1


Log = list[tuple[int, str, int]]
"""The outcomes: `(instant, outcome, request)`, instants in picoseconds."""


def drive(
    replica: Replica,
    clients: Sequence[Client],
    after: Callable[[int, bool], None] | None = None,
    *,
    most_turns: int = 1_000_000,
) -> Log:
    """Let the clients arrive (and leave) until no event is left; returns every outcome.

    after: called after each event with the instant and whether the replica's step that ends then has been dealt
    with.  RuleBroken if requests are left, if time stands still, or after `most_turns` turns.
    """
    log: Log = []
    happenings = _happenings(clients)
    turns = still = 0
    at = -1
    while happenings or replica.next_at < NEVER:
        if happenings and happenings[0][0] <= replica.next_at:
            now, leaves, client = happenings.pop(0)
            if not leaves:
                running = Running(client.request, client.output_tokens, 0, client.output_id)
                replica.add(running, now)
            elif client.request.id in replica.sequences:
                replica.abort(client.request.id, now)
                log.append((now, "left", client.request.id))
            passed = False
        else:
            now = replica.next_at
            outcomes = replica.turn(now)
            log.extend((now, OUTCOMES[code], running.id) for code, running in outcomes)
            turns, still = turns + 1, 0 if outcomes or now != at else still + 1
            at, passed = now, True
            if still > _STANDSTILL:
                raise RuleBroken(
                    f"asked {still} times at instant {now} ps, it lets neither a step begin nor the lane idle"
                )
            if turns > most_turns:
                left = next(iter(replica.sequences.values()))
                raise RuleBroken(f"does not end {left!r} in {turns} turns: it starves, or is preempted again and again")
        if after is not None:
            after(now, passed)
    if replica.sequences:
        left = next(iter(replica.sequences.values()))
        raise RuleBroken(f"leaves {left!r} for ever: the lanes idle and nothing else will come")
    return log


def _happenings(clients: Sequence[Client]) -> list[tuple[int, bool, Client]]:
    """Arrivals and departures in order of time; at one instant arrivals first."""
    happenings = [(client.request.arrived_at, False, client) for client in clients]
    happenings += [(client.leaves_at, True, client) for client in clients if client.leaves_at]
    return sorted(happenings, key=lambda each: (each[0], each[1], each[2].request.id))
