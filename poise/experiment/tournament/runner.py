"""Runs the trials of a tournament that the ledger lacks, by a crew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol

from poise.experiment.fill import fill
from poise.experiment.progress import Meter
from poise.experiment.run import Shard
from poise.experiment.tournament.contest import Trial
from poise.experiment.tournament.factor import Combination
from poise.experiment.tournament.ledger import Ledger
from poise.experiment.workers import Done, Task, WorkerPool
from poise.report.figures import Figure


class Block(Protocol):
    """One set of conditions in which every combination can be run."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def by(self) -> Figure:
        """The figure that decides."""

    def print(self, chosen: Combination, at: float, seed: int) -> str:
        """A digest of the inputs of a run."""


@dataclass(slots=True)
class TrialRunner(Generic[Task, Done]):
    """tasks: those of trials, in an order of its own.  row: which trial a result is of, and what is kept of it.

    shard: of trials that do not depend on one another, only this part is run.
    """

    blocks: Sequence[Block]
    ledger: Ledger
    pool: WorkerPool[Task, Done]
    tasks: Callable[[Sequence[Trial]], Iterable[Task]]
    row: Callable[[Done], tuple[Trial, dict[str, Any]]]
    progress: Meter
    shard: Shard | None = None

    def fill(self, label: str, trials: Sequence[Trial], *, apart: bool = False) -> bool:
        """Run the trials that the ledger lacks; returns whether all are done then. apart: they may be run in shards."""
        trials = list(dict.fromkeys(trials))
        some = self.shard.of(trials) if apart and self.shard is not None else trials

        def note(came: Done) -> Trial:
            trial, row = self.row(came)
            self.ledger.add(self.key(trial), row)
            return trial

        fill(label, some, self.has, lambda left: self.tasks(sorted(left)), self.pool, note, self.progress)
        return all(map(self.has, trials))

    def key(self, trial: Trial) -> str:
        """The digest of a trial."""
        return self.blocks[trial.block].print(trial.levels, trial.at, trial.seed)

    def stored(self, trial: Trial) -> dict[str, Any] | None:
        """The stored figures of a trial; None where it is not done."""
        return self.ledger.rows.get(self.key(trial))

    def value(self, trial: Trial, figure: str) -> float | None:
        """A figure of a trial; None where it is not done or has none."""
        row = self.stored(trial)
        found: float | None = row["figures"].get(figure) if row else None
        return found

    def has(self, trial: Trial) -> bool:
        """Whether a trial is done."""
        return self.key(trial) in self.ledger.rows
