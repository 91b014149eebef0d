"""Events of a Chrome trace, to be opened in ui.perfetto.dev or chrome://tracing; times are microseconds.

By the Trace Event Format (Google, "Trace Event Format", phases M, X, C, s and f).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

Event = dict[str, Any]


def label(kind: str, name: str, process: int, thread: int = 0) -> Event:
    """The name of a process or a thread, by `kind`: process_name or thread_name."""
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def complete(name: str, process: int, thread: int, start: float, length: float, **more: Any) -> Event:
    """What a thread does for some time; `more` are further fields of the event, as `args`."""
    return {"ph": "X", "name": name, "pid": process, "tid": thread, "ts": start, "dur": length, **more}


def arrow(name: str, number: int, start: tuple[int, int, float], end: tuple[int, int, float]) -> tuple[Event, Event]:
    """An arrow between two slices, each given by process, thread and an instant in it; numbers are unique in a file."""
    (one, two) = (dict(zip(("pid", "tid", "ts"), each, strict=True)) for each in (start, end))
    shared = {"name": name, "cat": "flow", "id": number}
    return {"ph": "s", **shared, **one}, {"ph": "f", "bp": "e", **shared, **two}


def counter(name: str, process: int, at: float, **values: float) -> Event:
    """Values of a process from an instant on."""
    return {"ph": "C", "name": name, "pid": process, "ts": at, "args": values}


def written(events: Iterable[Event]) -> Iterator[bytes]:
    """The file, event by event."""
    yield b'{"displayTimeUnit":"ms","traceEvents":['
    for at, event in enumerate(events):
        yield (",\n" if at else "\n").encode() + json.dumps(event, separators=(",", ":")).encode()
    yield b"\n]}\n"
