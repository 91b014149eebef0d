"""What an optimizer does about gradients that come late (Kosson et al., "Pipelined Backpropagation at Scale", 2021).

Momentum SGD is v ← m v + g, w ← w − η v, where g is the gradient of weights of D updates ago.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeVar


class Array(Protocol):
    """A number or a tensor."""

    def __sub__(self, other: Any, /) -> Any: ...
    def __rmul__(self, factor: float, /) -> Any: ...


T = TypeVar("T", bound=Array)


class Spike(NamedTuple):
    """Spike compensation: w ← w − η(velocity · v + gradient · g), with v the one after the update."""

    velocity: float
    gradient: float


def delay(stages: int, stage: int) -> int:
    """How many updates of a stage lie between a forward and its backward: 2(S − 1 − s)."""
    return 2 * (stages - 1 - stage)


def spike(momentum: float, late: int) -> Spike:
    """a = m^D and b = (1 − m^D) / (1 − m): at once what the gradient would have moved by now had it not been late.

    Without delay or without momentum that is the plain step.
    """
    decay = momentum**late
    return Spike(decay, (1 - decay) / (1 - momentum))


def predicted(weights: T, velocity: T, rate: float, horizon: float) -> T:
    """Linear weight prediction: the weights `horizon` updates ahead, w − η T v, for the forward to use; T = D."""
    ahead: T = weights - (rate * horizon) * velocity
    return ahead


def small_batch(momentum: float, rate: float, ratio: float) -> tuple[float, float]:
    """Momentum m^r and step size η r (1 − m^r) / (1 − m) for batches `ratio` times as large (below 1: smaller)."""
    decay = momentum**ratio
    return decay, rate * ratio * (1 - decay) / (1 - momentum)
