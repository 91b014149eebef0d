"""Scores for tests of routers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.experts.routers.routing import softmax


def skewed(seed: int, tokens: int = 512, experts: int = 16, skew: float = 1.0) -> NDArray[Any]:
    """Softmax of standard normal logits and a popularity of experts."""
    draw = np.random.default_rng(seed)
    popular = draw.normal(0, skew, experts)
    return softmax(draw.normal(size=(tokens, experts)) + popular)
