"""A forward and a backward at once on one device, each behind the messages of the other: DualPipe's pairs of chunks."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from poise.program.program import Builder, Program
from poise.program.task import Lane, Task, at

BESIDE = "compute 1"
"""The second lane of computations of a rank."""
ARG = "side by side"
"""Of the tasks that begin and end a pair together."""
FORWARDS = ("F", "F_NO_GRAD")
BACKWARDS = ("B", "I")


def side_by_side(program: Program, serial: Collection[int] = (), together: bool = False) -> Program:
    """Run each forward and the backward directly behind it at once: the backward on a lane `compute 1`.

    Each begins when the task before them has ended and what it reads is there; the task behind them begins when both
    have ended. So a schedule is a list still, a pair in it is F and then B or I, and nothing waits that did not wait
    before. together: both begin when both can, as one call that does both must; some schedules deadlock then, which the
    proof finds. serial: ranks whose first pair stays one after the other. DeepSeek's code is `together`, with the ranks
    in the middle `serial`. How much each is slowed by the other is for a simulation to say.
    """
    into = Builder.of(program)
    for rank in range(program.ranks):
        row = into.rows.get(Lane(rank, "compute"), [])
        row[:] = _paired(into, rank, row, rank in serial, together)
    return into.build()


def _paired(into: Builder, rank: int, row: Sequence[Task], serial: bool, together: bool) -> list[Task]:
    """The lane `compute` of a rank, without the backwards that are beside a forward."""
    made: list[Task] = []
    slot = 0
    while slot < len(row):
        task = row[slot]
        pair = _are_pair(row[slot : slot + 2])
        if serial or not pair:
            serial = serial and not pair
            made.append(task)
            slot += 1
            continue
        after = row[slot + 1]
        last = next((each.writes[-1:] for each in reversed(made) if each.writes), ())
        if together:
            made.append(_wait(rank, "compute", after.reads, f"one{slot}"))
        made += [task, _wait(rank, "compute", after.writes[-1:], f"both{slot}")]
        into.add(_wait(rank, BESIDE, (*last, *(task.reads if together else ())), f"two{slot}"))
        into.add(after._replace(lane=BESIDE))
        slot += 2
    return made


def _are_pair(tasks: Sequence[Task]) -> bool:
    """Whether these are a forward and a backward, which does not use what the forward makes."""
    one, two = tasks[0], tasks[-1]
    return one.kind in FORWARDS and two.kind in BACKWARDS and not {*two.reads} & {*one.writes}


def _wait(rank: int, lane: str, reads: tuple[str, ...], sign: str) -> Task:
    """A task of no time, whose result says that all that it reads is there."""
    return Task("wait", rank, lane, reads, (at(sign, rank),), arg=ARG)
