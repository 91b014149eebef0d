"""Simulate a Program on links that its transfers share."""

from __future__ import annotations

from poise.core.errors import ProgramError
from poise.program import Program
from poise.sim.links.wiring import Wiring
from poise.sim.program.clock import Clock
from poise.sim.program.loop import run
from poise.sim.program.result import Simulated
from poise.sim.program.routes import routes_of


def simulate(program: Program, clock: Clock, wiring: Wiring, *, rates: bool = False) -> Simulated:
    """Run `program` once. A lane does one task at a time, each as soon as all that it reads is there.

    A message occupies the sender's lane until its bytes are off the links, and arrives a latency later; it does not
    wait for the receiver. The members of a collective start together, and end together once the bytes of all are off.
    All transfers of one instant share the links max-min fairly (`poise.sim.links`); `rates` notes their rates over
    time. Where no transfer has bytes this is `program.walk`. ProgramError where tasks wait for each other (`prove` says
    which), and for a clock or wiring that does not fit.
    """
    index = program.index
    clock.check(index)
    found = run(index, clock, routes_of(index, wiring), wiring.bytes_per_s, rates)
    if -1 in found.ends:
        stopped = found.ends.index(-1)
        raise ProgramError(f"{index.place(stopped)} can never start; `Program.prove` names the tasks that wait")
    return found
