"""A ceiling on the requests or KV tokens sent to each replica; requests above it wait at the gateway.

Orders and fair shares act only on requests held at the gateway; requests already sent are out of its control. The
ceiling is best near what an engine runs at once: lower leaves it idle, higher moves the queue into the engine, where
no request can be overtaken. llm-d's concurrency detector (`concurrency-detector`) is the same rule, by requests or
tokens.

Parameters: `requests`, 256 by default, which is vLLM's `max_num_seqs`; `tokens`, KV tokens as the view's column of that
name counts them; `kv_share`, the same as a share of each replica's own KV cache, where its size is known. 0 turns each
off. A replica with nothing in flight may always be sent a request, so that a prompt above the ceiling is served alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poise.core.request import RequestView
from poise.core.view import ClusterView


@dataclass(slots=True)
class Ceiling:
    """Leave those replicas that stay within every ceiling with this request.

    requests: in flight on a replica.  tokens: prompt tokens waiting and KV tokens held there, this prompt included.
    kv_share: the share of its KV blocks, of `block_tokens` tokens each, that these tokens may fill.
    """

    requests: int = 256
    tokens: int = 0
    kv_share: float = 0.0
    block_tokens: int = 16

    def __post_init__(self) -> None:
        if self.requests < 0 or self.tokens < 0 or self.kv_share < 0 or self.block_tokens < 1:
            raise ValueError("a ceiling must not be negative, and a block has tokens; give 0 to turn a ceiling off")

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("requests", "tokens") if self.tokens or self.kv_share else ("requests",)

    def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Sequence[int]:
        """The replicas with room."""
        requests = cluster.requests
        if self.requests:
            able = [replica for replica in able if requests[replica] < self.requests]
        if not (self.tokens or self.kv_share):
            return able
        tokens, prompt = cluster.tokens, request.prompt_tokens
        return [
            replica
            for replica in able
            if not requests[replica] or tokens[replica] + prompt <= self._room(replica, cluster)
        ]

    def _room(self, replica: int, cluster: ClusterView) -> float:
        """KV tokens that a replica may have; where its KV cache is not known, as many as `tokens` says."""
        blocks = cluster.total_blocks[replica] if self.kv_share else 0
        room = self.kv_share * blocks * self.block_tokens if blocks else float("inf")
        return min(room, self.tokens) if self.tokens else room
