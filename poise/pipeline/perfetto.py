"""A timed schedule as a Chrome trace; a unit of the costs is shown as a millisecond."""

from __future__ import annotations

from collections.abc import Iterator

from poise.core.chrome_trace import Event, complete, counter, label, written
from poise.pipeline.op import COPIES, Kind, Op
from poise.pipeline.time import Timing

_UNIT_US = 1000.0


def timeline(timing: Timing) -> bytes:
    """The file: a process for each rank with its operations, and a counter of what it holds."""
    return b"".join(written(_events(timing)))


def _events(timing: Timing) -> Iterator[Event]:
    graph = timing.graph
    step = _UNIT_US / timing.scale
    for rank, row in enumerate(graph.schedule.ranks):
        process, first = rank + 1, graph.first[rank]
        yield label("process_name", f"rank {rank}", process)
        for at, op in enumerate(row, first):
            if op.kind not in COPIES:
                yield _slice(op, process, 1, timing.starts[at] * step, timing.ends[at] * step)
        for instant, level in timing.held(rank):
            yield counter("held", process, instant * step, **{"full-stage activations": float(level)})
    for copy in timing.copies:
        rank, _, op = graph.at(copy.number)
        yield _slice(op, rank + 1, 2 if op.kind is Kind.OFFLOAD else 3, copy.start * step, copy.end * step)


def _slice(op: Op, process: int, thread: int, start: float, end: float) -> Event:
    """Thread 1 computes, 2 copies to the host and 3 back."""
    args = {"stage": op.stage, "microbatch": op.microbatch}
    return complete(str(op), process, thread, start, end - start, cat=op.kind.name, args=args)
