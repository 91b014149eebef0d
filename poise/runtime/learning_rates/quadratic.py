"""What a schedule leaves of a noisy quadratic at the end of a budget: expected losses, without chance."""

from __future__ import annotations

from typing import NamedTuple

from poise.runtime.learning_rates.cosine import Cosine
from poise.runtime.learning_rates.linear import Linear
from poise.runtime.learning_rates.rate import Constant, Plan, Rate
from poise.runtime.learning_rates.uba import Uba
from poise.runtime.learning_rates.wsd import Wsd

DIMENSIONS = 64
PEAKS = tuple(2.0 ** (-each / 2) for each in range(25))
"""Peaks that are tried, as parts of 1 over the largest curvature; each schedule takes its best."""
PHIS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
"""Forms of the unified schedule that are tried; 2 is the cosine."""


def loss(rate: Rate, condition: float, steps: int, noise: float = 0.1) -> float:
    """E[½ Σ λx²] after `steps` steps of SGD from x = 1, over that at the start; the best of `PEAKS`.

    Curvatures λ lie evenly in their logarithm from 1 / condition to 1. Gradients have the noise of least squares, of
    variance noise² · λ, so E[x²] becomes (1 − ηλ)² E[x²] + η² noise² λ in a step.
    """
    import numpy as np

    curvatures = np.logspace(-np.log10(condition), 0, DIMENSIONS)
    squares = np.ones((len(PEAKS), DIMENSIONS))
    peaks, plan = np.array(PEAKS)[:, None], Plan(rate, steps)
    for step in range(steps):
        size = plan.factor(step) * peaks
        squares = (1 - size * curvatures) ** 2 * squares + (size * noise) ** 2 * curvatures
    return float((squares @ curvatures).min() / curvatures.sum())


class Budget(NamedTuple):
    """Expected losses of schedules over one budget, parts of the loss at the start.

    phi: the form of `uba`, chosen by a budget of a quarter of the steps.  best_phi: the best for the steps themselves.
    """

    uba: float
    cosine: float
    linear: float
    wsd: float
    constant: float
    phi: float
    best_phi: float

    def others(self) -> float:
        """The least loss of the common schedules."""
        return min(self.cosine, self.linear, self.wsd, self.constant)


def budget(condition: float, steps: int) -> Budget:
    """The schedules of the runtime over `steps` steps of a quadratic of a condition number."""
    phi, best = (min(PHIS, key=lambda each: loss(Uba(each), condition, some)) for some in (steps // 4, steps))
    rates = (Uba(phi), Cosine(), Linear(), Wsd(), Constant())
    uba, cosine, linear, wsd, constant = (loss(rate, condition, steps) for rate in rates)
    return Budget(uba, cosine, linear, wsd, constant, phi, best)
