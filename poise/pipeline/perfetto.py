"""A timed schedule as a Chrome trace, to be opened in ui.perfetto.dev or chrome://tracing.

Written by the Trace Event Format (Google, phases M, X and C). A unit of the costs is shown as a millisecond.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

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
        levels, before = timing.memory.curve(rank), 0
        for slot, op in enumerate(row):
            start, end = timing.starts[first + slot], timing.ends[first + slot]
            yield {
                "ph": "X", "name": str(op), "cat": op.kind.name, "pid": process, "tid": 1,
                "ts": start * step, "dur": (end - start) * step,
                "args": {"stage": op.stage, "microbatch": op.microbatch},
            }  # fmt: skip
            if levels[slot] != before:
                at = start if levels[slot] > before else end
                held = {"full-stage activations": levels[slot] / timing.memory.scale}
                yield {"ph": "C", "name": "held", "pid": process, "ts": at * step, "args": held}
            before = levels[slot]
