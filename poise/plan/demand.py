"""The traffic that a fleet is sized for: its busiest stretch, and its rate per second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from poise.core.errors import UserError
from poise.core.units import SECOND
from poise.report.looks import FIRST
from poise.workload import Workload
from poise.workload.oddities import trace_line
from poise.workload.paths import programs
from poise.workload.rows import take

REQUESTS = 4000
"""Requests that one simulation takes, unless a stretch of `LEAST_S` has more."""

LEAST_S, MOST = 60.0, 20_000
"""Least seconds of a stretch where the traffic is that long, and the requests at which it is cut all the same."""

WARMUP = 0.1
"""The share of a stretch's time that is warm-up and not judged."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """Traffic that the search has not seen. make: its n-th stretch, from 0; most: how many there are, None: any number.

    first: the seed of the first one, where it is generated.
    """

    make: Callable[[int], Workload]
    most: int | None = None
    first: int = 0


@dataclass(frozen=True, slots=True)
class Demand:
    """The load to be carried. rate: requests per second.  prompt, output: mean tokens; `long_prompt`: the 99th
    percentile of prompts.  longest: the most tokens of one request.  hit: the share of prompt tokens that an unlimited
    prefix cache would find.  stretches: what is simulated in the search.  fresh: more of it, to confirm what was found;
    None where there is no more.  whole: all of the traffic.  notes: what was left out.
    turns: requests of a program in the mean, 0 where there are no programs.
    """

    rate: float
    prompt: float
    output: float
    long_prompt: float
    longest: int
    hit: float
    stretches: tuple[Workload, ...]
    fresh: Fresh | None
    whole: Workload
    notes: tuple[str, ...] = ()
    turns: float = 0.0

    @property
    def recorded(self) -> bool:
        """Whether there is no more traffic than what was recorded."""
        return self.fresh is None or self.fresh.most is not None

    @property
    def bare(self) -> Demand:
        """Without fresh traffic, for another process."""
        return replace(self, fresh=None)

    @property
    def warmup_s(self) -> float:
        """Seconds of a stretch that are not judged."""
        return WARMUP * span_s(self.stretches[0])


def demand_of(
    workloads: Sequence[Workload], *, name: str, requests: int = REQUESTS, make: Callable[[int], Workload] | None = None
) -> Demand:
    """The demand of one recorded workload, or of a generated one under several seeds.

    The search takes the seed with more tokens per second than three in four, so that what it finds seldom fails others.
    name: of the traffic, for errors.  requests: of one simulation.  make: the load under a seed that is not among
    `workloads`; None: it is recorded. UserError for traffic that has no rate.
    """
    first = workloads[0]
    if len(first) < 2 or first.concurrency or first.lanes is not None or not span_s(first):
        raise UserError(f"{name}: {_rateless(first)}; a plan needs arrivals over time: give more, or --rate")
    stretches = sorted((busiest(each, _rows(each, requests)) for each in workloads), key=tokens_per_s)
    chosen = stretches[3 * (len(stretches) - 1) // 4]
    notes = [line] if (line := trace_line(first.source)) else []
    if len(chosen) < len(first):
        notes.append(f"sized for the busiest {len(chosen)} requests of {len(first)} ({span_s(chosen):.4g} s)")
    return Demand(
        rate=len(chosen) / span_s(chosen),
        prompt=float(chosen.prompt.mean()),
        output=float(chosen.output.mean()),
        long_prompt=float(np.percentile(chosen.prompt, 99, method="inverted_cdf")),
        longest=int((chosen.prompt.astype(np.int64) + chosen.output).max()),
        hit=chosen.reachable_hit_rate() if chosen.prefixes is not None else 0.0,
        stretches=(chosen,),
        fresh=_others(first, chosen) if make is None else _generated(make, len(workloads), requests),
        whole=first,
        notes=tuple(notes),
        turns=_turns(chosen),
    )


def _generated(make: Callable[[int], Workload], first: int, requests: int) -> Fresh:
    def stretch(n: int) -> Workload:
        made = make(first + n)
        return busiest(made, _rows(made, requests))

    return Fresh(stretch, first=first)


def _others(whole: Workload, chosen: Workload) -> Fresh | None:
    """All stretches of a trace that are as long as `chosen`, each squeezed to its tokens per second, in mixed order.

    None where there are fewer than `FIRST`, or where requests wait for earlier ones, whose times cannot be squeezed.
    """
    rows, rate = len(chosen), tokens_per_s(chosen)
    if whole.after_offsets is not None or len(whole) < FIRST * rows:
        return None
    order = np.random.default_rng(0).permutation(len(whole) // rows)

    def stretch(n: int) -> Workload:
        begin = int(order[n]) * rows
        own = take(whole, np.arange(begin, begin + rows))
        since = own.arrival - own.arrival[0]
        own.arrival = since
        factor = rate / tokens_per_s(own) if span_s(own) else 1.0
        own.arrival = (since / factor).astype(since.dtype)
        return own

    return Fresh(stretch, len(order))


def busiest(workload: Workload, rows: int) -> Workload:
    """The stretch of `rows` requests with the most tokens per second, from its own start; all of shorter traffic.

    Where requests wait for earlier ones the first rows are taken: a stretch out of the middle would lack their causes.
    """
    if rows >= len(workload):
        return workload
    if workload.after_offsets is not None:
        return workload.head(rows)
    tokens = np.concatenate([[0], np.cumsum(workload.prompt.astype(np.int64) + workload.output)])
    spans = np.maximum(workload.arrival[rows - 1 :] - workload.arrival[: len(workload) - rows + 1], 1)
    begin = int(np.argmax((tokens[rows:] - tokens[:-rows]) / spans))
    chosen = take(workload, np.arange(begin, begin + rows))
    chosen.arrival = chosen.arrival - chosen.arrival[0]
    return chosen


def tokens_per_s(workload: Workload) -> float:
    """Prompt and output tokens requested per second."""
    return float(workload.prompt.sum(dtype=np.int64) + workload.output.sum(dtype=np.int64)) / span_s(workload)


def span_s(workload: Workload) -> float:
    """Seconds from the first arrival to the last, at least the think times of successors."""
    waited = 0.0
    if workload.delay is not None and workload.after_offsets is not None:
        leaders = int((np.diff(workload.after_offsets) == 0).sum())
        waited = float(workload.delay.sum()) / max(leaders, 1)
    own = workload.arrival
    if workload.after_offsets is not None:
        own = own[np.diff(workload.after_offsets) == 0]
    return (float(own[-1] - own[0]) + waited) / SECOND if len(own) else 0.0


def _turns(workload: Workload) -> float:
    of = programs(workload)
    mine = of[of >= 0] if of is not None else np.zeros(0, np.int64)
    return len(mine) / len(np.unique(mine)) if len(mine) else 0.0


def _rows(workload: Workload, requests: int) -> int:
    """Rows of a stretch: `requests`, or what arrives in `LEAST_S` if that is more."""
    return min(max(requests, round(len(workload) / span_s(workload) * LEAST_S)), MOST)


def _rateless(workload: Workload) -> str:
    if workload.concurrency:
        return f"its load is closed ({workload.concurrency} at once), so it has no rate of its own"
    if workload.lanes is not None:
        return f"its load is closed ({workload.lanes.count} conversations at once), so it has no rate of its own"
    if len(workload) < 2:
        return f"it has {len(workload)} request{'s' if len(workload) != 1 else ''}, which gives no rate"
    if workload.agent is not None:
        return "its conversations do not say when they began, so it has no rate"
    return "all its requests arrive at one instant, which gives no rate"
