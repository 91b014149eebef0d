"""The simulations of a tournament: a workload is made once for all runs that share it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from poise.experiment.tournament.contest import Trial
from poise.report.figures import DECIDING
from poise.scenario.compare.cell import Cell, Task, simulated
from poise.scenario.tournament.block import Block


@dataclass(frozen=True, slots=True)
class Keyed:
    """A run to be simulated, and the key of its result."""

    trial: Trial
    task: Task


class Played(NamedTuple):
    """A run that was simulated."""

    trial: Trial
    cell: Cell


def played(keyed: Keyed, stopped: Callable[[], bool]) -> Played | None:
    """Simulate a run; None when `stopped` says so meanwhile."""
    cell = simulated(keyed.task, stopped)
    return None if cell is None else Played(keyed.trial, cell)


def tasks(blocks: Sequence[Block], trials: Sequence[Trial], *, cut: bool = False) -> Iterator[Keyed]:
    """The tasks of trials in their order. cut: keep recorded runs in bins of time."""
    for (at, load, seed), some in groupby(trials, lambda trial: (trial.block, trial.at, trial.seed)):
        block = blocks[at]
        workload = block.make(seed, load)
        for trial in some:
            task = block.task(trial.levels, load, seed, workload, cut=cut and block.recorded)
            yield Keyed(trial, task)


def row(blocks: Sequence[Block], came: Played) -> tuple[Trial, dict[str, Any]]:
    """The trial that was run, and its stored figures."""
    cell = came.cell
    return came.trial, {
        "block": blocks[came.trial.block].name,
        **cell.place._asdict(),
        "figures": {figure.name: figure.value(cell.figures) for figure in DECIDING.values()},
        "backlog_growth": cell.growth,
        "cpu_s": round(cell.cpu_s, 4),
    }
