"""What an answer tells of itself as it passes: its tokens, without being parsed as a whole."""

from __future__ import annotations

from typing import Final

_EVENT: Final = b"data:"
_OUTPUT: Final = (b'"completion_tokens":', b'"output_tokens":')
_PROMPT: Final = (b'"prompt_tokens":', b'"input_tokens":')
_CACHED: Final = b'"cached_tokens":'
_TAIL: Final = 4096


class Usage:
    """The tokens of one answer.

    streamed: it is a stream of server-sent events, each counted as one token until usage says better.
    prompt, output, cached: what the engine said of tokens, -1 for nothing.
    """

    __slots__ = ("_events", "_tail", "cached", "output", "prompt", "streamed")

    def __init__(self, streamed: bool) -> None:
        self.streamed = streamed
        self.prompt = self.output = self.cached = -1
        self._events = 0
        self._tail = b""

    def see(self, data: bytes) -> None:
        """More of the answer's body has come."""
        if self.streamed:
            self._events += data.count(_EVENT)
            if b'_tokens"' in data:
                self._read(data)
        else:
            self._tail = (self._tail + data)[-_TAIL:] if len(data) < _TAIL else data[-_TAIL:]

    def end(self) -> int:
        """The answer is complete; its output tokens, as said or else as counted."""
        if not self.streamed:
            self._read(self._tail)
        return self.tokens

    @property
    def tokens(self) -> int:
        """Output tokens so far."""
        return self.output if self.output >= 0 else max(min(self._events, 1), self._events - 1)  # the last is [DONE]

    def _read(self, data: bytes) -> None:
        at = data.rfind(b'"usage"')
        if at < 0:
            return
        for name in _OUTPUT:
            self.output = _number(data, name, at, self.output)
        for name in _PROMPT:
            self.prompt = _number(data, name, at, self.prompt)
        self.cached = _number(data, _CACHED, at, self.cached)


def _number(data: bytes, name: bytes, start: int, otherwise: int) -> int:
    """The whole number behind a field's name, `otherwise` where there is none."""
    at = data.find(name, start)
    if at < 0:
        return otherwise
    at += len(name)
    while data[at : at + 1] == b" ":
        at += 1
    end = at
    while data[end : end + 1].isdigit():
        end += 1
    return int(data[at:end]) if end > at else otherwise
