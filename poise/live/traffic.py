"""Replays a workload as real requests to an OpenAI-compatible server, and records how each ends.

Prompts are made of four-letter words, a token each for the emulated engine and about one for real tokenizers. The words
of an extent follow from its id, so prompts that share extents share their text; but a conversation repeats the real
text of an earlier answer, so that engines find it in their caches.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from poise.core.chance import mix
from poise.core.units import SECOND
from poise.live import clock
from poise.live.emulator.tokens import WORDS
from poise.live.http.call import Address, Call, Failure
from poise.live.http.limits import PoolLimits
from poise.live.http.pool import Pool
from poise.workload.table import Workload

PENDING: Final = 0
ANSWERED: Final = 1
REFUSED: Final = 2
BROKEN: Final = 3
"""How a request ended: not yet; with a whole answer; with an error's status; in the middle."""


class Ended:
    """The outcome of each request, in columns: instants in picoseconds from the start, -1 for never."""

    def __init__(self, rows: int) -> None:
        self.sent_at = np.full(rows, -1, np.int64)
        self.first_at = np.full(rows, -1, np.int64)
        self.end_at = np.full(rows, -1, np.int64)
        self.status = np.zeros(rows, np.int16)
        self.how = np.zeros(rows, np.int8)

    @property
    def ttft_s(self) -> NDArray[np.float64]:
        """Seconds to the first byte of the requests that were answered whole, in order of rows."""
        good = self.how == ANSWERED
        waits: NDArray[np.float64] = (self.first_at[good] - self.sent_at[good]) / SECOND
        return waits


