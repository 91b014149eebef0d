"""Answers training runs by closed forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from poise.core.errors import PoiseError
from poise.cost.training.figures import Figures
from poise.cost.training.step import Prediction, predict
from poise.validation.training.layouts import read_layouts
from poise.validation.training.run import Run
from poise.validation.training.table import read_tables
from poise.validation.training.vtrain import read_vtrain


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a run: seconds, bytes, or 1 and 0 for whether it fits; or why there is none.

    seconds, safe: the predicted step, and whether it leaves headroom, whatever was asked.
    """

    run: Run
    predicted: float | None = None
    why: str = ""
    seconds: float = 0.0
    safe: bool = True

    @property
    def off(self) -> float:
        """The signed relative error."""
        assert self.predicted is not None
        return self.predicted / self.run.value - 1


def read_runs(folder: Path) -> tuple[list[Run], list[str]]:
    """All runs of the sources that a folder holds, and a line for each row that cannot be read."""
    found = [read(folder) for read in (read_vtrain, read_layouts, read_tables)]
    return [run for runs, _ in found for run in runs], [fault for _, faults in found for fault in faults]


def answer(run: Run, use: Figures | None = None) -> Answer:
    """The answer to one run."""
    if run.job is None or run.layout is None:
        return Answer(run, None, run.why)
    try:
        found = predict(run.job, run.layout, use)
    except PoiseError as error:
        return Answer(run, None, str(error))
    return Answer(run, _figure(run, found), seconds=found.seconds, safe=found.safe(run.job))


def answers(runs: Sequence[Run], use: Figures | None = None) -> list[Answer]:
    """The answers to all runs."""
    return [answer(run, use) for run in runs]


def _figure(run: Run, found: Prediction) -> float:
    if run.metric == "fits":
        assert run.job is not None
        return float(found.fits(run.job))
    if run.metric == "peak_memory":  # what the software allocates; the context and fragments are beyond its sight
        return found.memory - found.classes["framework"]
    return found.seconds
