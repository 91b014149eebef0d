"""A parsed request of the emulated engine."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from poise.live.emulator.tokens import Tokenizer
from poise.live.emulator.written import Called, Written


@dataclass(slots=True)
class EngineRequest:
    """One choice of a parsed request.

    kind: `chat`, `completion`, `response`, `message`, `pooling`, `transcription` or `speech`.  prompt: its tokens.
    speech: the answer's.  ids: of the whole blocks of prompt and answer; () without prefix caching.
    usage, continuous: of a stream: whether a last chunk has the token counts, and whether each chunk has.
    limit: most tokens of the answer.  temperature, top_p: repeated in responses.
    salt: of the cache, "" for none.  whole: prompt tokens in whole KV blocks, which are cached.
    keep_s: seconds for which its KV stays, 0 for as long as there is room.
    index: of the choice.  call: the tool that the answer calls.
    """

    kind: str
    model: str
    prompt: array[int]
    speech: Tokenizer | Written
    ids: tuple[int, ...]
    stream: bool = False
    usage: bool = False
    continuous: bool = False
    priority: int = 0
    echo: str = ""
    limit: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    salt: str = ""
    whole: int = 0
    keep_s: int = 0
    index: int = 0
    call: Called | None = None

    @property
    def called(self) -> Called | None:
        """The tool that is called; None where the answer ends before the call is complete."""
        return self.call if self.call is not None and self.speech.stops else None

    @property
    def finish(self) -> str:
        """The finish reason: `length` at the limit, else `stop`, or `tool_calls` where the model chose to call one."""
        if not self.speech.stops:
            return "length"
        return "stop" if self.call is None or self.call.named else "tool_calls"
