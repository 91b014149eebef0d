"""Reads a recording into its requests and their outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.action import Action, Dispatch, Refuse
from poise.core.errors import TraceError
from poise.core.event import (
    Arrived,
    Cancelled,
    Draining,
    Event,
    Exchanged,
    Failed,
    Finished,
    FirstToken,
    Moved,
    PeerSent,
    ReplicaJoined,
    ReplicaLeft,
    ReplicaLost,
    ReplicaUpdated,
)
from poise.core.records.header import check_header, replicas_of
from poise.core.records.records import CANCELLED, FINISHED, LOST, NOT_YET, REJECTED, STATUS, TIMED_OUT, UNFINISHED, Run
from poise.core.records.trace import Trace
from poise.core.spec import Fault, ReplicaSpec
from poise.core.units import seconds
from poise.recordings.columns import RequestTimes, run_of, sane, workload_of
from poise.recordings.runs import Mask
from poise.workload.table import Workload


@dataclass(slots=True)
class Recorded:
    """The content of a recording, instants counted from its beginning; a row for each request whose demand is known.

    workload: the requests that finished, in order of arrival. The output length of the others is unknown, so they are
    not in it; `counts` has their number, by how they ended.  observed: the outcome of
    each row, as of a simulation; cached tokens are not known.  sent_at: when it was first sent.  resent: rows that were
    sent more than once, or moved.  replicas: what is known of each at the end.  faults: replicas that joined and left.
    edges: instants between which figures are fair: outside them requests ran with others that are not in it.
    notes: what differs from the recorded traffic.
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


def recorded(trace: Trace) -> Recorded:
    """Read a recording; TraceError for one in which no request finished."""
    reading = _Reading(trace)
    reading.read()
    return reading.result()


