"""Batches of random scores with a skew that stays, routed one after another: how even loads are, and its cost.

Scores are softmax of logits: a standard normal draw for each token and expert, plus one for each expert that is the
same in all batches, times `skew`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poise.experts.routers.find import router as named
from poise.experts.routers.routing import max_violation, softmax, top


class Course(NamedTuple):
    """MaxVio over batches, and scores.

    first, last: of the first and the last batch.  mean, most: over all batches.  settled: mean over the last tenth.
    swing: largest less least of the last tenth.  kept: the sum of chosen scores, as a part of what top-k would have.
    """

    first: float
    last: float
    mean: float
    most: float
    settled: float
    swing: float
    kept: float


def course(
    router: str, batches: int, seed: int, *, parameters: Mapping[str, Any] | None = None, tokens: int = 4096,
    experts: int = 64, k: int = 8, skew: float = 1.0,
) -> Course:  # fmt: skip
    """A router's course over new batches. parameters: of the router; places of an axis are turned to whole numbers."""
    draw = np.random.default_rng(seed)
    popular = draw.normal(0, skew, experts)
    made = named(router, k=k, **{name: _whole(each) for name, each in (parameters or {}).items()})
    state = made.start(experts)
    found, kept, best = [], 0.0, 0.0
    for _ in range(batches):
        scores = scores_of(draw, tokens, experts, popular)
        routed = made.route(scores, state)
        state = routed.state
        found.append(max_violation(routed.loads(experts)))
        kept += _sum(scores, routed.chosen)
        best += _sum(scores, top(scores, k))
    late = found[-max(1, batches // 10) :]
    return Course(
        found[0], found[-1], float(np.mean(found)), max(found), float(np.mean(late)), max(late) - min(late), kept / best
    )


def scores_of(
    draw: np.random.Generator, tokens: int, experts: int, popular: NDArray[Any] | None = None
) -> NDArray[Any]:
    """(tokens × experts) scores of a new batch; without popularities of experts they are drawn first."""
    shift = draw.normal(size=experts) if popular is None else popular
    return softmax(draw.normal(size=(tokens, experts)) + shift)


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _sum(scores: NDArray[Any], chosen: NDArray[Any]) -> float:
    values = np.take_along_axis(scores, np.maximum(chosen, 0), axis=1)
    return float(values[chosen >= 0].sum())
