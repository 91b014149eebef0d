"""Early rejection: turn away at the door who would wait for longer than it may, and say when to come back.

Paper: Mooncake, arXiv 2407.00079 (FAST 2025), section 7: under overload a request that will miss its TTFT is best
turned away before anything is spent on it. The wait is predicted as the prompt tokens ahead (held here, and queued on
the able replicas) over the sum of their prefill rates, and the own prompt over their mean. A request is turned away
when that ends after its deadline, or after `ttft_s` where it has none (0: it may wait as long as it takes).
`retry_after` is by how much it would have been late: so much earlier work has to be done before an equal request is in
time. Who was let in and can not be in time any more, on an idle replica even, is turned away when its turn comes.

Parameters: `ttft_s`, 5 s (ours); `hit_rate`, the share of prompt tokens that prefix caches are expected to save, 0.
Where no rate is known, nobody is turned away. It differs from Mooncake in leaving the load of decodes alone: where they
limit, and not prompts, the prediction is too hopeful, and a `ceiling` or `saturation` beside it holds the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from poise.core.action import Reject
from poise.core.request import RequestView
from poise.core.units import ps
from poise.core.view import ClusterView
from poise.policies.kit.loads import prefill_rates


@dataclass(slots=True)
class EarlyReject:
    """Admit who is predicted to be in time.

    ttft_s: seconds to the first token that requests without a deadline are given, 0 for no limit.
    hit_rate: share of prompt tokens that need not be computed, in [0, 1).
    """

    ttft_s: float = 5.0
    hit_rate: float = 0.0
    _held: dict[int, RequestView] = field(default_factory=dict, init=False, repr=False, compare=False)
    _tokens: dict[int, int] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.ttft_s < 0 or not 0 <= self.hit_rate < 1:
            raise ValueError("ttft_s must not be negative, and hit_rate is a share below 1; give 5 and 0.4, say")

    @property
    def needs(self) -> tuple[str, ...]:
        """The column read."""
        return ("queued_tokens",)

    def enter(self, request: RequestView, cluster: ClusterView) -> Reject | None:
        """Turn away who would be late behind all that waits."""
        able, due = cluster.able(request), self._due(request)
        if not due or not _known(able, cluster):
            return None
        own = self._alone(request, able, cluster)
        late = cluster.now + self._ahead(request.model, able, cluster) + own - due
        if late <= 0:
            return None
        if cluster.now + own > due:
            return Reject("its prompt alone takes longer than its deadline allows")
        return Reject("predicted to miss its TTFT deadline", late)

    def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Sequence[int] | Reject:
        """Turn away who can not be in time any more."""
        due = self._due(request)
        if not due or not _known(able, cluster):
            return able
        own = self._alone(request, able, cluster)
        if cluster.now + own <= due:
            return able
        late = self._ahead(request.model, able, cluster) + own - (due - request.arrived_at)
        return Reject("its first token cannot be in time any more", max(late, 0))

    def joined(self, request: RequestView) -> None:
        """It waits, ahead of later ones."""
        self._held[request.id] = request
        self._tokens[request.model] = self._tokens.get(request.model, 0) + request.prompt_tokens

    def taken(self, request: RequestView, replica: int, cluster: ClusterView) -> None:
        """It waits no longer here."""
        self.ended(request)

    def ended(self, request: RequestView) -> None:
        """It waits no longer, if it did."""
        if self._held.pop(request.id, None) is not None:
            self._tokens[request.model] -= request.prompt_tokens

    def _due(self, request: RequestView) -> int:
        return request.deadline_at or (request.arrived_at + ps(self.ttft_s) if self.ttft_s else 0)

    def _ahead(self, model: int, able: Sequence[int], cluster: ClusterView) -> int:
        """Picoseconds until what waits is computed, by all together."""
        rates, queued = prefill_rates(cluster), cluster.queued_tokens
        tokens = self._tokens.get(model, 0) + sum(queued[replica] for replica in able)
        return ps((1 - self.hit_rate) * tokens / sum(rates[replica] for replica in able))

    def _alone(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> int:
        """Picoseconds that its own prompt takes on an idle replica of mean rate."""
        rates = prefill_rates(cluster)
        mean = sum(rates[replica] for replica in able) / len(able)
        return ps((1 - self.hit_rate) * request.prompt_tokens / mean)


def _known(able: Sequence[int], cluster: ClusterView) -> bool:
    """Whether the rate of any of them is known."""
    return any(cluster.prefill_rate[replica] for replica in able)
