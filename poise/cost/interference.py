"""Interference on shared machines: performance lost to neighbours over time, true and predicted.

CloudFormer (arXiv 2509.03394) predicts, from 206 metrics of a machine each second, the ratio P of performance alone to
performance among neighbours, in (0, 1], with a mean absolute error of 7.8 %. The model itself is not here: P is made
up as a series that remembers, a step takes 1/P as long, and a prediction is P with an error of the published size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import pi, sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import UserError
from poise.core.estimate import Estimator, Piece, StepShape
from poise.core.spec import Pool
from poise.cost.estimator_wrapper import EstimatorWrapper, scaled

MAE = 0.078
"""The published mean absolute error of a prediction, as a part of performance."""

Floats = NDArray[np.float64]


class Recipe(Protocol):
    """What makes estimators, as `Roofline` does."""

    def build(self, pool: Pool) -> Estimator:
        """The estimator of one pool."""
        ...


def series(mean: float, spread: float, memory: float, ticks: int, seed: int) -> Floats:
    """P over time: a first-order autoregression about `mean`, kept within [0.05, 1]; `memory` from tick to tick."""
    if not (0 < mean <= 1 and spread >= 0 and 0 <= memory < 1):
        raise UserError(f"mean {mean}, spread {spread}, memory {memory}: give a part of 1, 0 or more, and 0 up to 1")
    drawn = np.random.default_rng(seed).standard_normal(ticks)
    found, last = np.empty(ticks), 0.0
    for tick, each in enumerate(drawn):
        last = each if tick == 0 else memory * last + sqrt(1 - memory**2) * each
        found[tick] = mean + spread * last
    return found.clip(0.05, 1.0)


def predicted(true: Floats, seed: int, mae: float = MAE) -> Floats:
    """P as predicted with this mean absolute error: a normal error of σ = mae·√(π/2), kept in (0, 1]."""
    error = np.random.default_rng(seed).normal(0.0, mae * sqrt(pi / 2), len(true))
    noisy: Floats = (true + error).clip(0.05, 1.0)
    return noisy


@dataclass(frozen=True, slots=True)
class Slowed:
    """A recipe whose steps take 1/P as long in the pools that `performance` names; others are as they were.

    Slowed(Roofline(), {"crowded": 0.7})
    """

    cost: Recipe
    performance: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, ratio in self.performance.items():
            if not 0 < ratio <= 1:
                raise UserError(f"pool {name!r}: performance {ratio} is no part of its own alone; give above 0 up to 1")

    def build(self, pool: Pool) -> Estimator:
        """The estimator of one pool."""
        made = self.cost.build(pool)
        ratio = self.performance.get(pool.name, 1.0)
        return made if ratio == 1.0 else SlowedEstimator(made, ratio)


class SlowedEstimator(EstimatorWrapper):
    """Another estimator's steps, 1/ratio as long; neighbours are taken to slow steps alone, not swaps."""

    def __init__(self, inner: Estimator, ratio: float) -> None:
        super().__init__(inner)
        self.ratio = ratio

    def step(self, shape: StepShape) -> Piece:
        """The other's piece, each part of it longer."""
        return scaled(self.inner.step(shape), 1 / self.ratio)

    def describe(self) -> dict[str, object]:
        """The other's, with the ratio."""
        return {**self.inner.describe(), "performance_among_neighbours": self.ratio}
