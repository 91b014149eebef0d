"""Recorded steps: times of all operations and memory held, as JSON, as costs, and next to a simulation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from poise.core.errors import UserError
from poise.pipeline.costs import Costs
from poise.pipeline.op import Kind, Op, read_op
from poise.pipeline.perfetto import timeline
from poise.pipeline.schedule import Schedule
from poise.pipeline.text import parse_json, write_json
from poise.pipeline.time import Timing, time

VERSION = 1

_MARK = "training_step"

_NS_PER_MS = 10**6


class Event(NamedTuple):
    """An operation that ran; instants in nanoseconds of one clock for all ranks."""

    op: str
    reached: int
    """When the rank reached it."""
    start: int
    """When what it waits for was there."""
    end: int
    held: int
    """Microbatches whose activations were in a stage of the rank, behind it."""
    bytes: int
    """What autograd held for them, where that was counted."""


@dataclass(frozen=True)
class Recording:
    """One step of a schedule, communications included, as all ranks saw it."""

    schedule: Schedule
    ranks: list[list[Event]]

    def save(self, path: str | Path) -> None:
        """Write the file that `load` reads."""
        from poise.report.files import replacing

        content = {_MARK: VERSION, "schedule": json.loads(write_json(self.schedule)), "events": self.ranks}
        with replacing(path) as file:
            file.write(json.dumps(content).encode())

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """The recording in a file; UserError if it holds none."""
        try:
            content = json.loads(Path(path).read_bytes())
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror}); give what --record wrote") from None
        except ValueError as error:
            raise UserError(f"{path}: no JSON ({error}); give what --record wrote") from None
        if not isinstance(content, dict) or content.get(_MARK) != VERSION:
            raise UserError(f"{path}: no recording of version {VERSION}; give what --record of this version wrote")
        return cls(
            parse_json(json.dumps(content["schedule"])), [[Event(*each) for each in row] for row in content["events"]]
        )

    @property
    def makespan_ms(self) -> float:
        """From the first start to the last end."""
        events = [each for row in self.ranks for each in row]
        return (max(each.end for each in events) - min(each.start for each in events)) / _NS_PER_MS

    def order(self) -> list[list[Op]]:
        """For each rank its operations by start."""
        return [[read_op(each.op) for each in sorted(row, key=lambda event: event.start)] for row in self.ranks]

    def timing(self) -> Timing:
        """The same schedule in simulation, with the costs measured here; its unit is the millisecond."""
        return time(self.schedule, costs_of([self]))

    def trace(self) -> bytes:
        """A Chrome trace: the ranks as measured, below them as simulated with the costs measured here."""
        simulated = json.loads(timeline(self.timing()))["traceEvents"]
        ranks = len(self.ranks)
        for event in simulated:
            event["pid"] += ranks
            if event["name"] == "process_name":
                event["args"]["name"] += " simulated"
        content = {"displayTimeUnit": "ms", "traceEvents": [*self._events(), *simulated]}
        return json.dumps(content).encode()

    def _events(self) -> Iterator[dict[str, Any]]:
        zero = min(each.start for row in self.ranks for each in row)
        for rank, row in enumerate(self.ranks):
            process = rank + 1
            yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": f"rank {rank}"}}
            for each in row:
                kind = read_op(each.op).kind
                yield {
                    "ph": "X", "name": each.op, "cat": kind.name, "pid": process, "tid": 1,
                    "ts": (each.start - zero) / 1000, "dur": (each.end - each.start) / 1000, "args": each._asdict(),
                }  # fmt: skip
                yield {
                    "ph": "C", "name": "held", "pid": process, "ts": (each.end - zero) / 1000,
                    "args": {"activations": each.held},
                }  # fmt: skip


def is_step(path: Path) -> bool:
    """Whether a file begins as a recording does."""
    begin = f'{{"{_MARK}"'.encode()
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(begin)) == begin


def costs_of(recordings: Iterable[Recording]) -> Costs:
    """Costs in milliseconds from steps of schedules with the same stages: medians per stage, and per link.

    A schedule of B alone does not separate its parts: all of B is then b, and w is 0. Where an I or W of a stage is
    missing in all recordings that is 0 as well. A message takes from its send to its arrival at a rank that waited for
    it.
    """
    steps = list(recordings)
    found: dict[tuple[Kind, int], list[int]] = {}
    for step in steps:
        for row in step.ranks:
            for event in row:
                op = read_op(event.op)
                found.setdefault((op.kind, op.stage), []).append(event.end - event.start)
    stages, ranks = steps[0].schedule.stages, len(steps[0].ranks)

    def row_of(kind: Kind, count: int) -> list[Fraction]:
        return [_ms(found.get((kind, stage), [0])) for stage in range(count)]

    b, w, whole = (row_of(kind, stages) for kind in (Kind.I, Kind.W, Kind.B))
    if not any(b) and not any(w):
        b = whole
    more: dict[str, Any] = {}
    if any(kind is Kind.R for kind, _ in found):
        more["r"] = row_of(Kind.R, stages)
    if steps[0].schedule.barriers:
        more |= {"s": row_of(Kind.S, ranks), "t": row_of(Kind.T, ranks)}
    return Costs.of(row_of(Kind.F, stages), b, w, _links(steps, ranks), **more)


def _links(steps: list[Recording], ranks: int) -> list[Fraction]:
    """The time of a message between each rank and the next; 0 where none was seen."""
    seen: dict[int, list[int]] = {}
    late: dict[int, list[int]] = {}
    for step in steps:
        for here, there, took, waited in _messages(step):
            link = min(here, there) if abs(here - there) == 1 else ranks - 1 if abs(here - there) == ranks - 1 else -1
            (seen if waited else late).setdefault(link, []).append(took)
    return [
        _ms(seen[link]) if link in seen else Fraction(min(late.get(link, [0])), _NS_PER_MS) for link in range(ranks)
    ]


def _messages(step: Recording) -> Iterator[tuple[int, int, int, bool]]:
    """Sender, receiver, nanoseconds from send to arrival, and whether the receiver was waiting at the send."""
    from poise.pipeline.graph import graph_of

    graph = graph_of(step.schedule)
    events = [{each.op: each for each in row} for row in step.ranks]
    for index, need in enumerate(graph.needs.tolist()):
        here, there = int(graph.rank[need]), int(graph.rank[index])
        if need < 0 or here == there:
            continue
        op, user = graph.at(need)[2], graph.at(index)[2]
        name = "SEND_F" if op.kind is Kind.F else "SEND_B"
        send, use = events[here][f"{op.stage}{name}{op.microbatch}"], events[there][str(user)]
        yield here, there, max(0, use.start - send.start), use.reached <= send.start


def _ms(times: list[int]) -> Fraction:
    return Fraction(int(median(times)), _NS_PER_MS)
