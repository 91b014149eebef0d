"""KV events over real sockets: who binds, replay, a restart, and engines that share a port."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest
import zmq
import zmq.asyncio

from poise.core.errors import UserError
from poise.live.telemetry.kv_events import Change
from poise.live.telemetry.kv_feed import Sync
from poise.live.telemetry.kv_socket import END, EventSource, Subscriber
from tests.live.requests.engines import Cache, Publisher
from tests.patience import PATIENCE_S

ANY = "tcp://127.0.0.1:*"


class _Engine:
    """A publisher with sockets as vLLM's: PUB (here XPUB, which hears of subscribers) and ROUTER."""

    def __init__(self, context: zmq.asyncio.Context, topic: str = "", seed: int = 0) -> None:
        self.publisher = Publisher(Cache(2, seed), 100)
        self.topic = topic.encode()
        self.pub = context.socket(zmq.XPUB)
        self.router = context.socket(zmq.ROUTER)
        self.task: asyncio.Task[None] | None = None

    def listen(self, endpoint: str = ANY) -> str:
        """Bind the replay socket and answer."""
        self.router.bind(endpoint)
        self.task = asyncio.create_task(self._answer())
        return str(self.router.get_string(zmq.LAST_ENDPOINT))

    async def subscribed(self) -> None:
        assert await self.pub.recv() == b"\1" + self.topic

    async def say(self, count: int, lost: bool = False) -> None:
        for _ in range(count):
            number, payload = self.publisher.publish(self.publisher.cache.store([5, self.publisher.number]))
            if not lost:
                await self.pub.send_multipart([self.topic, number.to_bytes(8, "big"), payload])

    async def _answer(self) -> None:
        while True:
            client, empty, start = await self.router.recv_multipart()
            for number, payload in self.publisher.replay(int.from_bytes(start, "big")):
                await self.router.send_multipart([client, empty, number.to_bytes(8, "big"), payload])
            await self.router.send_multipart([client, empty, END, b""])

    async def close(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        self.pub.close(0)
        self.router.close(0)


class _Index:
    """What the gateway believes, and a way to wait for it."""

    def __init__(self) -> None:
        self.held: dict[int, set[int]] = {}
        self.changes: list[tuple[int, Change]] = []
        self._changed = asyncio.Event()

    def changed(self, engine: int, change: Change) -> None:
        self.changes.append((engine, change))
        held = set() if change.cleared else self.held.get(engine, set())
        self.held[engine] = held - set(change.left) | set(change.entered)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()


@contextlib.asynccontextmanager
async def _context() -> AsyncIterator[zmq.asyncio.Context]:
    context = zmq.asyncio.Context()
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield context
    finally:
        context.destroy(0)  # also where a test failed with sockets open


def test_engines_connect_to_the_bound_port_and_are_distinguished() -> None:
    async def main() -> None:
        async with _context() as context:
            index = _Index()
            subscriber = Subscriber(context, ANY, True, [EventSource(3, "kv@a"), EventSource(5, "kv@b")], index.changed)
            subscriber.start()
            one, two = _Engine(context, "kv@a"), _Engine(context, "kv@b", seed=9)
            for engine in (one, two):
                engine.pub.connect(subscriber.bound)
                for _ in range(2):  # it hears of both topics
                    await engine.pub.recv()
            await one.say(3)
            await two.say(2)
            await index.until(lambda: [len(index.held.get(each, ())) for each in (3, 5)] == [3, 2])
            assert index.held == {3: one.publisher.cache.held(), 5: two.publisher.cache.held()}
            subscriber.lost(3)
            assert index.held[3] == set() and subscriber.feeds[b"kv@a"].sync is Sync.WAITING
            for engine in (one, two):
                await engine.close()
            await subscriber.stop()

    asyncio.run(main())


def test_what_was_missed_is_replayed() -> None:
    async def main() -> None:
        async with _context() as context:
            index, engine = _Index(), _Engine(context)
            await engine.say(4, lost=True)  # before the gateway came
            engine.pub.bind(ANY)
            source, endpoint = EventSource(0, "", engine.listen()), str(engine.pub.get_string(zmq.LAST_ENDPOINT))
            subscriber = Subscriber(context, endpoint, False, [source], index.changed, replay_s=PATIENCE_S)
            subscriber.start()
            await engine.subscribed()
            while subscriber.feeds[b""].sync is not Sync.SYNCED:  # the fourth message is not yet the answer's end
                await asyncio.sleep(0)
            assert len(index.held[0]) == 4
            await engine.say(1)
            await engine.say(3, lost=True)
            await engine.say(2)
            await index.until(lambda: index.held[0] == engine.publisher.cache.held())
            assert not any(change.cleared for _, change in index.changes)
            assert subscriber.feeds[b""].whole and subscriber.feeds[b""].counts == {"gaps": 1}
            await engine.close()
            await subscriber.stop()

    asyncio.run(main())


def test_a_restarted_engine_is_found_out() -> None:
    async def main() -> None:
        async with _context() as context:
            index, before = _Index(), _Engine(context, seed=1)
            before.pub.bind(ANY)
            endpoint, replay = str(before.pub.get_string(zmq.LAST_ENDPOINT)), before.listen()
            subscriber = Subscriber(context, endpoint, False, [EventSource(0, "", replay)], index.changed)
            subscriber.start()
            await before.subscribed()
            await before.say(3)
            await index.until(lambda: len(index.held.get(0, ())) == 3)
            await before.close()
            after = _Engine(context, seed=2)
            await _bound(after, endpoint, replay)
            await after.say(4, lost=True)  # the very number that is due comes next
            await after.subscribed()
            await after.say(1)
            await index.until(lambda: index.held[0] == after.publisher.cache.held())
            assert subscriber.feeds[b""].counts["restarts"] == 1
            await after.close()
            await subscriber.stop()

    asyncio.run(main())


async def _bound(engine: _Engine, endpoint: str, replay: str) -> None:
    """Bind where another engine was, as soon as the system lets go of it."""
    while True:
        try:
            engine.pub.bind(endpoint)
            break
        except zmq.ZMQError:
            await asyncio.sleep(0)
    while True:
        try:
            engine.listen(replay)
            return
        except zmq.ZMQError:
            await asyncio.sleep(0)


def test_a_silent_replay_endpoint_costs_what_was_known() -> None:
    async def main() -> None:
        async with _context() as context:
            index, engine = _Index(), _Engine(context)
            engine.pub.bind(ANY)
            silent = _Engine(context)
            silent.router.bind(ANY)  # takes the question and never answers
            source = EventSource(0, "", str(silent.router.get_string(zmq.LAST_ENDPOINT)))
            endpoint = str(engine.pub.get_string(zmq.LAST_ENDPOINT))
            subscriber = Subscriber(context, endpoint, False, [source], index.changed, replay_s=0.05)
            subscriber.start()
            await engine.subscribed()
            await index.until(lambda: subscriber.feeds[b""].sync is Sync.WAITING and bool(index.changes))
            await engine.say(1)
            await engine.say(1, lost=True)
            await engine.say(1)
            await index.until(lambda: len(index.held.get(0, ())) == 1 and subscriber.feeds[b""].counts["losses"] == 2)
            for each in (engine, silent):
                await each.close()
            await subscriber.stop()

    asyncio.run(main())


def test_two_engines_under_one_topic_are_refused() -> None:
    context = zmq.asyncio.Context()
    with pytest.raises(UserError, match="two engines publish under one topic"):
        Subscriber(context, ANY, True, [EventSource(0), EventSource(1)], lambda engine, change: None)
    context.term()


def test_a_wrong_endpoint_is_refused() -> None:
    async def main() -> None:
        async with _context() as context:
            subscriber = Subscriber(context, "tcp://nowhere", False, [EventSource(0)], lambda engine, change: None)
            with pytest.raises(UserError, match=r"tcp://nowhere: .* give an endpoint such as"):
                subscriber.start()

    asyncio.run(main())


def test_what_no_source_expects_is_counted() -> None:
    async def main() -> None:
        async with _context() as context:
            index = _Index()
            subscriber = Subscriber(context, ANY, True, [EventSource(0, "kv")], index.changed)
            subscriber.start()
            engine = _Engine(context, "kv")
            engine.pub.connect(subscriber.bound)
            await engine.subscribed()
            await engine.pub.send_multipart([b"kv@other", bytes(8), b""])
            await engine.pub.send_multipart([b"kv", b"short"])
            await engine.say(1)
            await index.until(lambda: len(index.held.get(0, ())) == 1)
            assert subscriber.counts == {"unexpected": 2}
            await engine.close()
            await subscriber.stop()

    asyncio.run(main())
