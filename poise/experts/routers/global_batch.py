"""Global-batch balance: the auxiliary loss with f of all ranks and of all microbatches so far, p of the own tokens.

Qiu et al., Demons in the Detail (2501.11873). Counts of a microbatch are summed over data-parallel ranks (one number
for each expert), and added to those of the microbatches of the same step before it. Balance is then asked of a whole
batch, and a sequence may keep to its experts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.experts.routers.auxiliary import balance_gradient, balance_loss, frequencies


def start(experts: int) -> NDArray[Any]:
    """The counts at the start of a step."""
    return np.zeros(experts)


def add(state: NDArray[Any], loads: NDArray[Any]) -> NDArray[Any]:
    """The counts after a microbatch. loads: (experts) of one rank, or (ranks × experts) of all, which are summed."""
    found: NDArray[Any] = state + np.atleast_2d(loads).sum(axis=0)
    return found


def global_loss(scores: NDArray[Any], state: NDArray[Any]) -> float:
    """The loss of a rank's microbatch. Of equal microbatches with the counts of all, the mean is that of one batch."""
    return balance_loss(scores, frequencies(state))


def global_gradient(scores: NDArray[Any], state: NDArray[Any]) -> NDArray[Any]:
    """(tokens × experts) its gradient by the logits whose softmax the scores are."""
    return balance_gradient(scores, frequencies(state))
