"""Scores of answered training runs: errors of steps and peaks, outcomes, and the regret of choosing by predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from poise.validation.score import ALL, Key, Score
from poise.validation.training.answer import Answer

REGRET = "regret of layout"
"""The metric of a layout chosen by predictions: by how much its measured step is longer than the best measured one."""


def training_scores(answers: Sequence[Answer]) -> list[Score]:
    """A score per source, device, model, engine and metric; totals per metric, those of complete conditions apart."""
    scored = _grouped(
        answers, lambda run: (run.run.source, run.run.device, run.run.model, run.run.engine, run.run.metric)
    )
    scored += _grouped(answers, lambda run: (ALL, ALL, ALL, ALL, run.run.metric))
    whole = [each for each in answers if each.run.quality == "A" and each.run.job is not None]
    scored += _grouped(whole, lambda run: (ALL, ALL, ALL, ALL, run.run.metric), "A")
    return [*scored, *_regrets(answers)]


def by_source(answers: Sequence[Answer]) -> list[Score]:
    """A score per source and metric."""
    return _grouped(answers, lambda run: (run.run.source, ALL, ALL, ALL, run.run.metric))


def _grouped(answers: Iterable[Answer], by: Callable[[Answer], Key], quality: str = "AB") -> list[Score]:
    groups: dict[Key, list[Answer]] = {}
    for each in answers:
        groups.setdefault(by(each), []).append(each)
    return [_score(key, groups[key], quality) for key in sorted(groups)]


def _score(key: Key, answers: Sequence[Answer], quality: str) -> Score:
    """Of outcomes, bias is too many that fit over all, and both errors are the share that is wrong."""
    given = [each for each in answers if each.predicted is not None]
    if not given:
        return Score(*key, len(answers), 0, None, None, None, None, None, quality)
    if key[-1] == "fits":
        wrong = float(np.mean([each.predicted != each.run.value for each in given]))
        bias = float(np.mean([each.predicted - each.run.value for each in given if each.predicted is not None]))
        return Score(*key, len(answers), len(given), bias, wrong, wrong, None, None, quality)
    off = np.array([each.off for each in given])
    far = np.abs(off)
    return Score(
        *key, len(answers), len(given), float(np.median(off)), float(np.median(far)), float(np.percentile(far, 90)),
        None, None, quality,
    )  # fmt: skip


def _regrets(answers: Sequence[Answer]) -> list[Score]:
    """By source, then over all: `n` sweeps in which at least two layouts ran."""
    sweeps: dict[tuple[str, str], list[Answer]] = {}
    for each in answers:
        if each.run.sweep and each.predicted is not None and each.run.metric in ("step_time", "fits"):
            sweeps.setdefault((each.run.source, each.run.sweep), []).append(each)
    found: dict[str, list[float]] = {}
    for (source, _), own in sorted(sweeps.items()):
        lost = regret(own)
        if lost is not None:
            found.setdefault(source, []).append(lost)
            found.setdefault(ALL, []).append(lost)
    return [
        Score(source, ALL, ALL, ALL, REGRET, len(lost), len(lost), None, float(np.median(lost)),
              float(np.percentile(lost, 90)), None, None)
        for source, lost in sorted(found.items())
    ]  # fmt: skip


def regret(sweep: Sequence[Answer]) -> float | None:
    """The measured step of the layout predicted fastest, over the fastest measured, less 1; None where one ran at most.

    Layouts that are not predicted to fit with headroom are not chosen. One that is chosen and ran out of memory costs
    1, a whole step.
    """
    ran = {_key(each): each.run.value for each in sweep if each.run.metric == "step_time"}
    steps = {_key(each): each.predicted for each in sweep if each.run.metric == "step_time"}
    fits = {_key(each): each for each in sweep if each.run.metric == "fits"}
    if len(set(ran.values())) < 2:
        return None
    for key, each in fits.items():
        if not each.safe:
            steps.pop(key, None)
        elif key not in ran:
            steps[key] = each.seconds
    if not steps:
        return 1.0
    chosen = min(steps, key=lambda key: steps[key] or 0.0)
    return ran[chosen] / min(ran.values()) - 1 if chosen in ran else 1.0


def _key(each: Answer) -> tuple[object, ...]:
    return (each.run.layout, each.run.engine)
