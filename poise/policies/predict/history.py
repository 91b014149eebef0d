"""A quantile of the recent outputs of the same tenant and model.

A gateway can do this: it needs no content and no model of its own. A tenant of which fewer than `least` requests have
finished gets the quantile of the model's requests of all tenants, and before there are as many of these, `first`
tokens.

Parameters (ours): `quantile` 0.5, the median, which is right as often above as below; a higher one errs towards long.
`window` 200 requests, `least` 5, `first` 256 tokens. No prediction exceeds the client's own limit.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass, field

from poise.core.chance import Chance
from poise.core.request import RequestView

_ALL = -2
"""The key of all tenants together."""


class Lately:
    """The last `window` values, in order of age and of size."""

    __slots__ = ("_recent", "_sorted", "window")

    def __init__(self, window: int) -> None:
        self.window = window
        self._recent: deque[int] = deque()
        self._sorted: list[int] = []

    def __len__(self) -> int:
        return len(self._recent)

    def add(self, value: int) -> None:
        """One more; the oldest leaves a full window."""
        if len(self._recent) == self.window:
            del self._sorted[bisect_left(self._sorted, self._recent.popleft())]
        self._recent.append(value)
        insort(self._sorted, value)

    def quantile(self, share: float) -> int:
        """The least value that `share` of them do not exceed."""
        return self._sorted[max(-int(-share * len(self._sorted) // 1) - 1, 0)]


@dataclass(slots=True)
class History:
    """Predict a quantile of the last outputs of the tenant with this model.

    quantile: in [0, 1].  window: requests remembered.  least: how many of its own a tenant needs.  first: before any.
    """

    quantile: float = 0.5
    window: int = 200
    least: int = 5
    first: int = 256
    _lately: dict[tuple[int, int], Lately] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.quantile <= 1 or not 1 <= self.least <= self.window or self.first < 1:
            raise ValueError("quantile lies in [0, 1], least in [1, window], and first is 1 or more")

    def predict(self, request: RequestView, chance: Chance) -> int:
        """Its tenant's quantile, or that of all tenants, or the first guess."""
        guess = self.first
        for tenant in (request.tenant, _ALL):
            lately = self._lately.get((request.model, tenant))
            if lately is not None and len(lately) >= self.least:
                guess = lately.quantile(self.quantile)
                break
        return min(guess, request.max_tokens or guess)

    def learn(self, request: RequestView, output_tokens: int) -> None:
        """Remember it for its tenant and for all."""
        for tenant in (request.tenant, _ALL):
            lately = self._lately.get((request.model, tenant))
            if lately is None:
                lately = self._lately[request.model, tenant] = Lately(self.window)
            lately.add(output_tokens)
