"""A world that knows nothing of serving: a number that grows with a parameter, and chance by seed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from poise.experiment.case import Case
from poise.experiment.compare import Experiment
from poise.report.figures import Figure

COST = Figure("Cost", ("cost",), "number", "what it costs", "less")
SIZE = Figure("Size", ("part", "size"), "count", "how large it is")
FIGURES = (COST, SIZE)


def world(case: Case, seed: int) -> dict[str, Any]:
    """Costs differ by a case's slope, and all cases of one seed meet the same chance."""
    chance = Random(seed).random()
    at = float(case.parameters["setting"])
    return {"cost": case.parameters["slope"] * at + 0.1 * chance, "part": {"size": int(10 * at)}}


def certain(case: Case, seed: int) -> dict[str, Any]:
    """The same without chance."""
    return world(case, 0)


def fragile(case: Case, seed: int) -> dict[str, Any]:
    """The same, but the process that begins with the cell that a case names is killed, once."""
    mark = Path(case.parameters["mark"])
    if seed == case.parameters["kills"] and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return world(case, seed)


def doomed(case: Case, seed: int) -> dict[str, Any]:
    """One cell kills every process that begins with it."""
    if seed == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return world(case, seed)


def experiment(run: Callable[[Case, int], Any] = world, *, chance: bool = True, **parameters: Any) -> Experiment:
    """Three cases at two settings under four seeds."""
    cases = tuple(Case(f"slope {slope}", {"slope": slope, **parameters}) for slope in (1, 2, 3))
    return Experiment(cases, run, FIGURES, COST, settings=(1.0, 2.0), seeds=(0, 1, 2, 3), chance=chance)
