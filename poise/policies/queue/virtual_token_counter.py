"""VTC inside the engine: of those that wait, the tenant that was served the fewest weighted tokens is admitted first.

Paper: Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024 (arXiv 2401.00588), algorithm 2, and its
code (VTC-artifact). Each tenant has a counter: w_p for each token of a prompt when it is admitted, w_q for each output
token when it is generated, over the tenant's weight. A tenant that had nothing waiting is lifted to the least counter
of those that have, or to that of the tenant admitted last where none has, so that idling earns no credit.

It differs in when counters are read: when the set of waiting, running or prefilling requests changes, not at all steps;
in between no request can be admitted. A prompt computed again after preemption is not charged again. An engine charges
what
it computes: of a prefill/decode pair the one counts prompts, the other output, and each engine has counters of its own.

Bound (after lemma 4.3 and theorem 4.4): with L the longest prompt, O the most output tokens and S the engine's
`max_sequences`, the counters of two waiting tenants of equal weight differ by at most U = w_p·L + w_q·S·O: the one
ahead was not ahead when it was last admitted, and has made at most what its running requests had left since then. So
the service of two tenants differs by at most 2·U over any time in which both wait. The paper's engine reserves outputs,
so that all that run fit M tokens to their end, and has max(w_p·L, w_q·M) in place of U.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from poise.core.request import RequestView
from poise.policies.kit.flow_ledger import check_weights


@dataclass(slots=True)
class VirtualTokenCounter:
    """The least served tenant first; within a tenant by arrival.

    input_weight, output_weight: service of a prompt and of an output token.  weights: shares of tenants by number, 1
    for those not named. Requests without a tenant share one.
    """

    input_weight: float = 1.0
    output_weight: float = 2.0
    weights: dict[int, float] | None = None
    _counters: dict[Any, float] = field(default_factory=dict, init=False, repr=False)
    _last: int | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.input_weight < 0 or self.output_weight < 0:
            raise ValueError("input_weight and output_weight must not be negative; give 0 or more")
        check_weights(self.weights)

    def queue(self, request: RequestView) -> int:
        """Equal keys, so that arrival decides."""
        return 0

    def flow(self, request: RequestView) -> int:
        """Its tenant."""
        return request.tenant

    def rank(self, flow: Any, ahead: Sequence[RequestView], now: int) -> float:
        """The service that the tenant was given, the prompts ahead included."""
        prompts = sum([request.prompt_tokens for request in ahead])
        return self._counters[flow] + self.input_weight * prompts / self._weight(flow)

    def joined(self, request: RequestView, waiting: Sequence[Hashable]) -> None:
        """Lift the counter of a tenant that had nothing waiting."""
        counters = self._counters
        least = min([counters[flow] for flow in waiting]) if waiting else counters.get(self._last, 0.0)
        counters[request.tenant] = max(counters.get(request.tenant, 0.0), least)

    def charge(self, request: RequestView, prompt_tokens: int, output_tokens: int) -> None:
        """Charge the tenant."""
        if not output_tokens:
            self._last = request.tenant
        service = self.input_weight * prompt_tokens + self.output_weight * output_tokens
        counters, tenant = self._counters, request.tenant
        counters[tenant] = counters.get(tenant, 0.0) + service / self._weight(tenant)

    def _weight(self, tenant: int) -> float:
        return (self.weights or {}).get(tenant, 1.0)
