"""Shortest predicted job first, with ageing: the least predicted work goes first, and no request starves.

Rule: shortest-job-first on predicted output lengths, as in Zheng et al., NeurIPS 2023 (arXiv 2305.13144) and Qiu et al.
(SSJF, arXiv 2404.08509). The work of a request is its predicted output tokens plus `prompt_weight` for each prompt
token. Instead of the bare work, which starves the long, requests go by arrival plus `token_s` seconds for each token of
work.

Bound: a request of n tokens of work is overtaken by none that arrives more than `token_s`·n seconds after it.

Parameters: `token_s`, 0.01 s by default (ours), is how long one token of work may wait: 0 is first come, first served,
a large one bare shortest-job-first. `prompt_weight`, 0.5 (the ratio of VTC's weights). Without a predictor only prompts
distinguish requests.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from poise.core.request import RequestView
from poise.core.units import ps
from poise.core.view import ClusterView


@dataclass(slots=True)
class ShortestPredicted:
    """Little work and long waiting first. token_s: seconds of waiting that outweigh one token of work."""

    reads_predictions: ClassVar[bool] = True

    token_s: float = 0.01
    prompt_weight: float = 0.5

    def __post_init__(self) -> None:
        if self.token_s < 0 or self.prompt_weight < 0:
            raise ValueError("token_s and prompt_weight must not be negative; give 0 or more")

    def flow(self, request: RequestView) -> Hashable:
        """One queue for all."""
        return 0

    def key(self, request: RequestView) -> int:
        """The instant of its arrival, later by its work."""
        work = request.predicted_tokens + self.prompt_weight * request.prompt_tokens
        return request.arrived_at + ps(self.token_s * work)

    def order(self, flow: Hashable, cluster: ClusterView) -> int:
        """There is but one flow."""
        return 0

    def taken(self, request: RequestView, replica: int, cluster: ClusterView) -> None:
        """Nothing to remember."""
