"""Polls engines: their metrics pages, and whether they are healthy.

One request at a time for each engine. An answer carries the instant of its request, so that it is never dated later
than its content; a silent engine leaves the last answer to age.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from poise.core.chance import Chance
from poise.live import clock
from poise.live.http.call import Call, Failure, Kind
from poise.live.http.pool import Pool
from poise.live.telemetry import metrics
from poise.live.telemetry.health import Outcome

ABSENT: Final = (404, 405, 501)
"""Statuses of an engine without this endpoint; it is polled seldom then."""


class PollResult(NamedTuple):
    """The engine's response."""

    status: int
    body: bytes


class Every(NamedTuple):
    """The period of polling.

    period_s: from an answer to the next request, within a tenth.  timeout_s: for a whole answer.
    absent_s: the period where the engine lacks the endpoint.  most: bytes of an answer.
    """

    period_s: float = 1.0
    timeout_s: float = 2.0
    absent_s: float = 30.0
    most: int = 8 << 20


OnAnswer = Callable[[int, PollResult | Failure], None]
"""Callback: the instant of the request, and its answer."""


class Poll:
    """Polls `target` of the engine behind `pool`, from `start` to `stop`.

    chance: draws the first instant and the jitter, so that a fleet is not polled all at once.
    headers: such as the engine's own API key.
    """

    __slots__ = ("_chance", "_every", "_headers", "_on_answer", "_pool", "_question", "_target", "_timer")

    def __init__(
        self,
        pool: Pool,
        target: bytes,
        on_answer: OnAnswer,
        chance: Chance,
        every: Every | None = None,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        self._pool = pool
        self._target = target
        self._on_answer = on_answer
        self._every = every or Every()
        self._chance = chance
        self._headers = headers
        self._timer: asyncio.TimerHandle | None = None
        self._question: _Question | None = None

    def start(self) -> None:
        """Send the first request within one period."""
        self._wait(self._every.period_s * self._chance.draw("poll phase"), self._ask)

    def stop(self) -> None:
        """Stop polling; a request in flight is cancelled, and its callback is not called."""
        if self._timer is not None:
            self._timer.cancel()
        if self._question is not None:
            self._question.call_off()
            self._question = None

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, then)

    def _ask(self) -> None:
        question = self._question = _Question(self._done, self._every.most)
        question.call = self._pool.send(b"GET", self._target, self._headers, b"", question)
        self._wait(self._every.timeout_s, self._late)

    def _late(self) -> None:
        if self._question is not None:
            self._question.call_off()
            self._done(self._question, Failure("timeout", f"no answer in {self._every.timeout_s:g} s", False))

    def _done(self, question: _Question, answer: PollResult | Failure) -> None:
        every = self._every
        self._question = None
        absent = isinstance(answer, PollResult) and answer.status in ABSENT
        self._chance.key += 1
        jitter = 0.9 + 0.2 * self._chance.draw("poll jitter")
        self._wait((every.absent_s if absent else every.period_s) * jitter, self._ask)
        self._on_answer(question.sent_at, answer)


class _Question:
    """One request in flight; the pool reports the answer to it."""

    __slots__ = ("_body", "_done", "_most", "_size", "_status", "call", "sent_at")

    def __init__(self, done: Callable[[_Question, PollResult | Failure], None], most: int) -> None:
        self.sent_at = clock.now()
        self.call: Call | None = None
        self._done = done
        self._most = most
        self._status = 0
        self._size = 0
        self._body: list[bytes] = []

    def call_off(self) -> None:
        if self.call is not None:
            self.call.cancel()

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._status = status

    def data(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._most:
            self.call_off()
            self._done(self, Failure("garbage", f"the answer has more than {self._most} bytes", True))
        else:
            self._body.append(data)

    def end(self) -> None:
        self._done(self, PollResult(self._status, b"".join(self._body)))

    def failed(self, why: Failure) -> None:
        self._done(self, why)


def reading(answer: PollResult | Failure) -> metrics.Reading | str:
    """The reading in an answer to `GET /metrics`, or why there is none."""
    if isinstance(answer, Failure):
        return answer.reason
    return metrics.read(answer.body) if answer.status == 200 else f"status {answer.status}"


def outcome(answer: PollResult | Failure) -> Outcome:
    """What an answer to `GET /health` means: any status of success is health."""
    if isinstance(answer, Failure):
        return FAILURES[answer.kind]
    return Outcome.OK if 200 <= answer.status < 300 else Outcome.ERROR


FAILURES: Final[dict[Kind, Outcome]] = {
    "refused": Outcome.REFUSED,
    "dns": Outcome.REFUSED,
    "reset": Outcome.RESET,
    "cut": Outcome.RESET,
    "stale": Outcome.RESET,
    "timeout": Outcome.TIMEOUT,
    "garbage": Outcome.GARBAGE,
}
"""How a failed request counts for the engine's circuit; a stale one that was sent again does not count at all."""
