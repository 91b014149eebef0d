"""Simulate a Program on links that its transfers share."""

from __future__ import annotations

from poise.core.collector import paused
from poise.core.errors import ProgramError
from poise.program import Program
from poise.sim.links.wiring import Wiring
from poise.sim.program.clock import Clock
from poise.sim.program.loop import run
from poise.sim.program.result import Simulated
from poise.sim.program.routes import routes_of
from poise.sim.program.share import SLOWDOWN, shared


def simulate(
    program: Program, clock: Clock, wiring: Wiring, *, rates: bool = False, slowdown: float = SLOWDOWN
) -> Simulated:
    """Run `program` once. A lane does one task at a time, each as soon as all that it reads is there.

    A message occupies the sender's lane until its bytes are off the links, and arrives a latency later; it does not
    wait for the receiver. The members of a collective start together, and end together once the bytes of all are off.
    All transfers of one instant share the links max-min fairly (`poise.sim.links`); `rates` notes their rates over
    time. Two computations of one rank (on the lanes `compute` and `compute 1`) each take `slowdown` times as long while
    both run. Where no transfer has bytes, and no rank two such lanes, this is `program.walk`. ProgramError where tasks
    wait for each other (`prove` says which), and for a clock or wiring that does not fit.
    """
    index = program.index
    with paused():
        clock.check(index)
        clock, routes, links = shared(index, clock, routes_of(index, wiring), wiring.bytes_per_s, slowdown)
        found = run(index, clock, routes, links, rates)
    if -1 in found.ends:
        stopped = found.ends.index(-1)
        raise ProgramError(f"{index.place(stopped)} can never start; `Program.prove` names the tasks that wait")
    return found
