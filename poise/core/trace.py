"""The record of what happened and what was decided: written as it goes, read back, replayed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from poise.core import action as actions
from poise.core import event as events
from poise.core.action import Action
from poise.core.control import Control
from poise.core.errors import TraceError
from poise.core.event import Event
from poise.core.request import RequestView
from poise.core.spec import ReplicaSpec

SCHEMA = 1
"""Version of the file format; another one is refused."""

_EVENTS: dict[str, Any] = {kind.__name__: kind for kind in events.Event.__args__}
_ACTIONS: dict[str, Any] = {kind.__name__: kind for kind in actions.Action.__args__}


class Trace:
    """Events and the actions that answered them, in order.

    header: what was run (resolved scenario, versions, seed); written first.  stream: a text file to write to as the
    run goes on; without one, `lines` keeps them.
    """

    def __init__(self, header: dict[str, Any] | None = None, stream: IO[str] | None = None) -> None:
        self.header = {"schema": SCHEMA, **(header or {})}
        self.lines: list[str] = []
        self._stream = stream
        self._write(json.dumps(self.header, sort_keys=True))

    def add(self, item: Event | Action, gateway: int = 0) -> None:
        """Record one event or action of a gateway."""
        name = type(item).__name__
        self._write(json.dumps([f"{name}@{gateway}" if gateway else name, *item], separators=(",", ":")))

    def _write(self, line: str) -> None:
        if self._stream is None:
            self.lines.append(line)
        else:
            self._stream.write(line + "\n")

    def save(self, path: str | Path) -> None:
        """Write what `lines` keeps."""
        Path(path).write_text("\n".join(self.lines) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read a trace back; TraceError if it is of another version or broken."""
        lines = Path(path).read_text().splitlines()
        trace = cls()
        try:
            trace.header = json.loads(lines[0])
            schema = trace.header["schema"]
        except (IndexError, ValueError, KeyError, TypeError):
            raise TraceError(
                f"{path}: line 1 is no trace header; give a file that `poise simulate --trace-events` wrote"
            ) from None
        if schema != SCHEMA:
            raise TraceError(
                f"{path}: schema {schema} is not {SCHEMA}; read it with the version of Poise that wrote it"
            )
        trace.lines = lines
        return trace

    def items(self, gateway: int = 0) -> Iterator[Event | Action]:
        """All events and actions of one gateway, in order."""
        for number, line in enumerate(self.lines[1:], start=2):
            try:
                name, *fields = json.loads(line)
                name, _, place = name.partition("@")
                if int(place or 0) == gateway:
                    yield _read(name, fields)
            except (ValueError, KeyError, TypeError, IndexError, AttributeError):
                raise TraceError(
                    f"line {number} of the trace is neither an event nor an action: {line[:80]!r}"
                ) from None

    @property
    def events(self) -> Iterator[Event]:
        """The events alone."""
        return (item for item in self.items() if type(item).__name__ in _EVENTS)  # type: ignore[misc]

    @property
    def actions(self) -> Iterator[Action]:
        """The actions alone."""
        return (item for item in self.items() if type(item).__name__ in _ACTIONS)  # type: ignore[misc]


def replay(recorded: Iterable[Event], control: Control) -> list[Action]:
    """What `control` decides when it is told the same events."""
    return [action for event in recorded for action in control.handle(event)]


def _read(name: str, fields: list[Any]) -> Event | Action:
    if name == "Arrived":
        at, request, attempt = fields
        request[4], request[5] = tuple(request[4]), tuple(request[5])
        return events.Arrived(at, RequestView(*request), attempt)
    if name == "Reported":
        at, measured_at, columns, cached = fields
        return events.Reported(
            at, measured_at, columns, tuple((replica, extent, entered) for replica, extent, entered in cached)
        )
    if name == "CacheChanged":
        fields[2], fields[3] = tuple(fields[2]), tuple(fields[3])
    if name == "Known":
        fields[2] = ReplicaSpec(*fields[2])
    kind = _EVENTS.get(name) or _ACTIONS[name]
    return kind(*fields)  # type: ignore[no-any-return]
