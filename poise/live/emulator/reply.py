"""Answers: each receives its tokens from the driver and writes them to its client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from poise.core.request import Sequence
from poise.live.emulator import shape
from poise.live.emulator.ask import EngineRequest
from poise.live.emulator.tokens import WORDS

NEVER_BREAKS: Final = 1 << 60
"""More tokens than any answer can have."""

_STREAM: Final = [(b"content-type", b"text/event-stream; charset=utf-8")]
_WORDS: Final = tuple(word.encode() for word in WORDS)


class Outlet(Protocol):
    """What an answer uses of its exchange (`http.Exchange`)."""

    def start(self, status: int, headers: list[tuple[bytes, bytes]], length: int | None = None) -> None:
        """Begin the answer."""
        ...

    def write(self, data: bytes) -> None:
        """Send a piece of its body."""
        ...

    def end(self) -> None:
        """The answer is complete."""
        ...

    def answer(self, status: int, body: bytes, content_type: bytes = ...) -> None:
        """The whole answer."""
        ...


class Account(Protocol):
    """Counts answers (`metrics.Metrics`)."""

    def began(self, waited: int, took: int, prompt_tokens: int, cached: int) -> None:
        """The first token is made."""
        ...

    def ended(self, reason: str, took: int, decoding: int, prompt_tokens: int, made: int) -> None:
        """The last token is made."""
        ...


class Reply:
    """One answer: counts tokens and keeps its instants (picoseconds); subclasses write whole answers and streams.

    breaks_after: tokens after which a fault strikes: `strike` is called, and returns whether the answer continues.
    details: whether usage has the cached tokens.
    """

    __slots__ = (
        "account", "admitted_at", "arrived_at", "ask", "breaks_after", "created", "details", "exchange", "first_at",
        "made", "name", "sequence", "strike",
    )  # fmt: skip

    def __init__(
        self,
        ask: EngineRequest,
        exchange: Outlet,
        sequence: Sequence,
        account: Account,
        name: str,
        created: int,
        details: bool,
    ) -> None:
        self.ask = ask
        self.exchange = exchange
        self.sequence = sequence
        self.account = account
        self.name = name
        self.created = created
        self.details = details
        self.made = 0
        self.arrived_at = self.admitted_at = sequence.request.arrived_at
        self.first_at = 0
        self.breaks_after = NEVER_BREAKS
        self.strike: Callable[[], bool] | None = None

    @property
    def cached(self) -> int | None:
        """Prompt tokens found in the cache, where usage reports them."""
        return self.sequence.cached if self.details else None

    def begin(self) -> None:
        """The request is taken."""

    def admitted(self, at: int) -> None:
        """The request has left the queue."""
        self.admitted_at = at

    def token(self, at: int) -> None:
        """One more token is made."""
        made = self.made
        self.made = made + 1
        if made >= self.breaks_after and not self._goes_on():
            return
        if not made:
            self._first(at)
        self.say(made)

    def done(self, at: int) -> None:
        """All tokens are made."""
        took, decoding = at - self.arrived_at, at - self.first_at
        self.account.ended(self.ask.finish, took, decoding, len(self.ask.prompt), self.made)
        if self.made < self.breaks_after or self._goes_on():
            self.close()

    def say(self, place: int) -> None:
        """Send token number `place`."""

    def close(self) -> None:
        """Send the end of the answer."""

    def _first(self, at: int) -> None:
        self.first_at = at
        sequence = self.sequence
        self.account.began(
            self.admitted_at - self.arrived_at, at - self.arrived_at, sequence.request.prompt_tokens, sequence.cached
        )

    def _goes_on(self) -> bool:
        """Apply the fault, once; what it broke stays broken."""
        strike, self.strike = self.strike, None
        if strike is None or not strike():
            return False
        self.breaks_after = NEVER_BREAKS
        return True


class WholeReply(Reply):
    """An answer that is sent when it is complete."""

    __slots__ = ()

    def close(self) -> None:
        """Send everything."""
        made, head = self.made, (self.ask, self.name, self.created)
        if self.ask.kind == "chat":
            body = shape.chat(*head, self.cached)
        elif self.ask.kind == "completion":
            body = shape.completion(*head, self.cached)
        else:
            status = "completed" if self.ask.speech.stops else "incomplete"
            body = shape.encode(shape.response(*head, made, self.cached, status))
        self.exchange.answer(200, body)


class StreamedReply(Reply):
    """A chat completion or a completion, streamed: one event a token."""

    __slots__ = ("_frame", "_last", "_place", "_plain", "_stride")

    def begin(self) -> None:
        """Send the head."""
        self._frame = shape.Frame(self.ask, self.name, self.created)
        self._last = self.ask.speech.tokens - 1
        self._plain = not self.ask.continuous
        self.exchange.start(200, _STREAM)

    def say(self, place: int) -> None:
        """Send a token; the first one follows the role, or an echo of the prompt."""
        frame, speech = self._frame, self.ask.speech
        if not place:
            self._open()
        if place == self._last:
            self.exchange.write(frame.content(speech.word(place), self.ask.finish, self._reported_cached()))
        elif self._plain:
            self.exchange.write(frame.head + _WORDS[speech.place(place)] + frame.tail)
        else:
            self.exchange.write(frame.content(speech.word(place), None, self._reported_cached()))

    def close(self) -> None:
        """Send the usage, if it was requested, and the end."""
        if self.ask.usage:
            self.exchange.write(self._frame.total(self.made, self.cached))
        self.exchange.write(shape.DONE)
        self.exchange.end()

    def _open(self) -> None:
        if self.ask.kind == "chat":
            self.exchange.write(self._frame.role())
        elif self.ask.echo:
            self.exchange.write(self._frame.content(self.ask.echo, None))

    def _reported_cached(self) -> int:
        return self.made if self.ask.continuous else 0


class Events(Reply):
    """A streamed response of `/v1/responses`."""

    __slots__ = ("_number",)

    def begin(self) -> None:
        """Send the head and the event that the response is created."""
        self._number = 0
        self.exchange.start(200, _STREAM)
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
