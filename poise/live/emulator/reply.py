"""Answers: each receives its tokens from the driver and writes them to its client."""

from __future__ import annotations

import collections.abc as abc
from collections.abc import Callable
from typing import Final, Protocol

from poise.core.request import Sequence
from poise.live.emulator import shape
from poise.live.emulator.engine_request import EngineRequest
from poise.live.emulator.tokens import WORDS, Tokenizer

NEVER_BREAKS: Final = 1 << 60
"""More tokens than any answer can have."""

STREAM: Final = [(b"content-type", b"text/event-stream; charset=utf-8")]
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


class Choices:
    """The choices of one answer. left: how many are not complete.  made: tokens of those that are."""

    __slots__ = ("left", "made", "opened", "replies")

    def __init__(self, replies: abc.Sequence[Reply]) -> None:
        self.replies = replies
        self.left = len(replies)
        self.made = 0
        self.opened = False

    @property
    def asks(self) -> list[EngineRequest]:
        """Their requests."""
        return [reply.ask for reply in self.replies]

    def one_more(self, reply: Reply) -> bool:
        """One is complete; whether all are."""
        self.left -= 1
        self.made += reply.made
        return not self.left


class Reply:
    """One choice of an answer: counts tokens and keeps instants (picoseconds); subclasses write answers and streams.

    choices: all that the answer has.
    breaks_after: tokens after which a fault strikes: `strike` is called, and returns whether the answer continues.
    details: whether usage has the cached tokens.
    """

    __slots__ = (
        "account", "admitted_at", "arrived_at", "ask", "breaks_after", "choices", "created", "details", "exchange",
        "first_at", "made", "name", "sequence", "strike",
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
        self.choices = Choices([self])

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
        self.account.ended(
            "stop" if self.ask.speech.stops else "length", took, decoding, len(self.ask.prompt), self.made
        )
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
    """An answer that is sent when all its choices are complete."""

    __slots__ = ()

    def close(self) -> None:
        """Send everything."""
        choices, first = self.choices, self.choices.replies[0]
        if not choices.one_more(self):
            return
        head = (self.name, self.created)
        if self.ask.kind == "chat":
            body = shape.chat(choices.asks, *head, first.cached)
        elif self.ask.kind == "completion":
            body = shape.completion(choices.asks, *head, first.cached)
        else:
            status = "completed" if self.ask.speech.stops else "incomplete"
            body = shape.encode(shape.response(self.ask, *head, self.made, self.cached, status))
        self.exchange.answer(200, body)


class StreamedReply(Reply):
    """A choice of a chat completion or a completion, streamed: one event a token."""

    __slots__ = ("_frame", "_last", "_place", "_plain", "_words")

    def begin(self) -> None:
        """Send the head, once for all choices."""
        self._frame = shape.Frame(self.ask, self.name, self.created)
        self._last = self.ask.speech.tokens - 1
        self._words = self.ask.speech if isinstance(self.ask.speech, Tokenizer) else None
        self._plain = not self.ask.continuous
        if not self.ask.index:
            self.exchange.start(200, STREAM)

    def say(self, place: int) -> None:
        """Send a token; the first one follows the roles of all choices, or an echo of the prompt."""
        frame, speech, words = self._frame, self.ask.speech, self._words
        if not place:
            self._open()
        if self.ask.call is not None:
            self._call(place)
        elif place == self._last:
            self.exchange.write(frame.content(speech.word(place), self.ask.finish, self._reported_made()))
        elif self._plain and words is not None:
            self.exchange.write(frame.head + _WORDS[words.place(place)] + frame.tail)
        else:
            self.exchange.write(frame.content(speech.word(place), None, self._reported_made()))

    def _call(self, place: int) -> None:
        """Send what token `place` brings of a call: its name when that is complete, and a piece of its arguments."""
        call, frame = self.ask.call, self._frame
        assert call is not None
        named, part = call.piece(place, self.ask.speech.word(place))
        if named:
            self.exchange.write(frame.call(call))
        if part:
            self.exchange.write(frame.arguments(part))
        if place == self._last:
            self.exchange.write(frame.delta({}, self.ask.finish, self._reported_made()))

    def close(self) -> None:
        """With the last choice, send the usage, if it was requested, and the end."""
        if not self.choices.one_more(self):
            return
        if self.ask.usage:
            self.exchange.write(self._frame.total(self.choices.made, self.choices.replies[0].cached))
        self.exchange.write(shape.DONE)
        self.exchange.end()

    def _open(self) -> None:
        if self.ask.echo:
            self.exchange.write(self._frame.content(self.ask.echo, None))
        if self.ask.kind == "chat" and not self.choices.opened:
            self.choices.opened = True
            for reply in self.choices.replies:
                assert isinstance(reply, StreamedReply)
                self.exchange.write(reply._frame.role())

    def _reported_made(self) -> int:
        return self.made if self.ask.continuous else 0
