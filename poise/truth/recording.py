"""From a recording to the requests that it holds, and to what became of each of them."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.action import Dispatch, Refuse
from poise.core.errors import TraceError
from poise.core.event import (
    Arrived,
    Cancelled,
    Draining,
    Failed,
    Finished,
    FirstToken,
    Joined,
    Known,
    Left,
    Lost,
    Moved,
)
from poise.core.header import replicas_of
from poise.core.records import CANCELLED, FINISHED, LOST, NOT_YET, REJECTED, STATUS, TIMED_OUT, UNFINISHED, Records, Run
from poise.core.request import RequestView
from poise.core.spec import Fault, ReplicaSpec
from poise.core.trace import Trace
from poise.core.units import seconds
from poise.workload.table import Prefixes, Workload

Mask = NDArray[np.bool_]


@dataclass(slots=True)
class Recorded:
    """What a recording tells, instants counted from its beginning; a row for each request whose demand is known.

    workload: the requests that finished, in order of arrival. Of the others nobody knows how long their answer would
    have been, so they are not in it; `counts` says how many there were, by how they ended.  observed: what became of
    each row, as of a simulation; cached tokens are not known.  sent_at: when it was first sent.  resent: rows that were
    sent more than once, or moved.  replicas: what is known of each at the end.  faults: replicas that came and went.
    edges: instants between which figures are fair: before and behind them requests met others that are not in it.
    notes: what is not as it was.
    """

    header: Mapping[str, Any]
    workload: Workload
    observed: Run
    sent_at: NDArray[np.int64]
    resent: Mask
    replicas: list[ReplicaSpec]
    faults: tuple[Fault, ...]
    counts: dict[str, int]
    edges: tuple[int, int]
    notes: list[str] = field(default_factory=list)

    @property
    def fair(self) -> Mask:
        """The rows that arrived between the edges."""
        begin, end = self.edges
        return (self.workload.arrival >= begin) & (self.workload.arrival <= end)


@dataclass(slots=True)
class _Life:
    """One request while the recording is read."""

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


def recorded(trace: Trace) -> Recorded:
    """Read a recording; TraceError for one in which no request finished."""
    reading = _Reading(trace)
    reading.read()
    return reading.result()


class _Reading:
    """What is known while the lines go by."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.lives: dict[int, _Life] = {}
        self.replicas = replicas_of(trace.header)
        self.away: list[tuple[int, str, int]] = []
        self.strangers: set[int] = set()
        self.first_at = self.now = NOT_YET

    def read(self) -> None:
        """Take in every line."""
        acts = {
            Arrived: self._arrived,
            Dispatch: self._sent,
            FirstToken: self._first_token,
            Finished: self._finished,
            Cancelled: lambda item, life: self._end(life, TIMED_OUT if item.reason == "timed out" else CANCELLED),
            Failed: lambda item, life: self._end(life, LOST),
            Refuse: lambda item, life: self._end(life, REJECTED),
            Moved: self._moved,
        }
        lives = self.lives
        gateways = range(self.trace.header.get("belief", {}).get("gateways", 1))
        for item in (item for gateway in gateways for item in self.trace.items(gateway)):
            kind: Any = type(item)
            if kind._fields[0] == "at":
                self.now = item.at  # type: ignore[union-attr]
                if self.first_at < 0:
                    self.first_at = self.now
            act = acts.get(kind)
            if act is None:
                self._replica(item)
            elif kind is Arrived:
                self._arrived(item)
            elif (life := lives.get(item.request)) is not None:  # type: ignore[union-attr, arg-type]
                act(item, life)
            else:
                self.strangers.add(item.request)  # type: ignore[union-attr, arg-type]

    def _arrived(self, item: Any, life: Any = None) -> None:
        known = self.lives.get(item.request.id)
        if known is None:
            self.lives[item.request.id] = _Life(item.request, item.at)
        else:
            known.status = UNFINISHED  # its client tries again

    def _sent(self, item: Any, life: _Life) -> None:
        if life.sent_at < 0:
            life.sent_at = self.now
        life.again_at = self.now
        life.replica, life.decode = item.replica, item.decode
        life.times += 1
        if not item.resume:
            life.first_token_at = NOT_YET

    def _first_token(self, item: Any, life: _Life) -> None:
        if life.first_token_at < 0:
            life.first_token_at = item.at

    def _finished(self, item: Any, life: _Life) -> None:
        life.output_tokens = item.output_tokens
        self._end(life, FINISHED)

    def _moved(self, item: Any, life: _Life) -> None:
        life.times += 1

    def _end(self, life: _Life, status: int) -> None:
        life.status, life.ended_at = status, self.now

    def _replica(self, item: Any) -> None:
        if type(item) is Known and item.replica < len(self.replicas):
            self.replicas[item.replica] = item.spec._replace(up=self.replicas[item.replica].up)
        elif type(item) in (Lost, Joined, Draining, Left):
            self.away.append((item.at, type(item).__name__, item.replica))

    # What comes of it ------------------------------------------------------------------------------------------------

    def result(self) -> Recorded:
        """The columns."""
        known = [life for life in self.lives.values() if self._usable(life)]
        if not known:
            raise TraceError(
                f"the recording has {len(self.lives)} requests, and none that finished with its tokens counted; give "
                "one that covers some traffic"
            )
        known.sort(key=lambda life: life.arrived_at)  # stable: ids rise with arrival
        start = self._start()
        counts = dict.fromkeys(STATUS, 0)
        for life in self.lives.values():
            counts[STATUS[life.status]] += 1
        counts["uncounted"] = counts["finished"] - len(known)
        counts["began_before"] = len(self.strangers)
        faults, notes = self._faults(start)
        workload, odd = _workload(known, start, self.trace.header.get("models", []))
        if odd:
            notes.append(f"{odd} prompts have extents that do not fit together; they count as unshared from there on")
        return Recorded(
            self.trace.header,
            workload,
            _run(known, start, self.now - start, len(self.replicas)),
            np.array([life.sent_at - start for life in known], dtype=np.int64),
            np.array([life.times > 1 for life in known]),
            self.replicas,
            faults,
            counts,
            self._edges(known, start),
            notes,
        )

    @staticmethod
    def _usable(life: _Life) -> bool:
        whole = life.sent_at >= 0 and life.first_token_at >= 0 and life.output_tokens > 0
        return life.status == FINISHED and whole

    def _start(self) -> int:
        """The instant that counts as 0: when the recording began, or the first line of a part that is read alone."""
        began: int = self.trace.header.get("began", {}).get("at", self.first_at)
        return began if not self.trace.header.get("part") else self.first_at

    def _edges(self, known: list[_Life], start: int) -> tuple[int, int]:
        """From when on and until when all that ran beside a request is known.

        A request that was cut off by the end is not, so figures stop as long before as 99 % of the requests take; the
        same at the beginning of a part that is read alone.
        """
        span = int(np.quantile([life.ended_at - life.arrived_at for life in known], 0.99))
        cut = any(life.status == UNFINISHED for life in self.lives.values())
        begin = span if self.strangers else 0
        end = self.now - start - span if cut else self.now - start
        return (begin, end) if begin < end else (0, self.now - start)

    def _faults(self, start: int) -> tuple[tuple[Fault, ...], list[str]]:
        """Replicas that came late or went for good; those that came back are taken as there all along, and named."""
        faults, notes = [], []
        for replica, spec in enumerate(self.replicas):
            history = [(at, kind) for at, kind, which in self.away if which == replica]
            if not history:
                continue
            if not spec.up and history[0][1] == "Joined":
                faults.append(Fault(seconds(history[0][0] - start), "join", replica))
                history = history[1:]
            if not history:
                continue
            if history[-1][1] == "Joined":
                notes.append(f"replica {replica} went away and came back; the simulation has it there all along")
                continue
            at, kind = history[0]
            faults.append(Fault(seconds(at - start), "lost" if kind == "Lost" else "drain", replica))
        return tuple(faults), notes


