"""The trials that missed a plan most narrowly: they show what binds it, or how far off an impossible SLO is."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from poise.plan.fleet import unit_name
from poise.plan.goal import Goal
from poise.plan.trial import Trial


def smaller(best: Trial, goal: Goal) -> Callable[[Iterable[Trial]], Trial | None]:
    """Finds the largest fleet of the same makes as the best one that is smaller and does not hold."""

    def nearest(trials: Iterable[Trial]) -> Trial | None:
        short = [each for each in trials if not each.meets(goal) and _makes(each) == _makes(best)]
        short = [each for each in short if each.fleet.devices < best.fleet.devices]
        return max(short, key=lambda each: (each.fleet.devices, each.attainment), default=None)

    return nearest


def closest(trials: Iterable[Trial]) -> Trial | None:
    """The trial in which the largest share met the SLO, of the largest fleet of each make."""
    largest: dict[tuple[str, ...], Trial] = {}
    for each in trials:
        if each.cut or each.ttft_s is not None:
            known = largest.setdefault(_makes(each), each)
            if _reach(each) > _reach(known):
                largest[_makes(each)] = each
    return max(largest.values(), key=lambda each: each.attainment, default=None)


def _reach(trial: Trial) -> tuple[int, float]:
    return trial.fleet.devices, trial.attainment


def _makes(trial: Trial) -> tuple[str, ...]:
    return tuple(unit_name(pool) for pool in trial.fleet.pools)
