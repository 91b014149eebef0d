"""How large a step late gradients allow: momentum SGD on a quadratic, with what makes up for the delay (delay.py)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poise.pipeline.delay import predicted, spike

FINEST = 1e-4
"""The relative width to which the largest step is found."""


def radius(momentum: float, late: int, rate: float, compensate: bool, horizon: float) -> float:
    """Spectral radius of training on g = w, a linear map of the weights and velocities of the last updates."""
    count = late + 1
    step = spike(momentum, late) if compensate else (1.0, 0.0)

    def update(state: NDArray[np.float64]) -> NDArray[np.float64]:
        weights, velocities = state[:count], state[count:]
        gradient = predicted(float(weights[late]), float(velocities[late]), rate, horizon)
        velocity = momentum * velocities[0] + gradient
        weight = weights[0] - rate * (step[0] * velocity + step[1] * gradient)
        return np.concatenate([[weight], weights[:-1], [velocity], velocities[:-1]])

    matrix = np.array([update(unit) for unit in np.eye(2 * count)]).T
    return float(max(abs(np.linalg.eigvals(matrix))))


def largest_step(momentum: float, late: int, compensate: bool = False, predict: bool = False) -> float:
    """The largest stable step size times curvature, by bisection; prediction looks `late` updates ahead."""
    low, high = 0.0, 4.0
    while high - low > FINEST * high:
        middle = (low + high) / 2
        stable = radius(momentum, late, middle, compensate, late if predict else 0.0) < 1
        low, high = (middle, high) if stable else (low, middle)
    return low
