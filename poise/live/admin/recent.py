"""Figures of the last minutes: totals kept every few seconds, and the differences between them.

A request costs nothing more. Percentiles are bounds of the histogram's buckets, not exact values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from poise.core.units import SECOND
from poise.live.gateway.counts import BOUNDS, CounterRow, Histogram
from poise.live.gateway.proxied_request import HELD, ProxiedRequest

STEP_S: Final = 10.0
STEPS: Final = 30
"""Totals are kept for five minutes."""
PARTS: Final = (0.5, 0.95, 0.99)
BEYOND: Final = -1.0
"""Shown for a value above the last bound."""


class Totals(NamedTuple):
    """Totals until `at` (picoseconds). ttft, e2e: values by bucket of `BOUNDS`.

    failed: ended by a fault (5xx).  limited: refused for now (429).  prompt: of ended requests.  output: tokens
    passed on, those of running requests included.  open, held: requests not ended at `at`.
    """

    at: int
    requests: int
    failed: int
    limited: int
    prompt: int
    output: int
    ttft: tuple[int, ...]
    e2e: tuple[int, ...]
    open: int = 0
    held: int = 0


def totals(at: int, rows: Iterable[CounterRow], proxied_requests: Collection[ProxiedRequest] = ()) -> Totals:
    """The sum over rows that share no request, and the requests not ended."""
    rows = list(rows)
    by_status = [(status, count) for row in rows for status, count in row.statuses.items()]
    return Totals(
        at,
        sum(count for _, count in by_status),
        sum(count for status, count in by_status if status >= 500),
        sum(count for status, count in by_status if status == 429),
        sum(row.prompt for row in rows),
        sum(row.output for row in rows)
        + sum(proxied.usage.tokens for proxied in proxied_requests if proxied.first_at >= 0),
        _counts([row.ttft for row in rows]),
        _counts([row.e2e for row in rows]),
        len(proxied_requests),
        sum(proxied.state == HELD for proxied in proxied_requests),
    )


def between(before: Totals, after: Totals) -> Totals:
    """The difference from `before` to `after`; `at` is how long that was, what is open is that at its end."""
    return Totals(
        after.at - before.at,
        max(0, after.requests - before.requests),
        max(0, after.failed - before.failed),
        max(0, after.limited - before.limited),
        max(0, after.prompt - before.prompt),
        max(0, after.output - before.output),
        _less(after.ttft, before.ttft),
        _less(after.e2e, before.e2e),
        after.open,
        after.held,
    )


def bound(counts: Sequence[int], part: float) -> float | None:
    """The upper bound, in seconds, of the bucket in which `part` of the values end; `BEYOND` above all bounds.

    None where there is no value.
    """
    left = part * sum(counts)
    if not left:
        return None
    for limit, count in zip(BOUNDS, counts, strict=False):
        left -= count
        if left <= 1e-9:
            return limit
    return BEYOND


class Recent:
    """Totals at past steps of `step_s` each, the first at the time of creation."""

    def __init__(self, first: Totals, step_s: float = STEP_S) -> None:
        self.step_s = step_s
        self.marks: deque[Totals] = deque([first], STEPS + 1)
        self.steps: deque[Totals] = deque(maxlen=STEPS)
        """The counts of each step, the oldest first."""

    def mark(self, now: Totals) -> None:
        """End a step."""
        self.steps.append(between(self.marks[-1], now))
        self.marks.append(now)

    def last(self, now: Totals, seconds: float) -> Totals:
        """The counts of about the last `seconds`: since the newest mark that is as old, or the oldest."""
        since = now.at - int((seconds - self.step_s / 2) * SECOND)
        early = next((mark for mark in reversed(self.marks) if mark.at <= since), self.marks[0])
        return between(early, now)


def _counts(histograms: Sequence[Histogram]) -> tuple[int, ...]:
    if not histograms:
        return (0,) * (len(BOUNDS) + 1)
    return tuple(map(sum, zip(*(each.counts for each in histograms), strict=True)))


def _less(counts: Sequence[int], before: Sequence[int]) -> tuple[int, ...]:
    return tuple(max(0, late - early) for late, early in zip(counts, before, strict=True))
