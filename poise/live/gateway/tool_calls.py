"""Finds the tool that an answer calls, from the byte stream, without parsing the answer as a whole."""

from __future__ import annotations

import re
from typing import Final

from poise.core.request import NO_TOOL, UNKNOWN_TOOL

_NAME: Final = re.compile(
    rb'(?:"function":\s*\{|"type":\s*"tool_use",\s*"id":\s*"[^"\\]{1,64}",)\s*"name":\s*"([^"\\]{1,64})"'
)
_FINISH: Final = re.compile(
    rb'"(?:finish_reason":\s*"(?=\w{1,32}")|stop_reason":\s*"(?=(?:end_turn|max_tokens|stop_sequence|tool_use)"))(\w+)'
)
_TAIL: Final = 240
"""Bytes kept of what has passed, for what is cut in two by a chunk's end; longer than what is searched for."""
TOOLS: Final = 1_000
"""Most tool names that are distinguished, since clients choose them; further ones count as unknown tools."""


class Tools:
    """Numbers for the names of tools; none is dropped, so that what a policy learned of one stays its own."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def number(self, name: bytes) -> int:
        """The number of a name; `UNKNOWN_TOOL` for the empty one, and for new ones beyond `TOOLS`."""
        if name and name not in self._numbers and len(self._numbers) < TOOLS:
            self._numbers[name] = len(self._numbers)
        return self._numbers.get(name, UNKNOWN_TOOL)


class Called:
    """The first tool that one answer of /v1/chat/completions or /v1/messages calls, whole or streamed.

    name: the tool's, empty for none so far.  finish: why the answer ended, empty until that is known.
    Quotes inside a JSON text are escaped, so that an answer's text about tools is not taken for a call.
    """

    __slots__ = ("_tail", "finish", "name")

    def __init__(self) -> None:
        self.name = self.finish = b""
        self._tail = b""

    def see(self, data: bytes) -> None:
        """More of the answer's body arrived."""
        seen = self._tail + data
        if not self.name:
            found = _NAME.search(seen)
            self.name = found[1] if found else b""
        finish = _FINISH.search(seen)
        if finish:
            self.finish = finish[1]
        self._tail = seen[-_TAIL:]

    def tool(self, tools: Tools) -> int:
        """Its number; `NO_TOOL` where the answer ended by itself, `UNKNOWN_TOOL` where it was cut or has no reason."""
        if self.finish in (b"tool_calls", b"tool_use"):
            return tools.number(self.name)
        return NO_TOOL if self.finish in (b"stop", b"end_turn") else UNKNOWN_TOOL
