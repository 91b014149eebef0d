"""Experts that read what was there before the block, so that their exchange runs beside the block: ScMoE.

After Cai et al., "Shortcut-connected Expert Parallelism for Accelerating Mixture of Experts" (ICML 2025, arXiv
2404.05019), section 3: the experts' tokens are those of the preceding block, by a shortcut; the block's operators
hide the exchange, and the experts' products run in the slot between two operators where least of it is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from poise.core.errors import ProgramError
from poise.program.program import Program
from poise.program.task import Lane, Task, at

SHORTCUT = "shortcut"
"""What a Program accepts whose experts read the tokens before the block: another model."""
LAYER = frozenset({"dispatch", "token_gather", "up", "down", "token_scatter", "combine"})


def shortcut(program: Program, slot: int) -> Program:
    """A layer with operators before it (`poise.program.expert_layer`), whose experts read what these read.

    slot: how many of the operators run before the experts' products. ProgramError where there are fewer.
    """
    rows: dict[Lane, list[Task]] = {}
    for lane, row in program.rows.items():
        tasks = [_of_the_first(task) for task in row]
        rows[lane] = _moved(tasks, slot) if lane.name == "compute" else tasks
    made = program.with_rows(rows)
    return replace(made, accepts=made.accepts | {SHORTCUT})


def _of_the_first(task: Task) -> Task:
    """A task of the layer, for the tokens before all operators."""
    if task.kind == "split":
        return task._replace(reads=(at("state0", task.rank),))
    return task._replace(arg=(0, *task.arg[1:])) if task.kind in LAYER else task


def _moved(row: Sequence[Task], slot: int) -> list[Task]:
    dense = [task for task in row if task.kind == "dense"]
    if not 0 <= slot <= len(dense):
        raise ProgramError(f"shortcut: slot {slot}, and {len(dense)} operators are before the experts; give 0 to that")
    first = [task for task in row if task.kind == "split"]
    products = [task for task in row if task.kind in LAYER]
    last = [task for task in row if task.kind in ("join", "add")]
    return [*first, *dense[:slot], *products, *dense[slot:], *last]


def seconds(before: Sequence[float], there: float, experts: float, back: float, slot: int) -> float:
    """Of the block with its experts: the makespan of `shortcut`.

    before: of each operator.  there, back: of the exchange.  experts: of both products.
    """
    return max(sum(before[:slot]), there) + experts + max(sum(before[slot:]), back)


def best_slot(before: Sequence[float], there: float, experts: float, back: float) -> int:
    """The slot with the least seconds, of several the first."""
    return min(range(len(before) + 1), key=lambda slot: seconds(before, there, experts, back, slot))
