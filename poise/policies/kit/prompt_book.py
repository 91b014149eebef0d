"""A router's own book of prompts: what it sent to each replica to be computed, and has seen no first token of.

DualMap (arXiv 2602.06502) keeps the pending prefill tokens of each instance in its scheduler. Such a book has no age:
a prompt is in it from the moment it is sent until its first token passes. That a prompt is computed in part is not.
"""

from __future__ import annotations

from poise.core.view import ClusterView


class PromptBook:
    """Prompt tokens to compute by replica, of requests without a first token; its router needs `flights`."""

    __slots__ = ("_tokens",)

    def __init__(self) -> None:
        self._tokens: dict[int, int] = {}

    def send(self, request: int, tokens: int) -> None:
        """A request is sent to where `tokens` of its prompt are not cached."""
        self._tokens[request] = tokens

    def queued(self, cluster: ClusterView) -> list[int]:
        """A column over replicas as `queued_tokens` of the view; a prompt without a `send` counts whole."""
        known, kept, column = self._tokens, {}, [0] * len(cluster.total_blocks)
        for replica in range(len(column)):
            for flight in cluster.flights(replica):
                if flight.first_token_at < 0:
                    request = flight.request
                    tokens = kept[request.id] = known.get(request.id, request.prompt_tokens)
                    column[replica] += tokens
        self._tokens = kept
        return column
