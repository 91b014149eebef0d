"""CaraServe's rank-aware router: the replica at which a request's adapter adds the least time to all requests there.

Paper: CaraServe, arXiv 2401.11240, section 5 (algorithm 1). Kernels for batches of several adapters take time by the
ranks in the batch: with padding (Punica's BGMV) in proportion to its requests times the greatest rank, without
(S-LoRA's MBGMV) to the sum of ranks. For each candidate the router adds the prefill time that the request brings,
spread over the tokens of a mean answer, to the time by which a decode step gets longer, and multiplies with the
requests there. A replica whose decode step would exceed the SLO gets a penalty. The least cost is taken.

Parameters: `kernel`, `bgmv` or `mbgmv`; `tpot_s`, the SLO of a decode step; `answer_tokens`, the mean answer;
`rank_s`, seconds of a step per request and rank. The paper fits the slope to its device and prints no number: here it
is the bytes of one rank in the attention of Llama-2-7B, 2.1 MB, over an A10's 600 GB/s. Differences: a decode step
without adapters is 1/`decode_rate` of one request, whatever the batch, since it is equal at all replicas but for its
growth; the paper's candidates are the replicas that have the adapter in host memory, here all able ones; a tie of no
cost, at idle replicas, is drawn among those where the adapter lies on the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.view import ClusterView
from poise.policies.kit.loads import prefill_rates

_KERNELS = ("bgmv", "mbgmv")
PENALTY_S: Final = 1e6
"""Seconds added where the SLO would be missed: such a replica is taken only if all are."""


@dataclass(slots=True)
class Caraserve:
    """Send each request to the replica where it costs least.

    kernel: how the time of a step follows the ranks of its batch.  tpot_s: SLO of a decode step in seconds.
    answer_tokens: output tokens of a mean request.  rank_s: seconds of a step per request and rank.
    """

    kernel: Literal["bgmv", "mbgmv"] = "mbgmv"
    tpot_s: float = 0.05
    answer_tokens: float = 200.0
    rank_s: float = 3.5e-6

    def __post_init__(self) -> None:
        if self.kernel not in _KERNELS:
            raise ValueError(f"kernel {self.kernel!r} is unknown; give one of {', '.join(_KERNELS)}")
        for name in ("tpot_s", "answer_tokens", "rank_s"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} {getattr(self, name):g} must be above 0")

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("flights", "adapters")

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """The least cost; among equals one that has the adapter on its device."""
        able, rates = cluster.able(request), prefill_rates(cluster)
        cost = {}
        for replica in able:
            there = [flight.request for flight in cluster.flights(replica)]
            away = request.lora >= 0 and request.lora not in cluster.adapters(replica).resident
            cost[replica] = self._cost(request, there, cluster, replica, rates[replica]), away
        return Route(chance.least(able, cost.__getitem__))

    def _cost(
        self, request: RequestView, there: Sequence[RequestView], cluster: ClusterView, replica: int, rate: float
    ) -> float:
        """Seconds per output token that the request adds to all requests of a replica."""
        ranks = [_rank(each, cluster.adapter_ranks) for each in there]
        new = _rank(request, cluster.adapter_ranks)
        before, after = self._work(ranks), self._work([*ranks, new])
        prefill = request.prompt_tokens / rate
        cost = (prefill / self.answer_tokens + self.rank_s * (after - before)) * len(there)
        alone = 1 / cluster.decode_rate[replica] if cluster.decode_rate[replica] else 0.0
        return cost + PENALTY_S if alone + self.rank_s * after > self.tpot_s else cost

    def _work(self, ranks: Sequence[int]) -> int:
        """The work of one step, in requests times ranks."""
        return sum(ranks) if self.kernel == "mbgmv" else len(ranks) * max(ranks, default=0)


def _rank(request: RequestView, ranks: Sequence[int]) -> int:
    """The rank of a request's adapter: 0 without one, 16 where it is not known."""
    if request.lora < 0:
        return 0
    return ranks[request.lora] if request.lora < len(ranks) else 16