class Traffic:
    """Sends a workload's requests to the server at `address`, `speed` times as fast as its arrival times.

    keys: API keys by tenant.  progress: called with (ended, requests) whenever one has ended.
    """

    def __init__(
        self,
        workload: Workload,
        address: Address,
        model: str,
        *,
        speed: float = 1.0,
        keys: tuple[str, ...] = (),
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.workload = workload
        self.ended = Ended(len(workload))
        self._pool = Pool(address, PoolLimits(idle=4096, head_s=0, stall_s=0))
        self._model = model
        self._speed = speed
        self._keys = keys
        self._progress = progress
        self._left = len(workload)
        self._done = asyncio.Event()
        self._followers: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._ready: dict[int, int] = {}
        self._before = np.zeros(len(workload), np.int64)
        self._began = 0
        self._calls: dict[int, Call] = {}
        self._answers: Answers = {}

    async def run(self) -> Ended:
        """Send all, and wait until the last has ended. If cancelled, running requests are cancelled."""
        if not self._left:
            return self.ended
        self._began = clock.now()
        loop = asyncio.get_running_loop()
        work = self.workload
        offsets, ids = work.after_offsets, work.after_ids
        for row in range(len(work)):
            if offsets is not None and ids is not None and offsets[row + 1] > offsets[row]:
                for place in range(offsets[row], offsets[row + 1]):
                    wait = 0 if work.after_delay is None else int(work.after_delay[place])
                    self._followers[int(ids[place])].append((row, wait))
                self._before[row] = offsets[row + 1] - offsets[row]
            else:
                loop.call_later(int(work.arrival[row]) / SECOND / self._speed, self._send, row)
        try:
            await self._done.wait()
        finally:
            for call in self._calls.values():
                call.cancel()
            await self._pool.close()
        return self.ended

    def _now(self) -> int:
        return clock.now() - self._began

    def _send(self, row: int) -> None:
        if self._done.is_set():
            return
        work = self.workload
        body = {
            "model": self._model,
            "prompt": prompt(work, row, self._answers),
            "max_tokens": int(work.output[row]),
            "ignore_eos": True,
            "stream": True,
        }
        headers = [(b"content-type", b"application/json")]
        if work.session is not None and work.session[row] >= 0:
            headers.append((b"x-session-id", b"%d" % work.session[row]))
        if work.tenant is not None and self._keys:
            headers.append((b"authorization", b"Bearer " + self._keys[work.tenant[row]].encode()))
        self.ended.sent_at[row] = self._now()
        listener = _Listener(self, row, row in self._followers)
        self._calls[row] = self._pool.send(b"POST", b"/v1/completions", headers, msgspec.json.encode(body), listener)

    def answered(self, row: int, text: str) -> None:
        """The whole answer of a request that others repeat in their prompts."""
        known = self.workload.prefixes
        if known is not None and known.output is not None:
            self._answers[int(known.output[row]), int(self.workload.prompt[row])] = text

    def end(self, row: int, status: int, how: int) -> None:
        """A request has ended: send those that wait for it."""
        self._calls.pop(row, None)
        self.ended.end_at[row] = now = self._now()
        self.ended.status[row], self.ended.how[row] = status, how
        self._left -= 1
        loop, delay = asyncio.get_running_loop(), self.workload.delay
        for follower, tool in self._followers.pop(row, ()):
            self._before[follower] -= 1
            ready = max(now + int(tool / self._speed), self._ready.get(follower, 0))
            self._ready[follower] = ready
            if not self._before[follower]:
                wait = 0.0 if delay is None else int(delay[follower]) / SECOND / self._speed
                loop.call_later(wait + (ready - now) / SECOND, self._send, follower)
        if self._progress is not None:
            self._progress(len(self.workload) - self._left, len(self.workload))
        if not self._left:
            self._done.set()

    def begin(self, row: int) -> None:
        """The first byte of an answer has arrived."""
        if self.ended.first_at[row] < 0:
            self.ended.first_at[row] = self._now()


class _Listener:
    """Receives one answer. followed: other requests wait for it, and may repeat it."""

    __slots__ = ("_body", "_followed", "_row", "_status", "_traffic")

    def __init__(self, traffic: Traffic, row: int, followed: bool) -> None:
        self._traffic = traffic
        self._row = row
        self._followed = followed
        self._status = 0
        self._body = b""

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._status = status

    def data(self, data: bytes) -> None:
        self._traffic.begin(self._row)
        self._body += data
        if not self._followed:
            self._body = self._body[-64:]

    def end(self) -> None:
        whole = self._status == 200 and b"[DONE]" in self._body[-64:]
        if whole and self._followed:
            text = spoken(self._body)
            whole = text is not None
            self._traffic.answered(self._row, text or "")
        self._traffic.end(self._row, self._status, ANSWERED if whole else REFUSED if self._status != 200 else BROKEN)

    def failed(self, why: Failure) -> None:
        self._traffic.end(self._row, self._status, BROKEN)


Answers = dict[tuple[int, int], str]
"""Answers by the extent id under which prompts repeat them, and the tokens before it."""


def prompt(workload: Workload, row: int, answers: Mapping[tuple[int, int], str] = MappingProxyType({})) -> str:
    """The text of a request's prompt, in which `answers` are repeated."""
    tokens, pieces, start = int(workload.prompt[row]), [], 0
    known = workload.prefixes
    if known is not None:
        for place in range(known.offsets[row], known.offsets[row + 1]):
            extent, end = int(known.ids[place]), min(int(known.ends[place]), tokens)
            answer = answers.get((extent, start))
            pieces.append(words(extent, end - start) if answer is None else answer)
            start = end
    pieces.append(words(~row, tokens - start))
    return "".join(pieces)


def spoken(stream: bytes) -> str | None:
    """The text of a whole stream of completions; None where it is not such a stream."""
    events = [event for event in stream.replace(b"\r", b"").split(b"\n\n") if event.startswith(b"data:")][:-1]
    try:
        return "".join(choice.text for each in events for choice in _chunk(each.removeprefix(b"data:")).choices)
    except msgspec.DecodeError:
        return None


class _Choice(msgspec.Struct):
    text: str = ""


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []


_chunk = msgspec.json.Decoder(_Chunk).decode


def words(seed: int, count: int) -> str:
    """`count` words derived from `seed`."""
    last, chosen = mix(seed & (1 << 64) - 1), []
    for _ in range(count):
        last = last * 0x5851F42D4C957F2D + 0x14057B7EF767814F & (1 << 64) - 1
        chosen.append(WORDS[last >> 54])
    return "".join(chosen)
