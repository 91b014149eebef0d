"""Random Programs with all sorts of transfers, their clocks and wirings."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from poise.core.units import SECOND
from poise.program import Builder, Content, Program, Task
from poise.program.task import at
from poise.sim.links import Wiring
from poise.sim.program import Clock

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_to_all", "broadcast", "barrier")
SIZES = (0.0, 1.0, 2.5, 7.0)
TIMES = (0, SECOND, 3 * SECOND // 2, 4 * SECOND)


class World(NamedTuple):
    program: Program
    clock: Clock
    wiring: Wiring


@st.composite
def worlds(draw: st.DrawFn, joint: bool = True, alone: bool = False) -> World:
    """A Program of up to 25 steps on 2 to 4 ranks. `joint`: with collectives; `alone`: every lane has its own link."""
    ranks = draw(st.integers(2, 4))
    into = Builder("random")
    there = {rank: [into.give(at("in", rank), Content({}))] for rank in range(ranks)}
    inline = draw(st.booleans())
    actions = st.sampled_from(["compute", "send", "send", "copy", *(["joint"] * joint)])
    for number, action in enumerate(draw(st.lists(actions, min_size=1, max_size=25))):
        _add(draw, into, there, action, number, inline)
    program = into.build()
    wiring = draw(_wirings(ranks, alone))
    index = program.index
    ticks = [0 if task.kind == "recv" else draw(st.sampled_from(TIMES)) for task in index.tasks]
    lags = [draw(st.sampled_from(TIMES)) if joint or send >= 0 else 0 for send in index.source]
    return World(program, Clock(ticks, lags), wiring)


@st.composite
def _wirings(draw: st.DrawFn, ranks: int, alone: bool) -> Wiring:
    speed = st.sampled_from((1.0, 2.0, 3.5))
    if alone:
        wiring = Wiring.measured([[draw(speed) for _ in range(ranks)] for _ in range(ranks)])
    else:
        wiring = Wiring.nodes(
            ranks, draw(st.integers(1, 2)), scaleup_bw=draw(speed), scaleout_bw=draw(speed), ranks_per_nic=2
        )
    return wiring.with_copies({"d2h": draw(speed), "disk": draw(speed)})


def _add(
    draw: st.DrawFn, into: Builder, there: dict[int, list[str]], action: str, number: int, inline: bool
) -> None:  # fmt: skip
    rank = draw(st.sampled_from(sorted(there)))
    reads = tuple(draw(st.lists(st.sampled_from(there[rank]), min_size=1, max_size=2, unique=True)))
    work = draw(st.sampled_from(SIZES))
    made = at(f"v{number}", rank)
    if action == "send":
        target = draw(st.sampled_from([each for each in there if each != rank]))
        name = reads[0].rpartition("@")[0]
        out, back = ("compute", "compute") if inline else (f"to {target}", f"from {rank}")
        if at(name, target) not in there[target]:
            into.add(Task("send", rank, out, (reads[0],), (), work, (rank, target)))
            into.add(Task("recv", target, back, (), (at(name, target),), work, (rank, target)))
            there[target].append(at(name, target))
    elif action == "joint":
        group = tuple(sorted(draw(st.sets(st.sampled_from(sorted(there)), min_size=1))))
        kind = draw(st.sampled_from(COLLECTIVES))
        for each in group:
            own = (draw(st.sampled_from(there[each])),)
            new, size = at(f"v{number}", each), draw(st.sampled_from(SIZES))
            into.add(Task(kind, each, f"group {group}", own, (new,), size, group, number))
            there[each].append(new)
    else:
        lane = draw(st.sampled_from(["d2h", "disk"])) if action == "copy" else "compute"
        into.add(Task(action, rank, lane, reads[:1] if action == "copy" else reads, (made,), work))
        there[rank].append(made)
