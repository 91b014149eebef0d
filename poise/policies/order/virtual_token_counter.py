"""VTC: the tenant that was served the fewest weighted tokens goes first.

Paper: Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024 (arXiv 2401.00588), algorithm 2. Each tenant
has a counter of the service it was given, w_p for each prompt token and w_q for each output token over the tenant's
weight; the waiting tenant with the least counter goes first. A tenant that comes back after it had nothing waiting is
lifted to the least counter of those that wait, or to that of the tenant sent last where none does, so that idling
earns no credit.

Parameters: `input_weight` 1 and `output_weight` 2 are the paper's; `uncached` charges only the prompt tokens that the
chosen replica's prefix cache is believed to lack, as the paper's successor does (see `deficit_longest_prefix`);
`weights` gives tenants other weights than 1. It differs from VTC in its place: a gateway sees no decode step. Output is
charged as predicted (`predicted_tokens`, 0 without a predictor) when a request is sent, and corrected to the actual one
when it ends. Counters are kept per model, because tenants contend for its replicas.

Bound: let L be the longest prompt, P the most predicted output tokens, E the largest error of a prediction (all output
without a predictor) and K how many requests may be in flight, by an admission such as `ceiling`. While two tenants of
equal weight both wait, the service charged to them differs, over any such time, by at most 2·(w_p·L + w_q·(P + K·E)).
With a perfect predictor that is the paper's 2·(w_p·L + w_q·M), whatever K is (`docs/fairness.md` has the proof).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from poise.core.event import Event
from poise.core.request import RequestView
from poise.core.view import ClusterView
from poise.policies.kit.flow_ledger import Ledger, check_weights

Flow = tuple[int, int]
"""Model and tenant."""


@dataclass(slots=True)
class VirtualTokenCounter:
    """The least served tenant first; within a tenant by arrival.

    input_weight, output_weight: service of a prompt and of an output token.  uncached: charge no cached prompt tokens.
    weights: shares of tenants by number, 1 for those not named. Requests without a tenant share one.
    """

    reads_predictions: ClassVar[bool] = True

    input_weight: float = 1.0
    output_weight: float = 2.0
    uncached: bool = False
    weights: dict[int, float] | None = None
    _counters: dict[Any, float] = field(default_factory=dict, init=False, repr=False)
    _ledger: Ledger = field(default_factory=Ledger, init=False, repr=False, compare=False)
    _last: dict[int, Flow] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.input_weight < 0 or self.output_weight < 0:
            raise ValueError("input_weight and output_weight must not be negative; give 0 or more")
        check_weights(self.weights)

    @property
    def needs(self) -> tuple[str, ...]:
        """The column read."""
        return ("cached_tokens",) if self.uncached else ()

    def flow(self, request: RequestView) -> Flow:
        """Its tenant's, among those of its model."""
        return request.model, request.tenant

    def key(self, request: RequestView) -> int:
        """All alike, so that arrival decides."""
        return 0

    def order(self, flow: Hashable, cluster: ClusterView) -> float:
        """The service that the tenant was given."""
        return self._counters[flow]

    def joined(self, request: RequestView) -> None:
        """Lift the counter of a tenant that had nothing waiting."""
        flow = self.flow(request)
        if not self._ledger.join(request, flow):
            return
        counters, model = self._counters, request.model
        flows = self._ledger.waiting
        waiting = [counters[each] for each in flows if each != flow and each[0] == model] if len(flows) > 1 else []
        last = self._last.get(model)
        floor = min(waiting) if waiting else counters[last] if last is not None else 0.0
        counters[flow] = max(counters.get(flow, 0.0), floor)

    def taken(self, request: RequestView, replica: int, cluster: ClusterView) -> None:
        """Charge the prompt and the predicted output."""
        self._last[request.model] = self.flow(request)
        if not self._ledger.send(request):
            return
        prompt = request.prompt_tokens
        if self.uncached and request.ids:
            prompt -= cluster.cached_tokens(request)[replica]
        self._charge(request, self.input_weight * prompt + self.output_weight * request.predicted_tokens)

    def observe(self, event: Event) -> None:
        """Correct the charge to the output that was made."""
        settled = self._ledger.settle(event)
        if settled is not None:
            self._charge(settled[0], self.output_weight * settled[1])

    def ended(self, request: RequestView) -> None:
        """Forget it."""
        self._ledger.end(request.id)

    def _charge(self, request: RequestView, service: float) -> None:
        weight = 1.0 if self.weights is None else self.weights.get(request.tenant, 1.0)
        self._counters[self.flow(request)] += service / weight