class _Reading:
    """The state of the reader between lines."""

    def __init__(self, trace: Trace) -> None:
        check_header(trace.header)
        self.trace = trace
        self.lives: dict[int, RequestTimes] = {}
        self.replicas = replicas_of(trace.header)
        self.away: list[tuple[int, str, int]] = []
        self.strangers: set[int] = set()
        self.exchanged: list[Exchanged] = []
        self.elsewhere: list[set[int]] = []
        self.arrived: list[int] = []
        self.first_at = self.last_at = self.now = NOT_YET

    def read(self) -> None:
        """Read every line."""
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
        for item in self._items():
            kind: Any = type(item)
            if kind._fields[0] == "at":
                self.now = item.at  # type: ignore[union-attr]
                self.last_at = max(self.last_at, self.now)
                self.first_at = self.now if self.first_at < 0 else min(self.first_at, self.now)
            act = acts.get(kind)
            if act is None:
                self._replica(item)
            elif kind is Arrived:
                self._arrived(item)
            elif (life := lives.get(item.request)) is not None:  # type: ignore[union-attr, arg-type]
                act(item, life)
            else:
                self.strangers.add(item.request)  # type: ignore[union-attr, arg-type]

    def _items(self) -> Iterator[Event | Action]:
        """All lines, one gateway after another."""
        for gateway in range(self.trace.header.get("belief", {}).get("gateways", 1)):
            self.elsewhere.append(set())
            self.arrived.append(0)
            yield from self.trace.items(gateway)

    @property
    def _lacking(self) -> int:
        """The requests of other gateways that are not in it."""
        every = sum(self.arrived)
        return max(len(sent) - (every - own) for sent, own in zip(self.elsewhere, self.arrived, strict=True))

    def _arrived(self, item: Any, life: Any = None) -> None:
        self.arrived[-1] += 1
        known = self.lives.get(item.request.id)
        if known is None:
            self.lives[item.request.id] = RequestTimes(item.request, item.at)
        else:
            known.status = UNFINISHED  # its client tries again

    def _sent(self, item: Any, life: RequestTimes) -> None:
        if life.sent_at < 0:
            life.sent_at = self.now
        life.again_at = self.now
        life.replica, life.decode = item.replica, item.decode
        life.times += 1
        if not item.resume:
            life.first_token_at = NOT_YET

    def _first_token(self, item: Any, life: RequestTimes) -> None:
        if life.first_token_at < 0:
            life.first_token_at = item.at

    def _finished(self, item: Any, life: RequestTimes) -> None:
        life.output_tokens = item.output_tokens
        self._end(life, FINISHED)

    def _moved(self, item: Any, life: RequestTimes) -> None:
        life.times += 1

    def _end(self, life: RequestTimes, status: int) -> None:
        life.status, life.ended_at = status, self.now

    def _replica(self, item: Any) -> None:
        if type(item) is Exchanged:
            self.exchanged.append(item)
        elif type(item) is PeerSent:
            self.elsewhere[-1].add(item.request.id)
        elif type(item) is ReplicaUpdated and item.replica < len(self.replicas):
            self.replicas[item.replica] = item.spec._replace(up=self.replicas[item.replica].up)
        elif type(item) in (ReplicaLost, ReplicaJoined, Draining, ReplicaLeft):
            moved = item.at, type(item).__name__, item.replica
            if moved not in self.away:  # several gateways record it
                self.away.append(moved)

    # Results ----------------------------------------------------------------------------------------------------------

    def result(self) -> Recorded:
        """The columns."""
        known = [life for life in self.lives.values() if self._usable(life)]
        if not known:
            raise TraceError(self._nothing())
        known.sort(key=lambda life: life.arrived_at)  # stable: ids rise with arrival
        start = self._start()
        for life in known:
            sane(life, len(self.replicas))
        counts = dict.fromkeys(STATUS, 0)
        for life in self.lives.values():
            counts[STATUS[life.status]] += 1
        counts["uncounted"] = counts["finished"] - len(known)
        counts["began_before"] = len(self.strangers)
        faults, notes = self._faults(start)
        for each in self.exchanged:
            which, at = ", ".join(each.policies), seconds(each.at - start)
            text = f"policies were exchanged at {at:.1f} s ({which}); the recorded ones are those until then"
            notes.append(f"{text}, and the part of the recording that begins there can be asked alone")
        if self._lacking > 0:
            notes.append(
                f"{self._lacking} requests of other gateways were sent to the same engines and are not in it, so "
                "what it predicts is for less traffic than there was"
            )
        workload, odd = workload_of(known, start, self.trace.header.get("models", []))
        if odd:
            notes.append(f"{odd} prompts have extents that do not fit together; they count as unshared from there on")
        return Recorded(
            self.trace.header,
            workload,
            run_of(known, start, self.last_at - start),
            np.array([life.sent_at - start for life in known], dtype=np.int64),
            np.array([life.times > 1 for life in known]),
            self.replicas,
            faults,
            counts,
            self._edges(known, start),
            notes,
        )

    def _nothing(self) -> str:
        """Why there is nothing to go by: no request, or answers whose first token cannot be seen."""
        had = f"the recording has {len(self.lives)} requests, and none that finished with its tokens counted"
        if whole := sum(life.status == FINISHED and life.first_token_at < 0 for life in self.lives.values()):
            return f"{had}; {whole} were not streamed, so their first token is not known: record some with stream: true"
        return f"{had}; give one that covers some traffic"

    @staticmethod
    def _usable(life: RequestTimes) -> bool:
        whole = life.sent_at >= 0 and life.first_token_at >= 0 and life.output_tokens > 0
        return life.status == FINISHED and whole

    def _start(self) -> int:
        """The instant that counts as 0: when the recording began, or the first line of a part that is read alone."""
        began: int = self.trace.header.get("began", {}).get("at", self.first_at)
        return began if not self.trace.header.get("part") else self.first_at

    def _edges(self, known: list[RequestTimes], start: int) -> tuple[int, int]:
        """The span in which all requests that ran at the same time are known.

        A request that was cut off by the end is not, so figures stop as long before as 99 % of the requests take; the
        same at the beginning of a part that is read alone.
        """
        span = int(np.quantile([life.ended_at - life.arrived_at for life in known], 0.99))
        cut = any(life.status == UNFINISHED for life in self.lives.values())
        begin = span if self.strangers else 0
        end = self.last_at - start - span if cut else self.last_at - start
        return (begin, end) if begin < end else (0, self.last_at - start)

    def _faults(self, start: int) -> tuple[tuple[Fault, ...], list[str]]:
        """Replicas that joined late or left; those that came back are taken as present all the time, and named."""
        faults, notes = [], []
        for replica, spec in enumerate(self.replicas):
            history = [(at, kind) for at, kind, which in self.away if which == replica]
            if not history:
                continue
            if not spec.up and history[0][1] == "ReplicaJoined":
                faults.append(Fault(seconds(history[0][0] - start), "join", replica))
                history = history[1:]
            if not history:
                continue
            if history[-1][1] == "ReplicaJoined":
                notes.append(f"replica {replica} went away and came back; the simulation has it there all along")
                continue
            at, kind = history[0]
            faults.append(Fault(seconds(at - start), "lost" if kind == "ReplicaLost" else "drain", replica))
        return tuple(faults), notes
