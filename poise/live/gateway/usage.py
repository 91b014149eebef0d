"""Token counts of an answer, read from the byte stream without parsing the answer as a whole."""

from __future__ import annotations

import re
from typing import Final

_EVENT: Final = b"data:"
_TOKENS: Final = b'_tokens"'
_COUNTS: Final = re.compile(
    rb'"(completion|output|prompt|input|cached|cache_read_input|cache_creation_input)_tokens":\s*(\d{1,15})'
)
_DELTA: Final = b"event: content_block_delta"
"""The event of /v1/messages that brings output."""
_TAIL: Final = 4096
"""Bytes at the end of a whole answer in which its usage is looked for."""


class Usage:
    """The tokens of one answer.

    streamed: it is a stream of server-sent events, each counted as one token until usage says better.
    messages: it is Anthropic's: `input_tokens` are those that were neither found in the cache nor written to it.
    prompt, output, cached: token counts reported by the engine, -1 for none.
    """

    __slots__ = ("_events", "_messages", "_tail", "cached", "output", "prompt", "streamed")

    def __init__(self, streamed: bool, messages: bool = False) -> None:
        self.streamed = streamed
        self._messages = messages
        self.prompt = self.output = self.cached = -1
        self._events = 0
        self._tail = b""

    def see(self, data: bytes) -> None:
        """More of the answer's body arrived."""
        if self.streamed:
            self._events += data.count(_DELTA if self._messages else _EVENT)
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
        if self._messages:  # the first event already reports an output, of none
            return max(self.output, self._events)
        return self.output if self.output >= 0 else max(min(self._events, 1), self._events - 1)  # the last is [DONE]

    def _read(self, data: bytes) -> None:
        at = data.rfind(b'"usage"')
        if at < 0:
            return
        prompt, beside = -1, 0  # beside: tokens that Anthropic counts beside `input_tokens`
        for name, number in _COUNTS.findall(data, at):
            if name == b"prompt" or name == b"input":
                prompt = int(number)
            elif name == b"cached" or name == b"cache_read_input":
                self.cached = int(number)
                beside += 0 if name == b"cached" else self.cached
            elif name == b"cache_creation_input":
                beside += int(number)
            else:
                self.output = int(number)
        if prompt >= 0:
            self.prompt = prompt + beside * self._messages
