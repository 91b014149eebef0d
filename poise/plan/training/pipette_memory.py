"""Peaks of memory learnt from measured ones: Pipette's estimator, a perceptron of four hidden layers.

Yim et al. (DATE 2024, arXiv 2405.18093, and the authors' code): 64, 48, 24 and 12 rectified units, fitted to
runs on a few servers and then used for many. Differences: features and peaks are logarithms, as degrees multiply and
divide; in place of the authors' eleven features there are nine, without counts that are products of others (devices, a
replica's batch), whose slopes no run can tell apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from poise.core.errors import ScenarioError
from poise.cost.training import Job, Layout

UNITS = (64, 48, 24, 12)
"""Units of the hidden layers (the authors')."""
RATE, HALVED = 3e-3, 4
"""Adam's step, and how often it is halved."""
DECAY = 0.1
"""Decoupled weight decay (Loshchilov & Hutter 2019): it keeps slopes small where nothing was measured."""
EPOCHS, BATCH = 400, 64
"""Passes over the runs, and runs of a batch."""
FEWEST = 32
"""Fewest runs from which peaks are learnt."""

Floats = npt.NDArray[np.float64]


def features(job: Job, layout: Layout) -> tuple[float, ...]:
    """The inputs: the model's size, the mesh, the microbatch and how many there are."""
    model = job.model
    return (
        model.layers, model.hidden, model.heads, job.sequence, layout.tensor, layout.pipeline, layout.micro_batch,
        layout.microbatches(job), job.batch,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Estimator:
    """Bytes of a device's peak by `features`: weights and biases of each layer, and how inputs and peaks are scaled."""

    layers: tuple[tuple[Floats, Floats], ...]
    inputs: tuple[Floats, Floats]
    peaks: tuple[float, float]

    def bytes(self, rows: Sequence[Sequence[float]]) -> Floats:
        """The peaks of runs with these features."""
        found, _ = _forward(self.layers, (np.log(np.asarray(rows, float)) - self.inputs[0]) / self.inputs[1])
        return np.asarray(np.exp(found[:, 0] * self.peaks[1] + self.peaks[0]))


def learn(rows: Sequence[Sequence[float]], peaks: Sequence[float], seed: int = 0, epochs: int = EPOCHS) -> Estimator:
    """The estimator of measured peaks (bytes), by features; ScenarioError for fewer than `FEWEST` runs.

    The squared error of logarithms is made small by Adam (Kingma & Ba 2015) over drawn batches.
    """
    if len(rows) < FEWEST or len(rows) != len(peaks):
        raise ScenarioError(f"{len(rows)} runs and {len(peaks)} peaks; give as many of both, {FEWEST} or more")
    x, y = np.log(np.asarray(rows, float)), np.log(np.asarray(peaks, float))
    inputs = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-9)
    scale = float(y.mean()), float(max(y.std(), 1e-9))
    x, y = (x - inputs[0]) / inputs[1], (y - scale[0]) / scale[1]
    draw = np.random.default_rng(seed)
    sizes = (x.shape[1], *UNITS, 1)
    values = [
        each for one, two in pairwise(sizes) for each in (draw.normal(0, np.sqrt(2 / one), (one, two)), np.zeros(two))
    ]
    adam = _Adam(values)
    for epoch in range(epochs):
        rate = RATE * 0.5 ** (HALVED * epoch // epochs)
        for some in np.array_split(draw.permutation(len(x)), -(-len(x) // BATCH)):
            adam.step(_slopes(values, x[some], y[some]), rate)
    return Estimator(_pairs(values), inputs, scale)


class _Adam:
    """Adam over some arrays, which it changes."""

    def __init__(self, values: list[Floats]) -> None:
        self.values, self.steps = values, 0
        self.first = [np.zeros_like(each) for each in values]
        self.second = [np.zeros_like(each) for each in values]

    def step(self, slopes: list[Floats], rate: float) -> None:
        """One step against the slopes."""
        self.steps += 1
        size = rate * np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
        for value, slope, first, second in zip(self.values, slopes, self.first, self.second, strict=True):
            first += 0.1 * (slope - first)
            second += 0.001 * (slope * slope - second)
            value -= DECAY * rate * value + size * first / (np.sqrt(second) + 1e-8)


def _pairs(values: Sequence[Floats]) -> tuple[tuple[Floats, Floats], ...]:
    return tuple(zip(values[::2], values[1::2], strict=True))


def _forward(layers: Sequence[tuple[Floats, Floats]], x: Floats) -> tuple[Floats, list[Floats]]:
    """The output, and what each layer reads."""
    read = [x]
    for weights, bias in layers[:-1]:
        read.append(np.maximum(read[-1] @ weights + bias, 0.0))
    weights, bias = layers[-1]
    return read[-1] @ weights + bias, read


def _slopes(values: Sequence[Floats], x: Floats, y: Floats) -> list[Floats]:
    """Slopes of the mean squared error by every weight and bias."""
    layers = _pairs(values)
    found, read = _forward(layers, x)
    back = 2 * (found - y[:, None]) / len(x)
    slopes: list[Floats] = []
    for (weights, _), seen in zip(reversed(layers), reversed(read), strict=True):
        slopes = [seen.T @ back, back.sum(axis=0), *slopes]
        back = (back @ weights.T) * (seen > 0)
    return slopes
