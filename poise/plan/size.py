"""Climbs a ladder: finds the lowest rung that holds the SLO in simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from poise.plan.fleet import Fleet
from poise.plan.fleet_template import FleetTemplate
from poise.plan.goal import Goal
from poise.plan.trial import Bench, Trial

HIGHEST = 4
"""A climb ends at this factor of the closed form's rung: there, more of the same does not help."""


@dataclass(slots=True)
class Sized:
    """The result of climbing one ladder. best: the trial of the lowest rung that holds.  trials: all, in their order.

    why: why there is no best; empty where there is one.
    """

    name: str
    best: Trial | None = None
    trials: list[Trial] = field(default_factory=list)
    why: str = ""


def climb(
    kind: FleetTemplate,
    bench: Bench,
    allowed: Callable[[Fleet], str],
    stopped: Callable[[], bool] = bool,
    held: Callable[[Trial], None] = lambda trial: None,
    patience: Callable[[Fleet], float] = lambda fleet: inf,
) -> Sized:
    """Try rungs from the closed form's on, until one holds, then bisect the rungs in between.

    allowed: why a fleet is not worth a trial, empty where it is; what holds for a rung holds for those above it, and so
    does a share of arrivals that meets the SLO. stopped: whether to end with what there is.  held: called with each
    rung that holds, as it is found.  patience: with which a fleet is tried (`Bench.trial`).
    """
    sized = Sized(kind.name)
    low, high, rung, step = kind.floor - 1, 0, kind.first, 1
    while not high or high - low > 1:
        if stopped():
            sized.why = sized.why or "stopped"
            break
        fleet = kind.fleet(rung)
        if why := allowed(fleet):
            high, sized.why = rung, why
        elif (trial := _tried(sized, bench, fleet, patience(fleet))).meets(bench.goal):
            high, sized.best = rung, trial
            held(trial)
        else:
            low = rung
        if high:
            rung = (low + high) // 2
        elif low >= HIGHEST * kind.first:
            sized.why = _short(sized.trials[-1], bench.goal)
            break
        else:
            rung, step = low + step, 2 * step
    if sized.best is not None:
        sized.why = ""
    return sized


def _tried(sized: Sized, bench: Bench, fleet: Fleet, patience: float) -> Trial:
    """The trial of a fleet; two rungs may have the same one."""
    known = next((trial for trial in sized.trials if trial.fleet == fleet), None)
    if known is not None:
        return known
    trial = bench.trial(fleet, patience=patience)
    sized.trials.append(trial)
    return trial


def _short(trial: Trial, goal: Goal) -> str:
    """Why more replicas did not help."""
    if trial.cut:
        return f"at most {trial.attainment:.1%} meet the SLO with {trial.fleet.written}"
    if trial.meets(goal.predicted):
        return f"{trial.fleet.written} holds with {trial.confidence or 0.0:.0%} confidence only"
    worst = max(trial.misses, key=lambda name: trial.misses[name], default="")
    missed = f", {trial.misses[worst]:.1%} miss {worst}" if worst else ""
    return f"{trial.attainment:.1%} meet the SLO with {trial.fleet.written}{missed}"
