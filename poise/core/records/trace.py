"""The trace of events and actions: written during the run, read back, replayed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, get_origin

from poise.core import action as actions
from poise.core import event as events
from poise.core.action import Action
from poise.core.control.control import Control
from poise.core.errors import TraceError
from poise.core.event import Event
from poise.core.records.fields import checker, hints

SCHEMA = 1
"""Version of the file format; another one is refused."""

EVENTS: dict[str, Any] = {kind.__name__: kind for kind in events.Event.__args__}
ACTIONS: dict[str, Any] = {kind.__name__: kind for kind in actions.Action.__args__}
"""Kinds by the name that begins their lines."""

Read = Callable[[Any], Any]


class Trace:
    """Events and the actions that answered them, in order.

    header: what was run (resolved scenario, versions, seed); written first.  stream: a text file to write to as the
    run goes on; without one, `lines` keeps them.  torn: the beginning of a last line that a crash cut off, else empty.
    """

    decode: Read = staticmethod(json.loads)

    def __init__(self, header: dict[str, Any] | None = None, stream: IO[str] | None = None) -> None:
        self.header = {"schema": SCHEMA, **(header or {})}
        self.lines: list[str] = []
        self.torn = ""
        self._stream = stream
        self._write(json.dumps(self.header, sort_keys=True))

    def add(self, item: Event | Action, gateway: int = 0) -> None:
        """Record one event or action of a gateway."""
        self._write(line(item, gateway))

    def _write(self, line: str) -> None:
        if self._stream is None:
            self.lines.append(line)
        else:
            self._stream.write(line + "\n")

    def save(self, path: str | Path) -> None:
        """Write what `lines` keeps."""
        Path(path).write_text("\n".join(self.lines) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read a trace back; TraceError if it is of another version or broken."""
        *lines, torn = Path(path).read_text(encoding="utf-8", errors="replace").split("\n")
        trace = cls()
        trace.header = read_header(lines[0] if lines else torn, path)
        trace.lines = lines
        trace.torn = torn
        return trace

    def body(self) -> Iterator[str]:
        """The lines after the header."""
        yield from self.lines[1:]

    def items(self, gateway: int = 0) -> Iterator[Event | Action]:
        """All events and actions of one gateway, in order."""
        decode = self.decode
        for number, text in enumerate(self.body(), start=2):
            try:
                name, *fields = decode(text)
                name, _, place = name.partition("@")
                if int(place or 0) == gateway:
                    yield _KINDS[name](fields)
            except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
                raise TraceError(
                    f"line {number} of the trace is neither an event nor an action: {text[:80]!r}"
                ) from None

    @property
    def events(self) -> Iterator[Event]:
        """The events alone."""
        return (item for item in self.items() if type(item).__name__ in EVENTS)  # type: ignore[misc]

    @property
    def actions(self) -> Iterator[Action]:
        """The actions alone."""
        return (item for item in self.items() if type(item).__name__ in ACTIONS)  # type: ignore[misc]


def line(item: Event | Action, gateway: int = 0) -> str:
    """One event or action as a line: a JSON array of its kind and its fields, named tuples inside it as arrays."""
    name = type(item).__name__
    fields = [f"{name}@{gateway}" if gateway else name, *item]
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
    return (
        text if text.isascii() else text.encode("utf-8", "replace").decode()
    )  # half a surrogate pair cannot be encoded


def read_header(text: str, path: object) -> dict[str, Any]:
    """The header in the first line of the file `path`; TraceError if it is none, or of another version."""
    try:
        header: dict[str, Any] = json.loads(text)
        schema = header["schema"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise TraceError(
            f"{path}: line 1 is no trace header; give a file that `poise simulate --trace-events` or "
            "`poise serve --record` wrote"
        ) from None
    if schema != SCHEMA:
        raise TraceError(f"{path}: schema {schema} is not {SCHEMA}; read it with the version of Poise that wrote it")
    return header


def replay(recorded: Iterable[Event], control: Control) -> list[Action]:
    """The decisions of `control` on the same events."""
    return [action for event in recorded for action in control.handle(event)]


def reader(kind: Any) -> Read:
    """From the array of a named tuple's fields to the tuple; trailing fields that an older line lacks take their
    defaults, tuples and named tuples inside it are made by their types. ValueError for a value of another type.
    """
    types = hints(kind)
    check = checker(types)
    inner = [(at, made) for at, hint in enumerate(types.values()) if (made := _inner(hint)) is not None]

    def read(fields: Any) -> Any:
        check(fields)
        fields = list(fields)
        for at, made in inner:
            if at < len(fields):
                fields[at] = made(fields[at])
        return kind(*fields)

    return read


def _inner(hint: Any) -> Read | None:
    """How a value of this type is made of what JSON gives; None where it is that already."""
    if hasattr(hint, "_fields"):
        return reader(hint)
    return _tuple if hint is tuple or get_origin(hint) is tuple else None


def _tuple(values: Any) -> Any:
    """Arrays within a tuple are tuples too."""
    return tuple(map(_tuple, values)) if values and type(values[0]) is list else tuple(values)


_FORMER = {
    "Confined": "Restricted", "Joined": "ReplicaJoined", "Known": "ReplicaUpdated", "Left": "ReplicaLeft",
    "Lost": "ReplicaLost", "Stayed": "MoveFailed",
}  # fmt: skip
"""Names of events in recordings written before 2026-11-24, and their names today."""

_KINDS: dict[str, Read] = {name: reader(kind) for name, kind in (EVENTS | ACTIONS).items()}
_KINDS |= {former: _KINDS[name] for former, name in _FORMER.items()}
