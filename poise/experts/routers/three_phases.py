"""Three phases of routing: γ_eff says how strongly loads press back on choices, from qualities and loads alone.

Mouzouni (2604.04230). Choices are a congestion game: at equilibrium the share of an expert is p_i ∝ exp(q_i − γ p_i),
with the experts' qualities q. γ is fitted to measured shares; over a training it rises, stays and falls. A
measurement, not a router. Shares enter as parts of all choices; the paper's scale of loads is not known here, so
values compare among themselves alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import UserError

HALVINGS = 80


def equilibrium(qualities: NDArray[Any], gamma: float) -> NDArray[Any]:
    """(experts) the shares of the game: unique for gamma of 0 or more."""
    free = float(np.logaddexp.reduce(qualities))
    low, high = free - gamma - 1, free + 1
    for _ in range(HALVINGS):
        level = (low + high) / 2
        low, high = (level, high) if _at(qualities - level, gamma).sum() > 1 else (low, level)
    return _at(qualities - high, gamma)


def gamma_eff(qualities: NDArray[Any], shares: NDArray[Any]) -> float:
    """The γ of least squares in log p_i = q_i − γ p_i + c. UserError for a share of 0, or where all are equal."""
    if (shares <= 0).any() or np.ptp(shares) == 0:
        raise UserError("shares: one is 0 or all are equal, which says nothing of γ; give those of more tokens")
    x, y = shares - shares.mean(), qualities - np.log(shares)
    return float((x * y).sum() / (x * x).sum())


def _at(exponents: NDArray[Any], gamma: float) -> NDArray[Any]:
    """p with log p + γ p = exponent, by halving of log p: the left side rises."""
    low, high = exponents - gamma * np.exp(np.minimum(exponents, 700.0)), exponents.copy()
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        above = middle + gamma * np.exp(middle) > exponents
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    found: NDArray[Any] = np.exp((low + high) / 2)
    return found
