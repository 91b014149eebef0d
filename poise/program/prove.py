"""The proof that a Program runs to its end, within memory, and trains right; or the first fault with place and cure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from poise.program.contributions import contributions
from poise.program.index import Index
from poise.program.memory import peaks, within
from poise.program.order import freed, ordered
from poise.program.program import Program

Limits = Mapping[str, float]
"""For each tier the most that a rank may hold, in the unit of the values' sizes."""


@dataclass(frozen=True)
class Proof:
    """What was proven: all tasks run, without deadlock, and every update gets the gradient that it must."""

    tasks: int
    messages: int
    collectives: int
    peak_memory: Mapping[tuple[int, str], float]
    """The most that each rank holds in each tier, whatever the durations."""


def prove(program: Program, limits: Limits | None = None) -> Proof:
    """Prove `program`, in linear time; ProgramError names lane, slot, task, rule and cure.

    Proven are: each value is written once, and read on its rank; messages and collectives match in order; all tasks
    can run, whether sends are buffered or wait for their receivers; nothing is read behind the task that frees it;
    memory stays within `limits` at every instant, whatever the durations; each task takes what its kind needs, and each
    update gets exactly the gradient that the Program demands (see `contributions`).
    """
    index: Index = program.index
    order = ordered(index)
    freed(index)
    contributions(index, order)
    found = peaks(index, order)
    if limits:
        within(program, found, limits)
    messages = sum(source >= 0 for source in index.source)
    return Proof(len(index.tasks), messages, len(index.members), {each: high.bytes for each, high in found.items()})
