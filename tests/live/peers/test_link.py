"""Frames are heard whole and in order however the bytes arrive, and a side that is silent or floods is cut off."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.live.peers.link import SILENCE_S, UNREAD, Link, Refused
from poise.live.peers.wire import LENGTH_BYTES, VERSION, Challenge, Ended, Hello, Message, first_word, frame, proof
from tests.live.warp import run

KEY = b"a key"


class Wire(asyncio.Transport):
    """A transport that only notes what was written, and that it was aborted; closed, it refuses as uvloop's do."""

    def __init__(self) -> None:
        self.aborted, self.closed = False, False
        self.sent: list[bytes | bytearray | memoryview] = []

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.closed:
            raise RuntimeError("unable to perform operation; the handler is closed")
        self.sent.append(data)

    def abort(self) -> None:
        self.aborted = True


def a_link() -> tuple[Link, Wire]:
    link, wire = Link(), Wire()
    link.connection_made(wire)
    return link, wire


@given(st.lists(st.lists(st.integers(0, 1 << 40), max_size=9), max_size=6), st.lists(st.integers(1, 40), min_size=1))
def test_frames_are_heard_whole_and_in_order_however_they_arrive(batches: list[list[int]], cuts: list[int]) -> None:
    sent = [[Ended(number, number % 7) for number in batch] for batch in batches]
    data = b"".join(map(frame, sent))

    async def main() -> None:
        link, wire = a_link()
        heard: list[list[Message]] = []
        hearing = asyncio.ensure_future(link.hear(heard.append))
        await asyncio.sleep(0)
        start, turn = 0, 0
        while start < len(data):
            end = start + cuts[turn % len(cuts)]
            link.data_received(data[start:end])
            start, turn = end, turn + 1
        assert heard == sent and not wire.aborted
        link.connection_lost(None)
        with pytest.raises(ConnectionError):
            await hearing

    run(main())


def test_a_side_that_is_silent_is_given_up_after_its_last_frame() -> None:
    async def main() -> None:
        loop, (link, _) = asyncio.get_running_loop(), a_link()
        hearing = asyncio.ensure_future(link.hear(lambda heard: None))
        for _ in range(3):
            await asyncio.sleep(SILENCE_S * 0.9)
            link.data_received(frame([]))
        last = loop.time()
        with pytest.raises(ConnectionError, match="silent"):
            await hearing
        assert SILENCE_S <= loop.time() - last < SILENCE_S * 1.1

    run(main())


@pytest.mark.parametrize("flood", [frame([]) * (UNREAD + 1), b"\x00\x10\x00\x00"])
def test_more_than_a_greeting_is_cut_off_before_it_is_read(flood: bytes) -> None:
    async def main() -> None:
        link, wire = a_link()
        link.data_received(flood)
        assert wire.aborted

    run(main())


def test_nothing_is_heard_after_what_is_no_message() -> None:
    async def main() -> None:
        link, wire = a_link()
        heard: list[Any] = []
        hearing = asyncio.ensure_future(link.hear(heard.append))
        await asyncio.sleep(0)
        link.data_received(frame([Ended(1, 2)]) + b"\x00\x00\x00\x01\xc1" + frame([Ended(3, 4)]))
        assert heard == [[Ended(1, 2)]] and wire.aborted
        with pytest.raises(ConnectionError):
            await hearing

    run(main())


def test_nothing_is_sent_once_the_connection_has_ended() -> None:
    async def main() -> None:
        link, wire = a_link()
        assert link.write(b"before") and wire.sent == [b"before"]
        wire.closed = True
        link.connection_lost(None)
        assert link.write(b"behind") and wire.sent == [b"before"]

    run(main())


ENDS = pytest.mark.parametrize("error", [None, ConnectionResetError("reset by peer")])


@ENDS
def test_a_call_whose_other_side_is_gone_behind_its_challenge_ends_as_any_that_breaks_off(
    error: Exception | None,
) -> None:
    async def main() -> None:
        link, wire = a_link()
        greeting = asyncio.ensure_future(link.greet("own", KEY))
        await asyncio.sleep(0)
        link.data_received(frame(Challenge(VERSION, "other", bytes(16))))
        wire.closed = True
        link.connection_lost(error)
        with pytest.raises((OSError, Refused)):
            await greeting

    run(main())


@ENDS
def test_a_caller_that_is_gone_behind_its_hello_is_heard_to_its_end(error: Exception | None) -> None:
    async def main() -> None:
        link, wire = a_link()
        answering = asyncio.ensure_future(link.answer("own", KEY, True))
        await asyncio.sleep(0)
        challenge = first_word(bytes(wire.sent[0])[LENGTH_BYTES:])
        assert isinstance(challenge, Challenge)
        link.data_received(frame(Hello("other", bytes(16), proof(KEY, "caller", challenge.nonce, "other", "own"))))
        wire.closed = True
        link.connection_lost(error)
        await answering
        with pytest.raises(ConnectionError):
            await link.hear(lambda _: None)

    run(main())
