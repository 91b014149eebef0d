"""Affinity by share: the longest cached prefix where it is most of the prompt, else the least queued work.

This is the rule by which DualMap (arXiv 2602.06502) stands in for Preble among its baselines, with `share` one half;
the whole of Preble is `preble`. A share of 0 always follows the longest prefix, and 1 goes by load alone: two more of
its baselines. Nothing bounds how far a hot prefix may crowd its replica. Of equally long prefixes the one with fewer
queued tokens is taken; ties are drawn. Queued tokens are as reported, or with `books` those of a book of its own, which
does not age. The decode half of a pair goes to the fewest requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.view import ClusterView
from poise.policies.kit.prompt_book import PromptBook


@dataclass(slots=True)
class PrefixAffinity:
    """Follow a prefix of more than `share` of the prompt.

    share: in [0, 1].  books: load is what it sent itself and saw no first token of, in place of what is reported.
    """

    without_prefixes: ClassVar[str] = "the least queued work"
    share: float = 0.5
    books: bool = False
    _book: PromptBook = field(default_factory=PromptBook, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"share {self.share} is no share of a prompt; give 0 to 1")

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns read."""
        return ("requests", "flights" if self.books else "queued_tokens", "cached_tokens")

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """The longest prefix, or the least queued tokens."""
        able = cluster.able(request)
        if cluster.stage == "decode":
            return Route(chance.least(able, cluster.requests))
        queued = self._book.queued(cluster) if self.books else cluster.queued_tokens
        cached = cluster.cached_tokens(request) if request.ids else ()
        if cached:
            longest = max([cached[replica] for replica in able])
            if longest > self.share * request.prompt_tokens:
                able = [replica for replica in able if cached[replica] == longest]
        chosen = chance.least(able, queued)
        if self.books:
            self._book.send(request.id, request.prompt_tokens - (cached[chosen] if cached else 0))
        return Route(chosen)
