"""The requests of a recording as the columns of a workload and of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import TraceError
from poise.core.records.records import FINISHED, NOT_YET, UNFINISHED, Records, Run
from poise.core.request import RequestView
from poise.core.units import NEVER
from poise.workload.table import Prefixes, Workload


@dataclass(slots=True)
class RequestTimes:
    """One request while a recording is read; instants in picoseconds, as they were recorded.

    sent_at: when it was first sent, again_at: last.  times: how often.
    """

    request: RequestView
    arrived_at: int
    sent_at: int = NOT_YET
    again_at: int = NOT_YET
    first_token_at: int = NOT_YET
    ended_at: int = NOT_YET
    replica: int = -1
    decode: int = -1
    output_tokens: int = 0
    status: int = UNFINISHED
    times: int = 0


MOST = 2**31 - 1
"""Columns of tokens and of replicas have 32 bits."""


DENSE_IDS = 1 << 20
"""Figures by session are columns as long as the largest id: up to this size that costs nothing."""


def sane(life: RequestTimes, replicas: int) -> None:
    """TraceError for a request whose instants, tokens or replicas do not fit their columns; `replicas`: how many."""
    request = life.request
    rules = (
        ("its instants", (life.arrived_at, life.sent_at, life.again_at, life.first_token_at, life.ended_at), 0, NEVER),
        ("arrived_at", (request.arrived_at,), 0, NEVER),
        ("deadline_at", (request.deadline_at,), 0, NEVER),
        ("prompt_tokens", (request.prompt_tokens,), 0, MOST),
        ("output_tokens", (life.output_tokens,), 0, MOST),
        ("replica", (life.replica, life.decode), -1, replicas - 1),
        ("model", (request.model,), -1, 2**15 - 1),
    )
    for name, values, least, most in rules:
        for value in values:
            if not least <= value <= most:
                raise TraceError(
                    f"request {request.id}: {name}: {value} lies outside {least} to {most}; the recording is damaged, "
                    "so give it as it was written"
                )


def workload_of(known: list[RequestTimes], start: int, models: list[str]) -> tuple[Workload, int]:
    """The requests as columns, and how many have extents that contradict others."""
    views = [life.request for life in known]
    output = np.array([life.output_tokens for life in known], dtype=np.int32)
    limit = np.array([min(max(view.max_tokens, 0), MOST) for view in views], dtype=np.int32)
    prefixes, odd = _prefixes(views)
    prompt = np.array([max(view.prompt_tokens, 1) for view in views], dtype=np.int32)
    arrival = np.array([life.arrived_at - start for life in known], dtype=np.int64)
    deadline = np.array([view.deadline_at and view.deadline_at - view.arrived_at for view in views], dtype=np.int64)
    named = tuple(models) if len(models) > 1 else ()
    return Workload(
        arrival,
        prompt,
        output,
        prefixes=prefixes,
        max_tokens=np.where(limit > 0, np.maximum(limit, output), 0) if limit.any() else None,
        model=np.array([view.model for view in views], dtype=np.int16) if named else None,
        models=named,
        lora=_ids([view.lora for view in views]),
        session=_ids([view.session for view in views]),
        tenant=_ids([view.tenant for view in views]),
        priority=_plain(np.array([max(-(2**15), min(view.priority, 2**15 - 1)) for view in views], dtype=np.int16)),
        deadline=_plain(np.maximum(deadline, 0)),
        source={"kind": "recording"},
    ).check(), odd


def _plain(column: NDArray[Any]) -> NDArray[Any] | None:
    return column if column.any() else None


def _ids(values: list[int]) -> NDArray[np.int32] | None:
    """Ids as they are where they are dense enough to count by, else numbered anew; None where no row has one."""
    most = max(values)
    if most < 0:
        return None
    if most < max(DENSE_IDS, len(values)):
        return np.array([max(value, -1) for value in values], dtype=np.int32)
    numbers: dict[int, int] = {}
    return np.array([-1 if value < 0 else numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int32)


def _prefixes(views: list[RequestView]) -> tuple[Prefixes | None, int]:
    """Prompt identity, its ids as they are where they fit the column, else numbered anew.

    An extent ends after equally many tokens and follows the same one wherever it stands, within its prompt; a chain is
    cut where one does not.
    """
    if not any(view.ids for view in views):
        return None, 0
    most = 1 << 63
    large = any(max(view.ids, default=0) >= most or min(view.ids, default=0) < -most for view in views)
    reach: dict[int, int] = {}
    follows: dict[int, int] = {}
    numbers: dict[int, int] = {}
    offsets, ids, ends = [0], list[int](), list[int]()
    odd = 0
    for view in views:
        before, last = 0, -1
        odd += len(view.ids) != len(view.ends)
        for extent, end in zip(view.ids, view.ends, strict=False):
            if end <= before or end > view.prompt_tokens or reach.setdefault(extent, end) != end:
                odd += 1
                break
            if follows.setdefault(extent, last) != last:
                odd += 1
                break
            last = extent
            ids.append(numbers.setdefault(extent, len(numbers)) if large else extent)
            ends.append(end)
            before = end
        offsets.append(len(ids))
    columns = np.array(offsets, dtype=np.int64), np.array(ids, dtype=np.int64), np.array(ends, dtype=np.int32)
    return Prefixes(*columns), odd


def run_of(known: list[RequestTimes], start: int, ended_at: int) -> Run:
    """The outcome of each row, in the form of a simulation's result."""
    records = Records(len(known))
    for row, life in enumerate(known):
        records.arrived_at[row] = life.arrived_at - start
        records.dispatched_at[row] = life.again_at - start
        records.first_token_at[row] = life.first_token_at - start
        records.ended_at[row] = life.ended_at - start
        records.status[row] = FINISHED
        records.replica[row], records.decode_replica[row] = life.replica, life.decode
        records.prompt_tokens[row] = max(life.request.prompt_tokens, 1)
        records.output_tokens[row] = life.output_tokens
        records.retries[row] = min(life.times - 1, 127)
    return Run(records, [], ended_at=ended_at, offered=len(known))
