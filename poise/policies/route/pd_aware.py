"""DeepFlow's router: a colocated replica or a prefill/decode pair by a heat map, then locality, then load.

Paper: DeepFlow, arXiv 2501.14417 (its scheduling section). A map over prompt tokens and output tokens per prompt token
says which kind of replica ends a request sooner: measured before with equal requests, a cell is the completion time of
colocated replicas over that of pairs, less 1, summed over rates, and its sign decides. Among the replicas of that kind
the longest common prefix of the prompt decides where loads are balanced, and the least load where they are not.

Parameters: the map is none of the paper's figures, so it is measured for a deployment, as in
`poise/claims/heat_map.py`; without one, or without a predicted output length, both kinds compete. When loads
are balanced is not said: here, where requests in flight differ by at most `spread` (ours). It differs from DeepFlow in
counting requests, in reading prefixes from the view instead of a tree for each kind, and in that the decode half of a
pair goes to the fewest requests. Ties are drawn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.view import ClusterView


@dataclass(slots=True)
class PdAware:
    """Choose the kind of replica by what a request will compute, then the replica by prefix or load.

    prompts, ratios: where the rows and columns of the map begin, in prompt tokens and in output tokens per prompt
    token, rising; what lies below the first belongs to it.  heat: the rows; above 0 a pair is taken, below 0 a
    colocated replica, and 0 leaves both.  spread: requests in flight by which replicas may differ and be in balance.
    """

    without_prefixes: ClassVar[str] = "the fewest requests"
    reads_predictions: ClassVar[bool] = True

    prompts: Sequence[int] = ()
    ratios: Sequence[float] = ()
    heat: Sequence[Sequence[float]] = ()
    spread: int = 8

    def __post_init__(self) -> None:
        for name in ("prompts", "ratios"):
            edges = list(getattr(self, name))
            if edges != sorted(set(edges)):
                raise ValueError(f"{name} {edges} do not rise; give where each part of the map begins, in order")
        rows = [len(row) for row in self.heat]
        if rows != [len(self.ratios)] * len(self.prompts):
            raise ValueError(
                f"heat has rows of {rows} cells; give {len(self.prompts)} rows (prompts) of {len(self.ratios)} (ratios)"
            )
        if self.spread < 0:
            raise ValueError(f"spread {self.spread} is no number of requests; give 0 or more")

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("requests", "cached_tokens")

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """The kind, then the longest prefix or the fewest requests."""
        able, requests = cluster.able(request), cluster.requests
        if cluster.stage == "decode":
            return Route(chance.least(able, requests))
        able = self._of_kind(request, able, cluster)
        loads = [requests[replica] for replica in able]
        if request.ids and max(loads) - min(loads) <= self.spread:
            cached = cluster.cached_tokens(request)
            longest = max([cached[replica] for replica in able])
            able = [replica for replica in able if cached[replica] == longest]
        return Route(chance.least(able, requests))

    def _of_kind(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Sequence[int]:
        """The able replicas of the kind that the map has for a request; all where it has none, or none of it is able.

        A prefill replica is able only with a decode replica to go on.
        """
        heat = self._heat(request)
        roles, partners = cluster.roles, cluster.partners(request)
        pairs = [replica for replica in able if roles[replica] == "prefill"] if partners else []
        colocated = [replica for replica in able if roles[replica] == "mixed"]
        if not pairs or not colocated or not heat:
            return pairs + colocated or able
        return pairs if heat > 0 else colocated

    def _heat(self, request: RequestView) -> float:
        """The cell of a request; 0 without a map or a prediction."""
        if not self.heat or not request.predicted_tokens:
            return 0.0
        row = bisect_right(self.prompts, request.prompt_tokens) - 1
        column = bisect_right(self.ratios, request.predicted_tokens / request.prompt_tokens) - 1
        return self.heat[max(row, 0)][max(column, 0)]
