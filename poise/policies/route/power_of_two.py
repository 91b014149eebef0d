"""Power of two choices: the less loaded of two replicas drawn at random.

Paper: Mitzenmacher, IEEE TPDS 12(10), 2001. A second draw makes the longest of n queues O(log log n) instead of
O(log n). With stale loads it herds less than the least loaded of all (Mitzenmacher, IEEE TPDS 11(1), 2000), since no
replica is drawn by more than 2/n of the requests. Envoy, Ray Serve, SGLang's and vLLM's routers and AIBrix ship it.

Parameters: `choices`, the paper's d (2); `load`, the column compared. SGLang compares tokens where its monitor knows
them for both and else requests, AIBrix requests: `requests` is the default here. The paper draws with replacement; the
replicas drawn here differ, as in SGLang's code.
"""

from __future__ import annotations

from dataclasses import dataclass

from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.view import ClusterView

_LOADS = ("requests", "tokens", "queued_tokens", "waiting", "running")


@dataclass(slots=True)
class PowerOfTwo:
    """Send each request to the least loaded of a few able replicas drawn by its id; ties are drawn.

    choices: how many are drawn.
    load: which column is the load: requests, tokens, queued_tokens, waiting or running.
    """

    choices: int = 2
    load: str = "requests"

    def __post_init__(self) -> None:
        if self.choices < 1:
            raise ValueError(f"choices {self.choices} is below 1; draw at least one replica")
        if self.load not in _LOADS:
            raise ValueError(f"load {self.load!r} is no load; give one of {', '.join(_LOADS)}")

    @property
    def needs(self) -> tuple[str, ...]:
        """The column read."""
        return (self.load,)

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """The least loaded of those drawn, or of all where there are not more."""
        able = cluster.able(request)
        column = getattr(cluster, self.load)
        if len(able) > self.choices:
            able = [able[place] for place in self._drawn(len(able), cluster.stage, chance)]
        return Route(chance.least(able, column))

    def _drawn(self, count: int, stage: str, chance: Chance) -> set[int]:
        """`choices` different places below `count`, every set as likely (Floyd's sampling, CACM 30(9), 1987)."""
        drawn: set[int] = set()
        for last in range(count - self.choices, count):
            place = chance.bits(f"{stage} {count - last}") * (last + 1) >> 64
            drawn.add(last if place in drawn else place)
        return drawn
