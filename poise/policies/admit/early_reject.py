"""Early rejection: reject on arrival a request predicted to miss its deadline, with the time to retry after.

Paper: Mooncake, arXiv 2407.00079 (FAST 2025), section 7: under overload a request that will miss its TTFT is best
rejected before anything is spent on it. The wait is predicted as the prompt tokens ahead (held here, and queued on
the able replicas) over the sum of their prefill rates, and the own prompt over their mean. A request is rejected
when that ends after its deadline, or after `ttft_s` where it has none (0: it may wait as long as it takes).
`retry_after` is the time by which it would have been late: an equal request is in time once that much work is done.
An admitted request that can no longer be in time, even on an idle replica, is rejected when its turn comes.

Parameters: `ttft_s`, 5 s (ours); `hit_rate`, the share of prompt tokens that prefix caches are expected to save, 0.
Where no rate is known, no request is rejected. It differs from Mooncake in ignoring the load of decodes: where decodes
are the limit, the prediction is too optimistic; combine it with a `ceiling` or `saturation`, which hold the rest.
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
    """Admit requests predicted to be in time.

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
        """Reject a request that would be late behind all waiting ones."""
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
        """Reject a request that can no longer be in time."""
        due = self._due(request)
        if not due or not _known(able, cluster):
            return able
        own = self._alone(request, able, cluster)
        if cluster.now + own <= due:
            return able
        late = self._ahead(request.model, able, cluster) + own - (due - request.arrived_at)
        return Reject("its first token cannot be in time any more", max(late, 0))

    def joined(self, request: RequestView) -> None:
        """Count the request as waiting ahead of later ones."""
        self._held[request.id] = request
        self._tokens[request.model] = self._tokens.get(request.model, 0) + request.prompt_tokens

    def taken(self, request: RequestView, replica: int, cluster: ClusterView) -> None:
        """Stop counting a request that was sent."""
        self.ended(request)

    def ended(self, request: RequestView) -> None:
        """Stop counting a request that ended, if it waited."""
        if self._held.pop(request.id, None) is not None:
            self._tokens[request.model] -= request.prompt_tokens

    def _due(self, request: RequestView) -> int:
        return request.deadline_at or (request.arrived_at + ps(self.ttft_s) if self.ttft_s else 0)

    def _ahead(self, model: int, able: Sequence[int], cluster: ClusterView) -> int:
        """Picoseconds until all replicas together have computed the waiting prompts."""
        rates, queued = prefill_rates(cluster), cluster.queued_tokens
        tokens = self._tokens.get(model, 0) + sum(queued[replica] for replica in able)
        return ps((1 - self.hit_rate) * tokens / sum(rates[replica] for replica in able))

    def _alone(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> int:
        """Picoseconds of the request's own prompt on an idle replica of mean rate."""
        rates = prefill_rates(cluster)
        mean = sum(rates[replica] for replica in able) / len(able)
        return ps((1 - self.hit_rate) * request.prompt_tokens / mean)


def _known(able: Sequence[int], cluster: ClusterView) -> bool:
    """Whether the rate of any of them is known."""
    return any(cluster.prefill_rate[replica] for replica in able)
