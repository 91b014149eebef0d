"""The time window of a run's rates, and the work done in it.

Rates of arrivals (offered, goodput) count from the first arrival to the last. So do rates of work (requests finished,
tokens, dollars and joules of them): work done later, while the queue drains, is not counted, so these rates never
exceed the fleet's capacity. In a run that is short compared with its answers little is done by then, so a rate that is
higher over the whole run is taken over the whole run. Where requests wait for other requests (a closed load, sessions,
workflows) arrivals continue for the whole run, and rates count over the whole run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poise.core.records.records import FINISHED, Run
from poise.core.units import seconds
from poise.report.latency import column, counted, since

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Window:
    """The time that rates of work count over (instants in picoseconds).

    first: when the first request of the run arrived.  begin: that, or the end of warm-up where it is later.
    end: of the arrivals (`early`), or of the run.
    """

    first: int
    begin: int
    end: int
    early: bool = False

    @property
    def seconds(self) -> float:
        """Its length; 0 where it has none."""
        return max(seconds(self.end - self.begin), 0.0)

    def rate(self, amount: float) -> float | None:
        """`amount` per second; None for a window without length."""
        return amount / self.seconds if self.seconds else None


@dataclass(frozen=True, slots=True)
class Work:
    """Requests that finished within a window, and the tokens computed in it for requests that finished at any time."""

    window: Window
    finished: int
    prompt_tokens: float
    output_tokens: float

    @property
    def tokens(self) -> float:
        """Input and output tokens."""
        return self.prompt_tokens + self.output_tokens

    def rate(self, name: str) -> float | None:
        """One of these per second: `finished`, `output_tokens` or `tokens`; None for a window without length."""
        return self.window.rate(getattr(self, name))


def offered(run: Run, warmup_s: float = 0.0) -> float | None:
    """Requests per second that arrived after warm-up: gaps over the time from the first to the last of them.

    Computed as in `Workload.rate`, so that the offered rate of a run equals that of its workload. Over the whole run
    where requests wait for other requests or all arrive at once; None for a run of zero length.
    """
    arrived = column(run.records.arrived_at)[counted(run, warmup_s)]
    if run.arrivals_end >= 0 and len(arrived) and (span := int(arrived.max() - arrived.min())):
        return (len(arrived) - 1) / seconds(span)
    return _whole(run, warmup_s).rate(len(arrived))


def works(run: Run, warmup_s: float = 0.0) -> list[Work]:
    """The work done while requests arrived, where that is a time of its own, and that of the whole run.

    Work counts whenever its request arrived, so that a warmed-up run counts as much at its beginning as at its end.
    """
    whole = _whole(run, warmup_s)
    early = Window(whole.first, whole.begin, run.arrivals_end, early=True)
    return [_done(run, each) for each in (early, whole) if not each.early or each.seconds]


def best(works: Sequence[Work], name: str) -> Work:
    """The work with the higher rate of `name`; that of the arrivals where both are equal."""
    return max(works, key=lambda each: each.rate(name) or 0.0)


def _whole(run: Run, warmup_s: float) -> Window:
    """From the first arrival, or the end of warm-up, to the end of the run."""
    arrived = column(run.records.arrived_at)
    first = int(arrived[arrived >= 0].min(initial=run.ended_at))
    return Window(first, max(first, since(run, warmup_s)), run.ended_at)


def _done(run: Run, window: Window) -> Work:
    """The work done between `begin` and `end`; a prompt is computed when its first token is there."""
    records = run.records
    rows = column(records.status) == FINISHED
    first, ended = (column(each)[rows] for each in (records.first_token_at, records.ended_at))
    first = np.where(first >= 0, first, ended)
    prompt, output = column(records.prompt_tokens)[rows], column(records.output_tokens)[rows]
    computed = (first >= window.begin) & (first <= window.end)
    made = _made(first, ended, output, window.end) - _made(first, ended, output, window.begin - 1)
    return Work(
        window,
        int(((ended >= window.begin) & (ended <= window.end)).sum()),
        float(prompt[computed].sum(dtype=np.int64)),
        float(made.sum()),
    )


def _made(first: NDArray[np.int64], ended: NDArray[np.int64], output: NDArray[np.int32], until: int) -> Floats:
    """Output tokens of each request by an instant: one with the first token, the others evenly until its end."""
    share = np.clip((until - first) / np.maximum(ended - first, 1), 0.0, 1.0)
    return np.where(until < first, 0.0, np.where(until >= ended, output, 1 + (output - 1) * share))
