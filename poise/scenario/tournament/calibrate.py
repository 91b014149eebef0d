"""Finds the load of each block that the reference just carries: the tournament's loads are factors of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from poise.core.errors import ScenarioError, UserError
from poise.core.spec import Slo
from poise.experiment.tournament.contest import Trial
from poise.experiment.tournament.factor import Combination
from poise.experiment.tournament.runner import TrialRunner
from poise.report.figures import ATTAINMENT
from poise.report.intervals import Interval
from poise.scenario.compare.collapse import Collapse, Probe, collapse, probe
from poise.scenario.tournament.block import Block


def calibrated(
    runner: TrialRunner[Any, Any], blocks: Sequence[Block], reference: Combination, seed: int
) -> list[float]:
    """For each block the load between the last that the reference carries and the first that it does not.

    All blocks are searched at once, a load of each at a time. ScenarioError where there is no such load.
    """
    tried: list[dict[float, Probe]] = [{} for _ in blocks]
    wanted: dict[int, float] = dict.fromkeys(range(len(blocks)), 1.0)
    while wanted:
        trials = {at: Trial(at, load, seed, reference) for at, load in wanted.items()}
        if not runner.fill("loads that the reference carries", list(trials.values())):
            return []  # the user stopped it
        for at, trial in trials.items():
            tried[at][trial.at] = _probe(runner, blocks[at], trial, reference)
        following = {at: _collapse(tried[at]).next_at() for at in wanted}
        wanted = {at: load for at, load in following.items() if load is not None and _any(blocks[at], load, seed)}
    return [_load(block, _collapse(probes)) for block, probes in zip(blocks, tried, strict=True)]


def _any(block: Block, load: float, seed: int) -> bool:
    """Whether a block has requests at a load: a small one may leave none."""
    try:
        return load >= 1 or len(block.make(seed, load)) > 0
    except UserError:
        return False


def _collapse(probes: dict[float, Probe]) -> Collapse:
    return collapse(list(probes.values()))


def _probe(runner: TrialRunner[Any, Any], block: Block, trial: Trial, reference: Combination) -> Probe:
    """The result of one load: the SLO decides where there is one, else the queue."""
    slo = block.setting(reference).slo
    met = Interval(runner.value(trial, ATTAINMENT.name))
    row = runner.stored(trial)
    growth = Interval(None if slo != Slo() or row is None else row["backlog_growth"])
    found = probe(trial.at, met, growth, slo, block.target)
    if found is None:
        text = f"nothing is known of its load {trial.at:g}: none of its requests counts"
        raise ScenarioError(f"block {block.name}: {text}; make its traffic longer, or shorten run.warmup_s")
    return found


def _load(block: Block, found: Collapse) -> float:
    if found.load is not None:
        return float(f"{found.load:.4g}")
    which, cure = ("every", "tighten") if found.carried else ("no", "loosen")
    raise ScenarioError(
        f"block {block.name}: the reference carries {which} load that was tried, so there is none to go by; {cure} "
        "its slo, or change its rate"
    )
