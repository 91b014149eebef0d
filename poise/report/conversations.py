"""Figures of agents' conversations, as InferenceX and AISimulate define them: of jobs, of tokens and of speed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.records.records import FINISHED, Run
from poise.core.spec import Cluster
from poise.core.units import SECOND, seconds
from poise.report.latency import Mask, Summary, column, counted, finished, nearest_rank, since, summary
from poise.report.spending import pools_by_replica, uptime

PERCENTS = (50, 90)
"""The percentiles of the time per token of which the inverse is the interactivity; InferenceX quotes P90."""


@dataclass(frozen=True, slots=True)
class Interactivity:
    """Output tokens per second of a request: 1 / percentile of (end to end / output tokens), over finished requests."""

    p50: float | None = None
    p90: float | None = None


@dataclass(frozen=True, slots=True)
class Agents:
    """Figures of conversations; units are seconds and tokens.

    lanes: conversations under way at any time, 0 where all are.  begun, finished: conversations of which a request
    counts, and those of them that are over; where lanes begin inside a record these are finished sooner than others,
    so that the time of a conversation (`program_s`) is of those that began with their first request.
    subagents, subagent_s: sub-agents that are over, and their times from first arrival to last end.
    prompt_tokens, output_tokens: of finished requests, cached tokens included.
    …_per_s, …_per_s_per_device: of those, over the time from where requests count to the end of the run.
    theoretical_hit_rate: prompt tokens that a cache which never evicts would find, of the same requests as
    `prefix_hit_rate`.  interactivity: tokens per second.
    """

    lanes: int
    begun: int
    finished: int
    subagents: int
    subagent_s: Summary
    prompt_tokens: int
    output_tokens: int
    tokens_per_s: float | None
    tokens_per_s_per_device: float | None
    output_tokens_per_s_per_device: float | None
    theoretical_hit_rate: float | None
    interactivity: Interactivity


def agents(run: Run, cluster: Cluster, warmup_s: float = 0.0) -> Agents | None:
    """The figures of a run's conversations, of requests that arrived after warm-up; None where there are none."""
    found = run.conversations
    if found is None:
        return None
    rows, done = counted(run, warmup_s), finished(run, warmup_s)
    prompt, output = (_sum(column(each), done) for each in (run.records.prompt_tokens, run.records.output_tokens))
    begin = since(run, warmup_s)
    lasted, device_s = seconds(run.ended_at - begin), _device_seconds(run, cluster, begin)
    begun, over = _conversations(run, rows)
    took = _subagents(run, rows)
    return Agents(
        lanes=found.lanes,
        begun=begun,
        finished=over,
        subagents=len(took),
        subagent_s=summary(took),
        prompt_tokens=prompt,
        output_tokens=output,
        tokens_per_s=_rate(prompt + output, lasted),
        tokens_per_s_per_device=_rate(prompt + output, device_s),
        output_tokens_per_s_per_device=_rate(output, device_s),
        theoretical_hit_rate=_theoretical(run, rows),
        interactivity=_interactivity(run, done),
    )


def _sum(values: NDArray[Any], rows: Mask) -> int:
    return int(values[rows].sum(dtype=np.int64))


def _rate(amount: int, lasted: float) -> float | None:
    return amount / lasted if lasted > 0 else None


def _device_seconds(run: Run, cluster: Cluster, begin: int) -> float:
    """Seconds for which devices were taken, all of them added up, from `begin` to the end of the run."""
    pools = pools_by_replica(cluster)
    taken = sum(
        uptime(stats, run.ended_at, begin) * pool.devices for stats, pool in zip(run.replicas, pools, strict=True)
    )
    return seconds(taken)


def _conversations(run: Run, rows: Mask) -> tuple[int, int]:
    """How many conversations have a request that counts, and of how many of these every request finished."""
    assert run.conversations is not None
    play = column(run.conversations.play)
    count = len(run.conversations.whole)
    mine = play >= 0
    begun = np.bincount(play[mine & rows], minlength=count) > 0
    left = np.bincount(play[mine & (column(run.records.status) != FINISHED)], minlength=count)
    return int(begun.sum()), int((begun & (left == 0)).sum())


def _subagents(run: Run, rows: Mask) -> NDArray[np.int64]:
    """How long each sub-agent took of which every request counts and finished (picoseconds)."""
    assert run.conversations is not None
    agent, play = (column(each).astype(np.int64) for each in (run.conversations.agent, run.conversations.play))
    mine = np.flatnonzero((agent > 0) & (play >= 0))
    if not len(mine):
        return np.zeros(0, np.int64)
    width = int(agent.max()) + 1
    _, number = np.unique(play[mine] * width + agent[mine], return_inverse=True)
    arrived, ended = (column(each)[mine] for each in (run.records.arrived_at, run.records.ended_at))
    count = int(number.max()) + 1
    begin, end = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
    np.minimum.at(begin, number, arrived)
    np.maximum.at(end, number, ended)
    good = rows[mine] & (column(run.records.status)[mine] == FINISHED)
    whole = np.bincount(number[~good], minlength=count) == 0
    return np.asarray((end - begin)[whole])


def _theoretical(run: Run, rows: Mask) -> float | None:
    """The share of prompt tokens that a cache which never evicts would find; None where prompts have no identity."""
    assert run.conversations is not None
    admitted = rows & (column(run.records.first_token_at) >= 0)
    tokens = _sum(column(run.records.prompt_tokens), admitted)
    if run.conversations.reusable is None or not tokens:
        return None
    prompt = column(run.records.prompt_tokens)[admitted]
    found = np.minimum(column(run.conversations.reusable)[admitted], prompt - 1)
    return int(found.sum(dtype=np.int64)) / tokens


def _interactivity(run: Run, done: Mask) -> Interactivity:
    output = column(run.records.output_tokens)[done].astype(np.int64)
    took = (column(run.records.ended_at) - column(run.records.arrived_at))[done]
    some = output > 0
    if not some.any():
        return Interactivity()
    p50, p90 = nearest_rank(took[some] // output[some], PERCENTS)
    return Interactivity(*(SECOND / each if each else None for each in (p50, p90)))
