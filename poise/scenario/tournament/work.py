"""Runs of a tournament in processes: those that are not done yet, a workload made once for all that meet it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from poise.scenario.compare.cell import Cell, Task, simulated
from poise.scenario.crew import Crew
from poise.scenario.tournament.block import Block
from poise.scenario.tournament.factor import Combination
from poise.scenario.tournament.ledger import Ledger

Meter = Callable[[str, int, int], None]
"""Told now and then what is running, how much of it is done and how much there is."""


class Trial(NamedTuple):
    """One run: a combination in a block (by number) at a factor on the block's own rate."""

    block: int
    load: float
    seed: int
    levels: Combination


@dataclass(frozen=True, slots=True)
class Keyed:
    """A run to be simulated, and what finds its place when it comes back."""

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


@dataclass(slots=True)
class Hall:
    """Where trials are run."""

    blocks: Sequence[Block]
    ledger: Ledger
    crew: Crew[Keyed, Played]
    meter: Meter

    def fill(self, label: str, trials: Sequence[Trial]) -> None:
        """Run the trials that the ledger lacks."""
        trials = list(dict.fromkeys(trials))
        left = sorted(trial for trial in trials if self.key(trial) not in self.ledger.rows)
        ended = len(trials) - len(left)
        self.meter(label, ended, len(trials))

        def done(came: Played) -> None:
            nonlocal ended
            self.ledger.add(self.key(came.trial), self.blocks[came.trial.block].name, came.cell)
            ended += 1
            self.meter(label, ended, len(trials))

        self.crew.work(tasks(self.blocks, left), done)

    def key(self, trial: Trial) -> str:
        """The print of a trial."""
        return self.blocks[trial.block].print(trial.levels, trial.load, trial.seed)

    def value(self, trial: Trial, figure: str) -> float | None:
        """A figure of a trial; None where it is not done or has none."""
        row = self.ledger.rows.get(self.key(trial))
        found: float | None = row["figures"].get(figure) if row else None
        return found

    def has(self, trial: Trial) -> bool:
        """Whether a trial is done."""
        return self.key(trial) in self.ledger.rows

    def growth(self, trial: Trial) -> float | None:
        """By which share of the arrivals the backlog of a trial grew."""
        row = self.ledger.rows.get(self.key(trial))
        found: float | None = row["backlog_growth"] if row else None
        return found


def tasks(blocks: Sequence[Block], trials: Sequence[Trial], *, cut: bool = False) -> Iterator[Keyed]:
    """The tasks of trials in their order. cut: keep recorded runs in bins of time."""
    for (at, load, seed), some in groupby(trials, lambda trial: (trial.block, trial.load, trial.seed)):
        block = blocks[at]
        workload = block.make(seed, load)
        for trial in some:
            task = block.task(trial.levels, load, seed, workload, cut=cut and block.recorded)
            yield Keyed(trial, task)
