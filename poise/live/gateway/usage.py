"""Token counts of an answer, read from the byte stream without parsing the answer as a whole."""

from __future__ import annotations

import re
from typing import Final

_EVENT: Final = b"data:"
_TOKENS: Final = b'_tokens"'
_COUNTS: Final = re.compile(rb'"(completion|output|prompt|input|cached)_tokens":\s*(\d{1,15})')
_TAIL: Final = 4096
"""Bytes at the end of a whole answer in which its usage is looked for."""


class Usage:
    """The tokens of one answer.

    streamed: it is a stream of server-sent events, each counted as one token until usage says better.
    prompt, output, cached: token counts reported by the engine, -1 for none.
    """

    __slots__ = ("_events", "_tail", "cached", "output", "prompt", "streamed")

    def __init__(self, streamed: bool) -> None:
        self.streamed = streamed
        self.prompt = self.output = self.cached = -1
        self._events = 0
        self._tail = b""

    def see(self, data: bytes) -> None:
        """More of the answer's body arrived."""
        if self.streamed:
            self._events += data.count(_EVENT)
            if _TOKENS in data:
                self._read(data)
        else:
            self._tail = (self._tail + data)[-_TAIL:] if self._tail else data[-_TAIL:]

    def end(self) -> int:
        """The answer is complete; its output tokens, as reported or else as counted."""
        if not self.streamed:
            self._read(self._tail)
        return self.tokens

    @property
    def events(self) -> int:
        """Events of the stream so far."""
        return self._events

    @property
    def tokens(self) -> int:
        """Output tokens so far."""
        return self.output if self.output >= 0 else max(min(self._events, 1), self._events - 1)  # the last is [DONE]

    def _read(self, data: bytes) -> None:
        at = data.rfind(b'"usage"')
        if at < 0:
            return
        for name, number in _COUNTS.findall(data, at):
            if name == b"cached":
                self.cached = int(number)
            elif name == b"prompt" or name == b"input":
                self.prompt = int(number)
            else:
                self.output = int(number)
