"""LoRA affinity of the Gateway API Inference Extension, which llm-d ships: replicas that run the adapter score highest.

Code: `lora-affinity-scorer` of gateway-api-inference-extension and llm-d's router. A replica scores 1 where a request
with the same adapter runs, else 0.8 where fewer adapters run and wait than it has slots, else 0.6 where the adapter
waits for a slot, else 0. To that come the scorers that the project puts beside it: the share of the prompt in the
prefix cache, the emptiness of the queue (1 for the shortest of the able replicas, 0 for the longest), and the share of
KV blocks that are free. The greatest weighted sum is taken.

Parameters: the weights, 1 each, as in the profile of the project's own integration tests. Differences: what this
gateway sent counts at once as running while slots last, not only when a report shows it. With `resident`, an adapter
that lies on the device without a running request counts as running, which vLLM's metric does not show. Ties are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.view import AdaptersView, ClusterView


@dataclass(slots=True)
class LoraAffinity:
    """Send each request where the weighted sum of scores is greatest.

    lora, queue, kv, prefix: weights.  resident: whether an idle adapter on the device counts like a running one.
    """

    without_prefixes: ClassVar[str] = "adapters, queues and free KV blocks"
    lora: float = 1.0
    queue: float = 1.0
    kv: float = 1.0
    prefix: float = 1.0
    resident: bool = False

    def __post_init__(self) -> None:
        weights = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "resident"}
        for name, weight in weights.items():
            if weight < 0:
                raise ValueError(f"{name} {weight:g} is below 0; give a weight of 0 or more")

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("waiting", "free_blocks", "cached_tokens", "adapters")

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """The greatest score."""
        able = cluster.able(request)
        waiting, free, total = cluster.waiting, cluster.free_blocks, cluster.total_blocks
        cached: Sequence[int] = cluster.cached_tokens(request) if request.ids and self.prefix else ()
        queues = [waiting[replica] for replica in able]
        least, span = min(queues), max(queues) - min(queues)
        cost = {}
        for replica in able:
            score = self.queue * (1 - (waiting[replica] - least) / span if span else 1.0)
            score += self.kv * (free[replica] / total[replica] if total[replica] else 0.0)
            if cached:
                score += self.prefix * cached[replica] / request.prompt_tokens
            if request.lora >= 0:
                score += self.lora * self.affinity(request.lora, cluster.adapters(replica))
            cost[replica] = -score
        return Route(chance.least(able, cost.__getitem__))

    def affinity(self, adapter: int, there: AdaptersView) -> float:
        """The score of a replica for an adapter, 0 to 1."""
        if adapter in there.running or (self.resident and adapter in there.resident):
            return 1.0
        if not there.slots or len(there.running) + len(there.waiting) < there.slots:
            return 0.8
        return 0.6 if adapter in there.waiting else 0.0
