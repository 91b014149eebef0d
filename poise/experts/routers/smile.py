"""SMILE: a router chooses a node, another one a device of it, so that tokens cross nodes in few large messages.

He et al. (2212.05191). Expert i · m + j is on device j of node i; its score is p_i q_j. The loss of balance is α n Σ
f p over n nodes and β m Σ f q over m devices. An exchange has n − 1 messages between nodes and then m − 1 within a
node, where a flat one has n m − 1.

Parameters: `nodes` n (4). `devices` m of each (8).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poise.core.errors import UserError
from poise.experts.routers.auxiliary import balance_loss, frequencies
from poise.experts.routers.routing import Routed, checked, loads_of, stateless, top


@dataclass(frozen=True, slots=True)
class Smile:
    """One node, then one device of it. Its scores are (tokens × nodes + devices): p, and after it q."""

    nodes: int = 4
    devices: int = 8

    def start(self, experts: int) -> NDArray[Any]:
        """Nothing."""
        return stateless()

    def route(self, scores: ArrayLike, state: NDArray[Any]) -> Routed:
        """The likeliest node and device; the gate is the product of both scores. UserError for other columns."""
        p, q = self._split(scores)
        node, device = top(p, 1), top(q, 1)
        gates = np.take_along_axis(p, node, axis=1) * np.take_along_axis(q, device, axis=1)
        return Routed(node * self.devices + device, gates, state)

    def loss(self, scores: ArrayLike, chosen: NDArray[Any], alpha: float = 0.005, beta: float = 0.005) -> float:
        """The loss of balance on both levels."""
        p, q = self._split(scores)
        over_nodes = frequencies(loads_of(chosen // self.devices, self.nodes))
        over_devices = frequencies(loads_of(chosen % self.devices, self.devices))
        return alpha * balance_loss(p, over_nodes) + beta * balance_loss(q, over_devices)

    @property
    def messages(self) -> tuple[int, int]:
        """Of a device in one exchange: on both levels together, and flat."""
        return self.nodes - 1 + self.devices - 1, self.nodes * self.devices - 1

    def _split(self, scores: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        given = checked(scores)
        if given.shape[1] != self.nodes + self.devices:
            raise UserError(
                f"scores: {given.shape[1]} columns for {self.nodes} nodes and {self.devices} devices; give "
                f"{self.nodes + self.devices}, those of nodes first"
            )
        return given[:, : self.nodes], given[:, self.nodes :]