def _workload(known: list[_Life], start: int, models: list[str]) -> tuple[Workload, int]:
    """The requests as columns, and how many have extents that contradict others."""
    views = [life.request for life in known]
    output = np.array([life.output_tokens for life in known], dtype=np.int32)
    limit = np.array([view.max_tokens for view in views], dtype=np.int32)
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
        priority=_plain(np.array([view.priority for view in views], dtype=np.int16)),
        deadline=_plain(np.maximum(deadline, 0)),
        source={"kind": "recording"},
    ).check(), odd


def _plain(column: NDArray[Any]) -> NDArray[Any] | None:
    return column if column.any() else None


def _ids(values: list[int]) -> NDArray[np.int32] | None:
    """Ids as they are where they fit the column, else numbered anew; None where no row has one."""
    most = max(values)
    if most < 0:
        return None
    if most < 1 << 31:
        return np.array(values, dtype=np.int32)
    numbers: dict[int, int] = {}
    return np.array([-1 if value < 0 else numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int32)


def _prefixes(views: list[RequestView]) -> tuple[Prefixes | None, int]:
    """Prompt identity, its ids as they are where they fit the column, else numbered anew.

    An extent ends after equally many tokens wherever it stands, within its prompt; a chain is cut where one does not.
    """
    if not any(view.ids for view in views):
        return None, 0
    large = any(max(view.ids, default=0) >= 1 << 63 for view in views)
    reach: dict[int, int] = {}
    numbers: dict[int, int] = {}
    offsets, ids, ends = [0], list[int](), list[int]()
    odd = 0
    for view in views:
        before = 0
        for extent, end in zip(view.ids, view.ends, strict=True):
            if end <= before or end > view.prompt_tokens or reach.setdefault(extent, end) != end:
                odd += 1
                break
            ids.append(numbers.setdefault(extent, len(numbers)) if large else extent)
            ends.append(end)
            before = end
        offsets.append(len(ids))
    columns = np.array(offsets, dtype=np.int64), np.array(ids, dtype=np.int64), np.array(ends, dtype=np.int32)
    return Prefixes(*columns), odd


def _run(known: list[_Life], start: int, ended_at: int, replicas: int) -> Run:
    """What became of each row, as a simulation would tell it."""
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


def only(run: Run, rows: NDArray[np.int64]) -> Run:
    """A run with these rows, in this order."""
    records = Records(len(rows))
    for column in fields(Records):
        if column.name != "rows":
            values = getattr(run.records, column.name)
            setattr(records, column.name, array(values.typecode, np.asarray(values)[rows].tolist()))
    return replace(run, records=records)
