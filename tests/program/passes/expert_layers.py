"""Layers of experts as simulated, for tests of the passes that cut them."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import settings
from hypothesis import strategies as st

from poise.program import Program
from poise.program.task import Task
from poise.program.timed import timed

SCALE = 5040
"""Ticks: divisible by the numbers of chunks, columns and ranks below."""
START = {"dispatch": 0, "combine": 0, "token_gather": 1, "token_scatter": 1, "up": 2}
WHOLE = st.integers(0, 30)
few = settings(max_examples=40, deadline=None)


def makespan(program: Program, starts: tuple[int, int, int] = (0, 0, 0)) -> Fraction:
    """As simulated; a receive ends when its message has been sent."""

    def ticks(task: Task) -> int:
        start = starts[START[task.kind]] if task.kind in START else 0
        return 0 if task.kind == "recv" else round(SCALE * (start + task.work))

    all_ticks = [ticks(task) for task in program.index.tasks]
    return timed(program, all_ticks, [0] * len(all_ticks), SCALE).makespan
