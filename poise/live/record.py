"""The gateway's recorder: every event and action as a line of `core.records.trace`, cheap to add, written in batches.

A request costs its gateway four references and about a microsecond at the next `flush`. Parts are `day.jsonl`,
`day.0001.jsonl`, …; each begins with the whole header and its number. A part contains the requests that arrive in it;
those that were running before are not in it, and a replay needs all parts from the first. Prompts are in it as hashes
and sizes only; their text goes to separate files, if enabled.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any, get_args
from urllib.parse import urlsplit

import msgspec

from poise.core.action import Action
from poise.core.errors import UserError
from poise.core.event import Event
from poise.core.records.fields import hints
from poise.core.records.trace import ACTIONS, EVENTS, SCHEMA, line
from poise.core.units import SECOND
from poise.live.parts import ENDINGS, free, part, to_parquet

PART_BYTES = 256 << 20
"""Size at which the next part begins."""


class Recorder:
    """Writes events and actions to `path`, a `.jsonl` or `.parquet` file; where it exists, to the next free name.

    header: makes the current facts of `core.records.header`; called as each part starts.  now: the instant of the
    start, picoseconds.  part_bytes, part_s: largest size and age of a part (0: any age).  text: keep
    bodies, in `day.text.jsonl`.

    add: notes one event or action; it is `list.append`, so callers may keep it.  Nothing is written before `flush`,
    which a timer of the caller's should call every 0.1 s or so.
    path: the first part.  lines, bytes: written so far.  dropped: lines that could not be written: the recording
    stopped, for the reason in `failed`, and the gateway continued.  unpacked: parts that could not be turned into
    columns and stay as lines.
    UserError for a path that cannot be written, and for another ending.
    """

    def __init__(
        self,
        path: str | Path,
        header: Callable[[], Mapping[str, Any]],
        now: int,
        *,
        part_bytes: int = PART_BYTES,
        part_s: float = 0.0,
        text: bool = False,
    ) -> None:
        self._columns = _ending(path) == ".parquet"
        self.path = free(Path(path))
        self._header = header
        self._began = now
        self._part_bytes, self._part = part_bytes, round(part_s * SECOND)
        self.text = text
        self._pending: list[Event | Action] = []
        self._bodies: list[bytes] = []
        self.add: Callable[[Event | Action], None] = self._pending.append
        self.lines = self.bytes = self.dropped = self.unpacked = 0
        self.failed = ""
        self.number = -1
        self._file: IO[bytes] | None = None
        self._texts: IO[bytes] | None = None
        self._retiring: list[threading.Thread] = []
        try:
            self._open(now)
        except OSError as error:
            raise UserError(
                f"{path}: cannot be written ({error.strerror}); give a file in a folder that you may write to"
            ) from None

    def add_text(self, request: int, body: bytes) -> None:
        """Keep the body of a request; only where texts are kept."""
        self._bodies.append(msgspec.json.encode((request, body.decode("utf-8", "replace"))) + b"\n")

    def flush(self, now: int) -> None:
        """Write what was added since, and begin the next part where this one is large or old enough."""
        self._save()
        if not self.failed and self.lines > self._before and self._due(now):
            self._retire()
            self._guarded(lambda: self._open(now))

    def cut(self, now: int) -> None:
        """Begin the next part, whatever this one holds: the header has changed."""
        self._save()
        if not self.failed:
            self._retire()
            self._guarded(lambda: self._open(now))

    def close(self) -> None:
        """Write the rest, sync it to the disk, and wait for the parts that are being turned into columns."""
        self._save()
        self._retire()
        for thread in self._retiring:
            thread.join()

    def _save(self) -> None:
        items = self._pending.copy()
        self._pending.clear()
        if not self.failed:
            self._guarded(lambda: self._write(items))
        if self.failed:
            self.dropped += len(items)
            self._bodies.clear()

    def _guarded(self, act: Callable[[], None]) -> None:
        """Stop the recording when the disk fails; the gateway continues."""
        try:
            act()
        except OSError as error:
            self.failed = error.strerror or str(error)

    def _due(self, now: int) -> bool:
        return self._size >= self._part_bytes or 0 < self._part <= now - self._since

    def _write(self, items: list[Event | Action]) -> None:
        if items and self._file is not None:
            written = encode(items)
            self._file.write(written)
            self._size += len(written)
            self.bytes += len(written)
            self.lines += len(items)
        if self._bodies and self._texts is not None:
            self._texts.write(b"".join(self._bodies))
            self._bodies.clear()

    def _open(self, now: int) -> None:
        self.number += 1
        place = part(self.path.with_suffix(".jsonl"), self.number)
        place.parent.mkdir(parents=True, exist_ok=True)
        self._since, self._before = now, self.lines
        self._file = place.open("xb", buffering=0)
        self._texts = place.with_suffix(".text.jsonl").open("xb", buffering=0) if self.text else None
        facts = self._header()
        fields = {"schema": SCHEMA, "recording": self._began, "part": self.number, "before": self.lines}
        began = {**facts.get("began", {}), "at": self._began}
        written = msgspec.json.encode({**facts, **fields, "began": began}, order="sorted") + b"\n"
        self._file.write(written)
        self._size = len(written)

    def _retire(self) -> None:
        """Close the part in a thread: the disk may be slow, and columns take their time."""
        if self._file is None:
            return
        thread = threading.Thread(target=self._close, args=(self._file, self._texts))
        self._file = self._texts = None
        self._retiring = [each for each in self._retiring if each.is_alive()] + [thread]
        thread.start()

    def _close(self, file: IO[bytes], texts: IO[bytes] | None) -> None:
        def settle() -> None:
            for each in (file, texts):
                if each is not None:
                    with each:
                        os.fsync(each.fileno())

        self._guarded(settle)
        if self._columns:
            try:
                to_parquet(Path(file.name))
            except OSError:
                self.unpacked += 1


def encode(items: Iterable[Event | Action]) -> bytes:
    """The lines of events and actions: the very bytes of `core.records.trace.line`, ten times as fast."""
    named = [(type(item).__name__, *item) if type(item) not in _WITH_FLOATS else _raw(item) for item in items]
    try:
        return _ENCODER.encode_lines(named)
    except UnicodeEncodeError:  # half a surrogate pair, in a reason from elsewhere
        return b"".join(line(item).encode() + b"\n" for item in items)


def bare(url: str) -> str:
    """A URL without credentials, query and fragment, as a header may have it."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, query="", fragment="").geturl()


def _raw(item: Event | Action) -> msgspec.Raw:
    """The two encoders write floats differently."""
    return msgspec.Raw(line(item).encode())


def _has_float(hint: Any) -> bool:
    """Whether a field may hold a float; of a dictionary, compiled classes do not say what it holds."""
    if hasattr(hint, "_fields"):
        return any(map(_has_float, hints(hint).values()))
    return hint in (float, Any, dict) or any(map(_has_float, get_args(hint)))


_ENCODER = msgspec.json.Encoder()
_WITH_FLOATS = {kind for kind in (EVENTS | ACTIONS).values() if _has_float(kind)}


def _ending(path: str | Path) -> str:
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise UserError(
            f"{path}: the ending {ending or '(none)'} names no recording; end the name in {' or '.join(ENDINGS)}"
        )
    return ending
