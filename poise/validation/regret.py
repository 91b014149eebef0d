"""The regret of choosing by predictions: of comparable configurations, the one predicted best against the best.

A condition is a source's model on one kind of device under one load with one kind of lengths; configurations are the
layouts, formats, engines and numbers of devices that were measured there. Throughput counts per device. Regret is by
how much the measured value of the configuration that is predicted best falls short of the best measured one; ties of
predictions count as their mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from poise.validation.answer import Answer
from poise.validation.score import ALL, Score

PREFIX = "regret of "
"""The prefix of the metric of such a score."""


class Option(NamedTuple):
    """One configuration: its predicted and its measured value, larger is better."""

    predicted: float
    measured: float


def regrets(answers: Iterable[Answer]) -> list[Score]:
    """Scores of regret by source and metric, then by metric over all: `n` conditions with at least two configurations.

    `median_ape` and `p90_ape` are of regrets; `naive_median_ape` is that of a configuration taken at random.
    """
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for (source, metric, *_), options in _conditions(answers).items():
        if len({option.measured for option in options}) > 1:
            pair = (regret(options), _random(options))
            found.setdefault((source, metric), []).append(pair)
            found.setdefault((ALL, metric), []).append(pair)
    return [_score(source, metric, pairs) for (source, metric), pairs in sorted(found.items())]


def regret(options: Sequence[Option]) -> float:
    """1 less the measured value of what is predicted best, over the best measured."""
    highest = max(option.predicted for option in options)
    chosen = fmean(option.measured for option in options if option.predicted == highest)
    return 1 - chosen / max(option.measured for option in options)


def _random(options: Sequence[Option]) -> float:
    return 1 - fmean(option.measured for option in options) / max(option.measured for option in options)


def _conditions(answers: Iterable[Answer]) -> dict[tuple[str, ...], list[Option]]:
    """Options by condition; repeats of a configuration are its mean."""
    runs: dict[tuple[str, ...], dict[tuple[object, ...], list[Option]]] = {}
    for answer in answers:
        row = answer.row
        if answer.predicted is None or row.quality == "C":
            continue
        load = f"{row.prompt:g} {row.output:g} {row.load} {row.disagg}"
        key = (row.source, row.metric, row.model, row.device, load)
        layout = (row.engine, row.version, row.devices, row.tensor, row.pipeline, row.expert, row.data)
        runs.setdefault(key, {}).setdefault((*layout, row.precision, row.batch, row.notes), []).append(_option(answer))
    return {
        key: [Option(*(fmean(values) for values in zip(*each, strict=True))) for each in options.values()]
        for key, options in runs.items()
    }


def _option(answer: Answer) -> Option:
    row, predicted = answer.row, answer.predicted
    assert predicted is not None
    if "throughput" not in row.metric:
        return Option(1 / predicted, 1 / row.value)
    devices = 1 if row.metric.endswith("_per_gpu") else max(1, row.devices)
    return Option(predicted / devices, row.value / devices)


def _score(source: str, metric: str, pairs: Sequence[tuple[float, float]]) -> Score:
    lost, random = np.array(pairs).T
    return Score(
        source, ALL, ALL, ALL, f"{PREFIX}{metric}", len(lost), len(lost), None, float(np.median(lost)),
        float(np.percentile(lost, 90)), None, float(np.median(random)),
    )  # fmt: skip
