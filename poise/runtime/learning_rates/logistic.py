"""What a schedule leaves of logistic regression at the last step, with norms refined from a run before."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from poise.runtime.learning_rates.cosine import Cosine
from poise.runtime.learning_rates.linear import Linear
from poise.runtime.learning_rates.rate import Constant, Plan, Rate
from poise.runtime.learning_rates.refined import Refined, refined

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

ROWS, FEATURES, BATCH, NOISE = 512, 20, 16, 0.1
"""Size of a data set, of a step, and the part of labels that are wrong."""
PEAKS = {"sgd": tuple(2.0**each for each in range(-5, 6)), "adam": tuple(2.0**each for each in range(-10, 1))}
"""Peaks that are tried; each schedule takes its best."""
POWERS = {"sgd": 2, "adam": 1}
"""How norms weigh in refinement (`refined.refined`): ℓ2 norms of SGD, ℓ1 norms of Adam."""


class Data(NamedTuple):
    """Rows with a label of −1 or 1 multiplied in, and the least mean loss that weights reach over them."""

    signed: Floats
    least: float


class Losses(NamedTuple):
    """Mean loss over all rows after the last step, above the least; and where the refined schedule peaks (0 to 1)."""

    constant: float
    cosine: float
    linear: float
    refined: float
    peak_at: float


def logistic(problem: int, optimizer: str, seed: int, steps: int = 1000) -> Losses:
    """The schedules on one data set, each with its best peak; `seed` draws the batches, the same for all."""
    data, order = _data(problem), _order(problem, seed, steps)
    rates: list[Rate] = [Constant(), Cosine(), Linear()]
    found = [_run(data, order, each, optimizer) for each in rates]
    last = refined(found[-1][1], POWERS[optimizer])
    found.append(_run(data, order, last, optimizer))
    constant, cosine, linear, again = (each[0] for each in found)
    return Losses(constant, cosine, linear, again, _peak(last))


def _peak(rate: Refined) -> float:
    return rate.factors.index(max(rate.factors)) / len(rate.factors)


def _data(problem: int) -> Data:
    """Normal features whose scales differ by up to 100 times, and labels of a random plane, some of them wrong."""
    import numpy as np

    rng = np.random.default_rng(problem)
    rows = rng.standard_normal((ROWS, FEATURES)) * np.logspace(0, -2 * rng.random(), FEATURES)
    labels = np.sign(rows @ (rng.standard_normal(FEATURES) / rows.std(axis=0)))
    signed = rows * np.where(rng.random(ROWS) < NOISE, -labels, labels)[:, None]
    weights = np.zeros(FEATURES)
    for _ in range(50):  # Newton's method
        wrong = 1 / (1 + np.exp(signed @ weights))
        curvature = (signed * (wrong * (1 - wrong))[:, None]).T @ signed / ROWS + 1e-12 * np.eye(FEATURES)
        weights += np.linalg.solve(curvature, signed.T @ wrong / ROWS)
    return Data(signed, float(np.logaddexp(0, -signed @ weights).mean()))


def _order(problem: int, seed: int, steps: int) -> NDArray[np.int64]:
    """The rows of each step, drawn with replacement."""
    import numpy as np

    return np.random.default_rng([problem, seed]).integers(ROWS, size=(steps, BATCH))


def _run(data: Data, order: NDArray[np.int64], rate: Rate, optimizer: str) -> tuple[float, list[float]]:
    """The loss above the least with the best of all peaks, run side by side, and the norms of that run's gradients."""
    import numpy as np

    peaks, plan = np.array(PEAKS[optimizer])[:, None], Plan(rate, len(order))
    weights = np.zeros((len(peaks), FEATURES))
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    norms = np.empty((len(order), len(peaks)))
    for step, rows in enumerate(order):
        signed = data.signed[rows]
        gradients = -(1 / (1 + np.exp(np.clip(weights @ signed.T, -60, 60)))) @ signed / BATCH
        norms[step] = np.linalg.norm(gradients, ord=1 if optimizer == "adam" else 2, axis=1)
        change = gradients
        if optimizer == "adam":
            first, second = 0.9 * first + 0.1 * gradients, 0.95 * second + 0.05 * gradients**2
            size = np.sqrt(second / (1 - 0.95 ** (step + 1))) + 1e-8
            change = first / (1 - 0.9 ** (step + 1)) / size
        weights = weights - plan.factor(step) * peaks * change
    losses = np.logaddexp(0, -weights @ data.signed.T).mean(axis=1)
    best = int(losses.argmin())
    return float(losses[best] - data.least), [max(each, 1e-12) for each in norms[:, best].tolist()]
