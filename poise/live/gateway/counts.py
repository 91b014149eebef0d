"""Counters of ended requests: rows by engine, and by tenant, of which there is a bounded number."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from poise.live.gateway.proxied_request import ProxiedRequest

BOUNDS: Final = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
"""Upper bounds of the buckets in seconds: vLLM's for the time to first token, with a longer tail."""
MOST: Final = 200
"""Rows by name; all further names are counted together as `OTHERS`."""
OTHERS: Final = "(others)"
TURNS: Final = 20
"""Names that one review may exchange."""
BUSIER: Final = 2
"""A name without a row gets that of one with this many times fewer requests since the last review."""


class Histogram:
    """Values by bucket, and their sum; in seconds."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(BOUNDS, value)] += 1
        self.sum += value

    def put(self, place: int, value: float) -> None:
        """Count a value whose bucket is already computed."""
        self.counts[place] += 1
        self.sum += value

    def merge(self, other: Histogram) -> None:
        """Add another's counts."""
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum

    @property
    def count(self) -> int:
        """Values counted."""
        return sum(self.counts)

    def quantile(self, part: float) -> float:
        """The upper bound of the bucket in which this part of the values ends; 0 if there are none."""
        left = part * self.count
        for bound, count in zip((*BOUNDS, BOUNDS[-1]), self.counts, strict=True):
            left -= count
            if left <= 0 and count:
                return bound
        return 0.0


class CounterRow:
    """Counters of one tenant's requests, or of those at one engine. requests: all of them."""

    __slots__ = (
        "agreed", "cached", "e2e", "hit", "known_prompt", "output", "predicted", "prompt", "requests", "statuses",
        "ttft", "wait",
    )  # fmt: skip

    def __init__(self) -> None:
        self.statuses: dict[int, int] = {}
        self.requests = self.prompt = self.output = self.cached = self.known_prompt = 0
        self.predicted = self.hit = self.agreed = 0
        self.ttft, self.wait, self.e2e = Histogram(), Histogram(), Histogram()

    def judge(self, proxied: ProxiedRequest, predicted: int) -> None:
        """Record the cached prompt tokens that an engine reported against the `predicted` ones.

        Where the gateway estimates a prompt's tokens, the prediction is scaled to the number that the engine counted.
        """
        view, usage = proxied.view, proxied.usage
        if usage.prompt > 0 and usage.prompt != view.prompt_tokens:
            predicted = round(predicted * usage.prompt / view.prompt_tokens)
        self.predicted += predicted
        self.hit += usage.cached
        self.agreed += min(predicted, usage.cached)

    def merge(self, other: CounterRow) -> None:
        """Add another's counts."""
        for status, count in other.statuses.items():
            self.statuses[status] = self.statuses.get(status, 0) + count
        for name in ("requests", "prompt", "output", "cached", "known_prompt", "predicted", "hit", "agreed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("ttft", "wait", "e2e"):
            getattr(self, name).merge(getattr(other, name))


def count(rows: Sequence[CounterRow], proxied: ProxiedRequest, status: int, now: int) -> None:
    """Count a request that ended in each of these rows; buckets are looked up once."""
    view, usage, arrived = proxied.view, proxied.usage, proxied.view.arrived_at
    sent, began = proxied.sent_at >= 0, proxied.first_at >= 0
    wait = (proxied.sent_at - arrived) * 1e-12
    ttft, e2e = (proxied.first_at - arrived) * 1e-12, (now - arrived) * 1e-12
    waited = bisect_left(BOUNDS, wait) if sent else 0
    first, whole = (bisect_left(BOUNDS, ttft), bisect_left(BOUNDS, e2e)) if began else (0, 0)
    prompt = usage.prompt if usage.prompt >= 0 else view.prompt_tokens
    output, cached, stream = usage.tokens, usage.cached, proxied.stream
    for row in rows:
        row.requests += 1
        row.statuses[status] = row.statuses.get(status, 0) + 1
        if sent:
            row.wait.put(waited, wait)
        if not began:
            continue
        if stream:
            row.ttft.put(first, ttft)
        row.e2e.put(whole, e2e)
        row.prompt += prompt
        row.output += output
        if cached >= 0:
            row.cached += cached
            row.known_prompt += max(usage.prompt, 0)


class CounterTable:
    """Rows by name: at most `most`, those of the busiest names, and one for all others.

    A row never counts backwards, as counters must not: a name that loses its row adds it to the others, and a name that
    gets one begins at 0. `review` finds which names are busiest, so that a request costs one look-up.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._others = CounterRow()
        self._before: dict[str, int] = {}
        self._outside: Counter[str] = Counter()
        self.rows: dict[str, CounterRow] = {}

    def row(self, name: str) -> CounterRow:
        """The row of a request of this name that ends now."""
        row = self.rows.get(name)
        if row is not None:
            return row
        if len(self.rows) < self._most and name != OTHERS:
            row = self.rows[name] = CounterRow()
            return row
        self.rows.setdefault(OTHERS, self._others)
        self._outside[name] += 1
        return self._others

    def review(self, gone: Collection[str] = ()) -> None:
        """Give rows to names that had more requests since the last review than some with one; `gone` need none."""
        shown = [name for name in self.rows if name != OTHERS]
        if self._outside:
            since = {name: self.rows[name].requests - self._before.get(name, 0) for name in shown}
            weakest = sorted(shown, key=lambda name: (name not in gone, since[name]))
            for (name, requests), weak in zip(self._outside.most_common(TURNS), weakest, strict=False):
                if weak not in gone and requests <= BUSIER * since[weak]:
                    break
                self._others.merge(self.rows.pop(weak))
                if name != OTHERS:
                    self.rows[name] = CounterRow()
            self._outside.clear()
        self._before = {name: row.requests for name, row in self.rows.items()}
