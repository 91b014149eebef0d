"""Replicas whose memory is short borrow spare KV blocks of others, by Infinite-LLM's planner.

Source: Infinite-LLM (arXiv 2401.02669). Each round, which follows a report, the paper's planner
(`policies/kit/lending.py`) offers those whose first waiting request does not fit memory of the emptiest others, as much
as raises the modelled throughput of all most, and no more than those who wait there can use. A debtor returns
what its running requests will not take once no request waits at it, or as soon as one waits at its creditor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import ClassVar

from poise.core.action import Lend
from poise.core.request import RequestView
from poise.core.units import ps
from poise.core.view import ClusterView
from poise.policies.kit.lending import Greedy, Status
from poise.policies.kit.loads import check_units


@dataclass(slots=True)
class InfiniteLlm:
    """The planner, on what replicas report.

    step_s, decode_s, kv_s: its cost model: seconds of a step, of each decode in it and of each KV token that it reads
    (default: LLaMA2-7B on an A100 by roofline).  most, small, roomy: as of the planner.
    slack: the part of a replica's blocks that it keeps free, as a debtor and as a creditor, for the growth of its
    requests.
    output_tokens: the guess for a request without a prediction.  block_tokens: tokens per KV block.
    """

    reads_predictions: ClassVar[bool] = True

    step_s: float = 0.0105
    decode_s: float = 1e-5
    kv_s: float = 3.2e-7
    most: int = 256
    small: float = 0.8
    roomy: float = 0.8
    slack: float = 0.05
    output_tokens: int = 300
    block_tokens: int = 16
    _busy: dict[int, int] = field(default_factory=dict, init=False)
    """Picoseconds until which a debtor's reports do not include its last loan."""

    def __post_init__(self) -> None:
        check_units(self.block_tokens, self.step_s)

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("tokens", "queued_tokens", "waiting", "running", "free_blocks", "flights")

    def lend(self, cluster: ClusterView) -> Sequence[Lend]:
        """Return unused blocks; then make new loans, among interchangeable replicas."""
        actions, seen = self._returns(cluster), set[int]()
        for debtor, waiting in enumerate(cluster.waiting):
            flights = cluster.flights(debtor) if waiting and debtor not in seen else ()
            if flights:
                peers = cluster.peers(flights[-1].request, debtor)
                group = [
                    debtor,
                    *(each for each in peers if cluster.total_blocks[each] == cluster.total_blocks[debtor]),
                ]
                seen.update(group)
                actions += self._loans(cluster, sorted(group))
        return actions

    def _returns(self, cluster: ClusterView) -> list[Lend]:
        actions = []
        for (debtor, creditor), blocks in cluster.loans.items():
            unused = cluster.free_blocks[debtor] - self._spare(cluster, debtor) - self._growth(cluster, debtor)
            idle = not cluster.waiting[debtor] and self._shown(cluster, debtor)
            if (idle or cluster.waiting[creditor]) and unused > 0:
                actions.append(Lend(debtor, creditor, -min(blocks, unused)))
        return actions

    def _loans(self, cluster: ClusterView, group: Sequence[int]) -> list[Lend]:
        capacity = cluster.total_blocks[group[0]] * self.block_tokens
        planner = Greedy(self._seconds, capacity, self.most, self.small, self.roomy)
        actions = []
        for one, other, tokens in planner.plan([self._status(cluster, replica) for replica in group]):
            debtor, creditor = group[one], group[other]
            there_s = cluster.kv_seconds(tokens, debtor, creditor)
            self._busy[debtor] = max(self._busy.get(debtor, 0), cluster.now + ps(there_s))
            actions.append(Lend(debtor, creditor, -(-tokens // self.block_tokens)))
        return actions

    def _status(self, cluster: ClusterView, replica: int) -> Status:
        """A replica's state as the planner's input.

        A request that waits for another reason than memory makes no debtor, and a replica with waiting ones lends
        nothing.
        """
        block, total = self.block_tokens, cluster.total_blocks[replica]
        lent = sum(blocks for (_, creditor), blocks in cluster.loans.items() if creditor == replica)
        borrowed = sum(blocks for (debtor, _), blocks in cluster.loans.items() if debtor == replica)
        free = cluster.free_blocks[replica]
        head, *behind = self._queue(cluster, replica) or [0]
        blocked = head > free * block and self._shown(cluster, replica)
        kept = self._spare(cluster, replica) + self._growth(cluster, replica)
        used = total - free if blocked else total if head else total - free + kept
        read = max(0, cluster.tokens[replica] - cluster.queued_tokens[replica] - borrowed * block) + lent * block
        mean = fmean(behind) if behind else 1.0
        return Status(
            cluster.running[replica], min(max(used, 0), total) * block, read, head if blocked else 0,
            mean if blocked else 0.0, borrowed > 0, lent > 0, cluster.waiting[replica],
        )  # fmt: skip

    def _queue(self, cluster: ClusterView, replica: int) -> list[int]:
        """KV tokens at their end of the requests that wait at a replica, the last that were sent."""
        waiting = self._waiting(cluster, replica)
        return [each.prompt_tokens + (each.predicted_tokens or self.output_tokens) for each in waiting]

    def _waiting(self, cluster: ClusterView, replica: int) -> Sequence[RequestView]:
        unseen = [each.request for each in cluster.flights(replica) if each.first_token_at < 0]
        return unseen[-cluster.waiting[replica] :] if cluster.waiting[replica] else ()

    def _spare(self, cluster: ClusterView, replica: int) -> int:
        return int(self.slack * cluster.total_blocks[replica])

    def _growth(self, cluster: ClusterView, replica: int) -> int:
        """Blocks that the running requests may still take, for the rest of their prompts and for their outputs."""
        waiting = sum(each.prompt_tokens for each in self._waiting(cluster, replica))
        prompts = max(0, cluster.queued_tokens[replica] - waiting)
        return -(-prompts // self.block_tokens) + cluster.running[replica] * -(-self.output_tokens // self.block_tokens)

    def _shown(self, cluster: ClusterView, debtor: int) -> bool:
        return cluster.measured_at[debtor] >= self._busy.get(debtor, 0)

    def _seconds(self, batch: int, read: float) -> float:
        return self.step_s + self.decode_s * batch + self.kv_s * read
