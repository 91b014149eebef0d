"""A driver under a clock moved by hand, and listeners that keep what they are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from poise.core.engine.replica import Replica
from poise.core.request import Sequence as Running
from poise.core.units import NEVER
from poise.live.emulator.drive import Driver
from poise.testing import Client


class Kept:
    """A listener that keeps the instants of its tokens."""

    def __init__(self) -> None:
        self.made = 0
        self.at: list[int] = []
        self.admitted_at = -1
        self.done_at = -1

    def admitted(self, at: int) -> None:
        assert self.admitted_at < 0, "admitted once"
        self.admitted_at = at

    def token(self, at: int) -> None:
        assert self.done_at < 0, "no token after the end"
        self.made += 1
        self.at.append(at)

    def done(self, at: int) -> None:
        assert self.done_at < 0, "done once"
        self.done_at = at


def play(
    replica: Replica, clients: Sequence[Client], after: Callable[[Driver, dict[int, Kept]], None] | None = None
) -> dict[int, Kept]:
    """Let the clients come and leave at their instants, and run on until nothing is due; what each was told."""
    driver = Driver(replica)
    kept = {client.request.id: Kept() for client in clients}
    happenings = [(client.request.arrived_at, False, client) for client in clients]
    happenings += [(client.leaves_at, True, client) for client in clients if client.leaves_at]
    for at, leaves, client in sorted(happenings, key=lambda each: (each[0], each[1], each[2].request.id)):
        while driver.next_at < at:
            driver.advance(driver.next_at)
            if after is not None:
                after(driver, kept)
        if leaves:
            driver.abort(client.request.id, at)
        else:
            running = Running(client.request, client.output_tokens, 0, client.output_id)
            driver.add(running, kept[client.request.id], at)
        if after is not None:
            after(driver, kept)
    while driver.next_at < NEVER:
        driver.advance(driver.next_at)
        if after is not None:
            after(driver, kept)
    return kept
