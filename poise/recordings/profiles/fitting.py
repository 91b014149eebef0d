"""Fits one table: the parameters of an operator's form, then its residual, on a grid of octaves.

Errors count by ratio: both fits minimise |log predicted − log measured|, robustly, so that a median is fitted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from poise.cost.grid import LEVEL, Axis, Grid
from poise.cost.operator import Figures, Operator, Shape

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

START = Shape(5e-6, 0.6, 0.7, 30.0, 30.0, 3.0, 3.0)
LOWEST = Shape(2e-7, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3)
HIGHEST = Shape(1e-3, 1.0, 1.0, 1e5, 1e5, 1e5, 1e5)
"""Where the search for a form starts and what it stays within; parts of a peak are at most 1."""

LAUNCHED = 2e-6
"""Where the datasheet alone makes every shape longer for each kernel, the fixed time is not identified: the usual
one is used."""

FORM_ROWS = 4_000
"""Rows that the form is fitted to at most, spread evenly over all."""

NARROW = 0.05
"""Log errors below it count by their square, larger ones by their size."""

BEND = 0.05
SLOPE = 0.02
PULL = 1e-4
"""Weights, against one row, of a bend and of a step between neighbouring nodes, and of a node's distance from the form.
Where nothing is measured the grid goes on flat."""

LEVELLING = 20.0
"""The weight of a step down between two nodes where time may not fall."""

ROUNDS = 6

MOST = 127 * LEVEL


@dataclass(frozen=True, slots=True)
class Fitted:
    """A form, and a grid of the log ratios that it misses, with the rows that fell next to each node."""

    shape: Shape
    grid: Grid
    seen: tuple[bool, ...]


def corners(axes: tuple[Axis, ...], octaves: Floats) -> tuple[Whole, Floats]:
    """For rows of octaves, the nodes around each and their weights: `Grid.corners` for many places at once."""
    index: Whole = np.zeros((len(octaves), 1), dtype=np.int64)
    weight: Floats = np.ones((len(octaves), 1))
    for at, axis in enumerate(axes):
        nodes = np.array(axis.nodes)
        place = np.clip(octaves[:, at], nodes[0], nodes[-1])
        below = np.clip(np.searchsorted(nodes, place, side="right") - 1, 0, max(len(nodes) - 2, 0))
        above = np.minimum(below + 1, len(nodes) - 1)
        width = np.where(above > below, nodes[above] - nodes[below], 1.0)
        part = ((place - nodes[below]) / width)[:, None]
        index = np.hstack([index * len(nodes) + below[:, None], index * len(nodes) + above[:, None]])
        weight = np.hstack([weight * (1 - part), weight * part])
    return index, weight


def log2(coordinates: Floats) -> Floats:
    """Octaves of coordinates: `operator.octaves` for many."""
    return np.log2(np.maximum(coordinates, 1 / 1024))


def columns(coordinates: Floats) -> tuple[Floats, ...]:
    """The coordinates one by one, as `Operator` takes them."""
    return tuple(np.maximum(coordinates[:, at], 1 / 1024) for at in range(coordinates.shape[1]))


def fit_form(kind: Operator, form: str, figures: Figures, coordinates: Floats, seconds: Floats) -> Shape:
    """The parameters of the form, by damped least squares (Levenberg 1944) of logs, large errors by their size."""
    take = np.unique(np.linspace(0, len(seconds) - 1, FORM_ROWS).astype(int))
    at, wanted = columns(coordinates[take]), np.log(seconds[take])
    low, high = np.log(np.array(LOWEST)), np.log(np.array(HIGHEST))
    if min(np.maximum(*kind.least(at, form, figures))) > LAUNCHED * kind.kernels:
        low[0] = high[0] = np.log(START.fixed_s)

    def misses(logs: Floats) -> Floats:
        found: Floats = np.log(kind.seconds(at, form, figures, Shape(*np.exp(logs)))) - wanted
        return found

    def loss(errors: Floats) -> float:
        return float(np.mean(np.sqrt(NARROW**2 + errors**2)))

    logs = np.log(np.array(START._replace(fixed_s=float(np.quantile(seconds, 0.02)))))
    logs = np.clip(logs, low, high)
    errors, damping = misses(logs), 1e-2
    for _ in range(60):
        jacobian = np.stack([(misses(logs + step) - errors) / 1e-4 for step in 1e-4 * np.eye(len(logs))], axis=1)
        weight = 1 / np.sqrt(NARROW**2 + errors**2)
        normal = jacobian.T @ (weight[:, None] * jacobian)
        slope = jacobian.T @ (weight * errors)
        step = np.linalg.solve(
            normal + damping * (np.diag(np.diag(normal)) + 1e-6 * len(errors) * np.eye(len(logs))), slope
        )
        tried = np.clip(logs - np.clip(step, -1, 1), low, high)
        found = misses(tried)
        better = loss(found) < loss(errors)
        still = abs(loss(found) - loss(errors)) < 1e-6
        if better:
            logs, errors, damping = tried, found, damping / 4
        else:
            damping *= 6
        if still or damping > 1e8:
            break
    return Shape(*(float(f"{value:.4g}") for value in np.exp(logs)))


def axes_of(kind: Operator, coordinates: Floats) -> tuple[Axis, ...]:
    """Axes that span the coordinates, their nodes about `kind.steps` apart."""
    octaves, axes = log2(coordinates), []
    for at, step in enumerate(kind.steps):
        low, high = float(octaves[:, at].min()), float(octaves[:, at].max())
        count = round((high - low) / step) + 1
        if high - low > step / 4:
            count = max(count, 2)
        axes.append(Axis(round(low, 4), round((high - low) / (count - 1), 4) if count > 1 else 1.0, count))
    return tuple(axes)


def node_logs(kind: Operator, form: str, figures: Figures, shape: Shape, axes: tuple[Axis, ...]) -> Floats:
    """The log of the form at all nodes."""
    at = np.exp2(np.array(list(Grid(axes, ()).nodes())))
    logs: Floats = np.log(kind.seconds(columns(at), form, figures, shape))
    return logs


def fit_table(kind: Operator, form: str, figures: Figures, coordinates: Floats, seconds: Floats) -> Fitted:
    """Form and grid; the grid is the smoothest that rises and stays near the rows, robust by reweighting (IRLS)."""
    shape = fit_form(kind, form, figures, coordinates, seconds)
    axes = axes_of(kind, coordinates)
    index, weight = corners(axes, log2(coordinates))
    base = node_logs(kind, form, figures, shape, axes)
    missed = np.log(seconds) - (weight * base[index]).sum(axis=1)
    smooth, pairs = _smoothness(axes), _neighbours(kind, axes)
    values: Floats = np.zeros(len(base))
    falling = np.zeros(len(pairs), dtype=bool)
    for _ in range(ROUNDS):
        errors = missed - (weight * values[index]).sum(axis=1)
        trust = NARROW / np.maximum(np.abs(errors), NARROW)
        normal, right = _normal(index, weight, trust, missed, len(base))
        _level(normal, right, base, pairs[falling])
        values[:] = np.linalg.solve(normal + smooth, right)
        total = base + values
        falling |= total[pairs[:, 0]] > total[pairs[:, 1]]
    near = np.bincount(index.ravel(), weights=weight.ravel(), minlength=len(base))
    return Fitted(shape, Grid(axes, np.clip(values, -MOST, MOST).tolist()), tuple(bool(each) for each in near >= 0.5))


def _neighbours(kind: Operator, axes: tuple[Axis, ...]) -> Whole:
    """Pairs of nodes next to one another, along the axes on which time may not fall."""
    number = np.arange(int(np.prod([axis.count for axis in axes]))).reshape([axis.count for axis in axes])
    pairs = [np.empty((0, 2), dtype=np.int64)]
    for at, (axis, wanted) in enumerate(zip(axes, kind.rising, strict=True)):
        if wanted and axis.count > 1:
            low, high = (np.take(number, range(start, start + axis.count - 1), at) for start in (0, 1))
            pairs.append(np.stack([low.ravel(), high.ravel()], axis=1))
    return np.concatenate(pairs)


def _level(normal: Floats, right: Floats, base: Floats, pairs: Whole) -> None:
    """Charge pairs that fall for the step between them, so that nodes with few rows give way to those with many."""
    low, high = pairs[:, 0], pairs[:, 1]
    for one, other, sign in ((low, low, 1), (high, high, 1), (low, high, -1), (high, low, -1)):
        np.add.at(normal, (one, other), sign * LEVELLING)
    step = base[high] - base[low]
    np.add.at(right, low, LEVELLING * step)
    np.add.at(right, high, -LEVELLING * step)


def _normal(index: Whole, weight: Floats, trust: Floats, wanted: Floats, size: int) -> tuple[Floats, Floats]:
    """The normal equations of rows as mixtures of nodes."""
    flat: Floats = np.zeros(size * size)
    for at in range(index.shape[1]):
        pairs = index[:, at, None] * size + index
        flat += np.bincount(
            pairs.ravel(), (trust[:, None] * weight[:, at, None] * weight).ravel(), minlength=size * size
        )
    share = (trust * wanted)[:, None] * weight
    right = np.bincount(index.ravel(), share.ravel(), minlength=size).astype(np.float64)
    return flat.reshape(size, size), right


def _smoothness(axes: tuple[Axis, ...]) -> Floats:
    """What a grid pays for bends along its axes and for leaving the form."""
    counts = [axis.count for axis in axes]
    size = int(np.prod(counts))
    number = np.arange(size).reshape(counts)
    cost: Floats = PULL * np.eye(size)
    for at, count in enumerate(counts):
        for low in range(count - 1):
            _charge(cost, [np.take(number, low, at), np.take(number, low + 1, at)], (1.0, -1.0), SLOPE)
        for mid in range(1, count - 1):
            _charge(cost, [np.take(number, mid + step, at) for step in (-1, 0, 1)], (1.0, -2.0, 1.0), BEND)
    return cost


def _charge(cost: Floats, nodes: list[Whole], signs: tuple[float, ...], price: float) -> None:
    for one, left in zip(nodes, signs, strict=True):
        for other, right in zip(nodes, signs, strict=True):
            np.add.at(cost, (one.ravel(), other.ravel()), price * left * right)
