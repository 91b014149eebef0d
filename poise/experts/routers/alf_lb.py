"""ALF-LB: a bias for each expert decides with its score, and rises while its load is below the mean.

Auxiliary-Loss-Free Load Balancing (2408.15664); as a primal-dual method, Han and Zhong (2512.03915). Top-k of score
plus bias; gates are those of the score alone. After each batch b += u_t · sign(mean − load), or u_t times the error
as a part of the mean: one step on the dual of the assignment with equal loads, whose value is `dual`.

Parameters: `k` (2). `rate` u (0.001, as published for sigmoid scores). `rule` (`sign`, or `error`). `decay` (0): the
step of batch t is rate / t^decay; 1 is the step size of the logarithmic regret, ½ that of the root.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poise.experts.routers.routing import Routed, checked, gates_of, loads_of, top


@dataclass(frozen=True, slots=True)
class AlfLb:
    """Biases that follow the load. Its state is the biases, and after them the number of batches."""

    k: int = 2
    rate: float = 0.001
    rule: Literal["sign", "error"] = "sign"
    decay: float = 0.0
    normal: bool = True

    def start(self, experts: int) -> NDArray[Any]:
        """No bias, no batch."""
        return np.zeros(experts + 1)

    def route(self, scores: ArrayLike, state: NDArray[Any]) -> Routed:
        """The largest sums of score and bias; then the biases follow."""
        given = checked(scores, self.k)
        bias, batches = state[:-1], state[-1] + 1
        chosen = top(given + bias, self.k)
        after = np.append(bias + self.rate / batches**self.decay * self._step(chosen, given.shape[1]), batches)
        return Routed(chosen, gates_of(given, chosen, normal=self.normal), after)

    def _step(self, chosen: NDArray[Any], experts: int) -> NDArray[Any]:
        loads = loads_of(chosen, experts)
        error = 1 - loads / loads.mean()
        found: NDArray[Any] = np.sign(error) if self.rule == "sign" else error
        return found


def dual(scores: ArrayLike, bias: NDArray[Any], k: int) -> float:
    """The mean over tokens of the k largest sums of score and bias, less k times the mean bias.

    No assignment with equal loads has a larger sum of scores of a token (2512.03915, section 3).
    """
    sums = np.asarray(scores, dtype=np.float64) + bias
    return float(np.partition(sums, -k, axis=1)[:, -k:].sum() / len(sums) - k * bias.mean())
