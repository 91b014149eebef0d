"""A timed schedule as a Chrome trace, to be opened in ui.perfetto.dev or chrome://tracing.

Written by the Trace Event Format (Google, phases M, X and C). A unit of the costs is shown as a millisecond.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from poise.pipeline.op import COPIES, Kind, Op
from poise.pipeline.time import Timing

Event = dict[str, Any]

_UNIT_US = 1000.0


def timeline(timing: Timing) -> bytes:
    """The file: a process for each rank with its operations, and a counter of what it holds."""
    events = (json.dumps(event, separators=(",", ":")) for event in _events(timing))
    return ('{"displayTimeUnit":"ms","traceEvents":[\n' + ",\n".join(events) + "\n]}\n").encode()


def _events(timing: Timing) -> Iterator[Event]:
    graph = timing.graph
    step = _UNIT_US / timing.scale
    for rank, row in enumerate(graph.schedule.ranks):
        process, first = rank + 1, graph.first[rank]
        yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": f"rank {rank}"}}
        for at, op in enumerate(row, first):
            if op.kind not in COPIES:
                yield _slice(op, process, 1, timing.starts[at] * step, timing.ends[at] * step)
        for instant, level in timing.held(rank):
            held = {"full-stage activations": float(level)}
            yield {"ph": "C", "name": "held", "pid": process, "ts": instant * step, "args": held}
    for copy in timing.copies:
        rank, _, op = graph.at(copy.number)
        yield _slice(op, rank + 1, 2 if op.kind is Kind.OFFLOAD else 3, copy.start * step, copy.end * step)


def _slice(op: Op, process: int, thread: int, start: float, end: float) -> Event:
    """Thread 1 computes, 2 copies to the host and 3 back."""
    return {
        "ph": "X", "name": str(op), "cat": op.kind.name, "pid": process, "tid": thread, "ts": start, "dur": end - start,
        "args": {"stage": op.stage, "microbatch": op.microbatch},
    }  # fmt: skip
