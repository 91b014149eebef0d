"""HexGen-Text2SQL's dispatch: a fast replica for the step at hand, weighed against the work already there.

Paper: "HexGen-Text2SQL" (arXiv 2505.05286) and its code (Hexgen-Flow). A request goes to the replica e with the most of

    α·t(base)/t(e) − (1 − α)·W(e)/W(base)

t(e): seconds of this step on e.  W(e): seconds of the requests that were sent to e and have not ended, each as long as
it takes there. α 1 is the fastest replica whatever its queue, 0 the least work. The paper tunes α by replaying recent
traffic for a grid of values, which `poise whatif` and `poise compare` do.

Here t = prompt/prefill rate + predicted output/decode rate, both by the cost model instead of a profile of stages; the
predictor `by_stage` predicts outputs. base is the replica on which the step is fastest, and W(base) the mean of W, so
that an idle base does not divide by 0. The code counts half of the work of its slow cards (A6000 and L40S beside A100):
`slow_work` 0.5 does so for all replicas on which the step takes longer than on base; 1, as in the paper, for none. The
code's W also keeps the work of requests that have ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.view import ClusterView
from poise.policies.kit.loads import prefill_rates


@dataclass(slots=True)
class HexgenText2sql:
    """Speed for this step against work ahead. alpha: the weight of speed, in [0, 1].

    output_tokens: of a request without a prediction.  slow_work: the share of its work that counts of a replica slower
    than the fastest, above 0.
    """

    reads_predictions: ClassVar[bool] = True

    alpha: float = 0.3
    output_tokens: int = 256
    slow_work: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha {self.alpha} is no share; give 0 (work alone) to 1 (speed alone)")
        if self.output_tokens < 0:
            raise ValueError(f"output_tokens {self.output_tokens} is negative; give 0 or more")
        if self.slow_work <= 0:
            raise ValueError(f"slow_work {self.slow_work} is no share of work; give more than 0, as in 0.5 or 1")

    @property
    def needs(self) -> tuple[str, ...]:
        """The column read."""
        return ("flights",)

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """The highest score."""
        able, prefill, decode = cluster.able(request), prefill_rates(cluster), cluster.decode_rate
        took = {replica: self._took(request, replica, prefill, decode) for replica in able}
        work = {
            replica: sum(self._took(flight.request, replica, prefill, decode) for flight in cluster.flights(replica))
            for replica in able
        }
        base = min(took.values())
        work = {replica: each * (self.slow_work if took[replica] > base else 1.0) for replica, each in work.items()}
        mean = sum(work.values()) / len(work) or 1.0
        alpha = self.alpha
        return Route(chance.least(able, lambda e: (1 - alpha) * work[e] / mean - alpha * base / (took[e] or 1.0)))

    def _took(self, request: RequestView, replica: int, prefill: Sequence[float], decode: Sequence[float]) -> float:
        """Seconds of a request alone on a replica; output counts where its rate is known."""
        rate, output = decode[replica], request.predicted_tokens or self.output_tokens
        return request.prompt_tokens / prefill[replica] + (output / rate if rate else 0.0)
