"""Answers that are streams of named events: those of `/v1/responses` and of `/v1/messages`."""

from __future__ import annotations

from typing import Any, Final

from poise.live.emulator import shape
from poise.live.emulator.message_shape import STOPS, block, message, named, started, usage
from poise.live.emulator.reply import STREAM, Reply
from poise.live.emulator.tokens import PIECE


class Events(Reply):
    """A streamed response of `/v1/responses`."""

    __slots__ = ("_number",)

    def begin(self) -> None:
        """Send the head and the event that the response is created."""
        self._number = 0
        self.exchange.start(200, STREAM)
        response = shape.response(self.ask, self.name, self.created, 0, None, "in_progress")
        self._send("response.created", response=response)
        self._send("response.in_progress", response=response)

    def say(self, place: int) -> None:
        """Send a token."""
        if not place:
            self._send("response.output_item.added", output_index=0, item=shape.message(self.name, "", "in_progress"))
            self._of_part("response.content_part.added", part=shape.part(""))
        self._of_part("response.output_text.delta", delta=self.ask.speech.word(place), logprobs=[])

    def close(self) -> None:
        """Send the events that text, part, message and response are complete."""
        text, status = self.ask.speech.text(), "completed" if self.ask.speech.stops else "incomplete"
        self._of_part("response.output_text.done", text=text, logprobs=[])
        self._of_part("response.content_part.done", part=shape.part(text))
        self._send("response.output_item.done", output_index=0, item=shape.message(self.name, text, "completed"))
        response = shape.response(self.ask, self.name, self.created, self.made, self.cached, status)
        self._send("response.completed", response=response)  # also where its status is another one, as in vLLM
        self.exchange.end()

    def _of_part(self, kind: str, **data: Any) -> None:
        self._send(kind, item_id=f"msg_{self.name[5:]}", output_index=0, content_index=0, **data)

    def _send(self, kind: str, **data: Any) -> None:
        self.exchange.write(shape.named(self._number, {"type": kind, **data}))
        self._number += 1


class MessageReply(Reply):
    """A whole answer of `/v1/messages`."""

    __slots__ = ()

    def close(self) -> None:
        """Send everything."""
        self.exchange.answer(200, shape.encode(message(self.ask, self.name, self.made, self.cached)))


class MessageEvents(Reply):
    """A streamed answer of `/v1/messages`: one block, of a text or of a call."""

    __slots__ = ()

    def begin(self) -> None:
        """Send the head."""
        self.exchange.start(200, STREAM)

    def say(self, place: int) -> None:
        """Send a token; the first one follows the start of the message, and of its block if that is a text."""
        if not place:
            self._send(started(self.ask, self.name))
        text, call = self.ask.speech.word(place), self.ask.call
        if call is None:
            if not place:
                self._send({"type": "content_block_start", "content_block": {"type": "text", "text": ""}, "index": 0})
            self._delta({"type": "text_delta", "text": text})
            return
        begun, part = call.piece(place, text)
        if begun:
            self._send({"type": "content_block_start", "content_block": block(call, {}), "index": 0})
        if part:
            self._delta({"type": "input_json_delta", "partial_json": part})

    def close(self) -> None:
        """Send the ends of block and message."""
        call = self.ask.call
        if call is None or self.made * PIECE >= call.start:
            self._send({"type": "content_block_stop", "index": 0})
        delta = {"stop_reason": STOPS[self.ask.finish], "stop_sequence": None}
        counts = usage(self.ask, self.made, self.cached)
        self._send({"type": "message_delta", "delta": delta, "usage": counts})
        self._send({"type": "message_stop"})
        self.exchange.end()

    def _delta(self, delta: dict[str, Any]) -> None:
        self._send({"type": "content_block_delta", "delta": delta, "index": 0})

    def _send(self, data: dict[str, Any]) -> None:
        self.exchange.write(named(data))


STREAMED: Final[dict[str, type[Reply]]] = {"response": Events, "message": MessageEvents}
"""The stream of a kind of requests; those of other kinds are plain."""
