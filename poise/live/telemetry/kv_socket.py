"""The sockets of KV events: one SUB socket for an endpoint, and a DEALER for each replay.

vLLM binds where its endpoint has a wildcard (`tcp://*:5557`), and the gateway connects to it; otherwise the engine
connects, and the gateway binds. Many engines may push into one bound port, distinguished by their topics.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Final, NamedTuple

import zmq
import zmq.asyncio

from poise.core.errors import UserError
from poise.live.telemetry.kv_events import Change
from poise.live.telemetry.kv_feed import Feed, ReplayRequest, Step

END: Final = b"\xff" * 8
"""The number of the message that ends a replay: −1."""


class EventSource(NamedTuple):
    """One engine's events.

    engine: its dense id.  topic: as the engine publishes (`kv@…`, vLLM's default is empty).
    replay: its replay endpoint as the gateway reaches it, empty for none.
    """

    engine: int
    topic: str = ""
    replay: str = ""


OnChange = Callable[[int, Change], None]
"""Callback: the engine and the change of its index."""


class Subscriber:
    """Follows the engines that publish at one endpoint; they may come and go while it follows the others.

    bind: whether the gateway binds `endpoint` and the engines connect.  replay_s: for each answer of a replay.
    counts: messages that no source expects.
    """

    def __init__(
        self,
        context: zmq.asyncio.Context,
        endpoint: str,
        bind: bool,
        sources: Sequence[EventSource],
        on_change: OnChange,
        replay_s: float = 5.0,
    ) -> None:
        self.feeds: dict[bytes, Feed] = {}
        self.sources: dict[bytes, EventSource] = {}
        self.endpoint = endpoint
        self.counts: Counter[str] = Counter()
        self._context = context
        self._bind = bind
        self._on_change = on_change
        self._replay_s = replay_s
        self._replays: dict[bytes, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._following = False
        for source in sources:
            self.add(source)

    def add(self, source: EventSource) -> None:
        """Follow one more engine; UserError where another one has its topic."""
        topic = source.topic.encode()
        if topic in self.feeds:
            raise UserError(
                f"{self.endpoint}: two engines publish under one topic; give each its own in kv-events-config"
            )
        self.feeds[topic], self.sources[topic] = Feed(bool(source.replay)), source
        if self._following:
            self._socket.subscribe(topic)
            self._perform(topic, self.feeds[topic].start())

    def remove(self, engine: int) -> None:
        """Stop following an engine."""
        for topic in [topic for topic, source in self.sources.items() if source.engine == engine]:
            if self._following:
                self._socket.unsubscribe(topic)
            before = self._replays.pop(topic, None)
            if before is not None:
                before.cancel()
            del self.feeds[topic], self.sources[topic]

    def start(self) -> None:
        """Open the socket, request a replay, and follow; UserError where the endpoint is not usable."""
        socket = self._socket = self._context.socket(zmq.SUB)
        socket.set(zmq.RCVHWM, 100_000)
        socket.set(zmq.LINGER, 0)
        socket.set(zmq.RECONNECT_IVL_MAX, 5_000)
        socket.set(zmq.HEARTBEAT_IVL, 5_000)
        socket.set(zmq.HEARTBEAT_TIMEOUT, 15_000)
        for topic in self.feeds:
            socket.subscribe(topic)
        self._monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        try:
            (socket.bind if self._bind else socket.connect)(self.endpoint)
        except zmq.ZMQError as error:
            self._close()
            raise UserError(f"{self.endpoint}: {error}; give an endpoint such as tcp://127.0.0.1:5557") from None
        self._following = True
        self._task(self._follow())
        self._task(self._watch())
        for topic, feed in self.feeds.items():
            self._perform(topic, feed.start())

    @property
    def bound(self) -> str:
        """The endpoint with the port that the system chose."""
        return str(self._socket.get_string(zmq.LAST_ENDPOINT))

    def lost(self, engine: int) -> None:
        """The engine is lost: drop what it held from the index."""
        for topic, source in self.sources.items():
            if source.engine == engine:
                self._perform(topic, self.feeds[topic].reset())

    async def stop(self) -> None:
        """Close all."""
        self._following = False
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._close()

    def _task(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.result()  # an error is the event loop's to report

    def _close(self) -> None:
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(0)

    async def _follow(self) -> None:
        while True:
            frames = await self._socket.recv_multipart()
            self._message(frames)

    def _message(self, frames: list[bytes]) -> None:
        feed = self.feeds.get(frames[0])
        if feed is None or len(frames) != 3 or len(frames[1]) != 8:
            self.counts["unexpected"] += 1
            return
        self._perform(frames[0], feed.message(int.from_bytes(frames[1], "big"), frames[2]))

    async def _watch(self) -> None:
        """A broken connection may hide a restart: each engine behind it must prove to be the same process."""
        while True:
            await self._monitor.recv_multipart()
            await self._drain()
            for topic, feed in self.feeds.items():
                if feed.can_replay or not self._bind:  # the socket does not report which peer it was
                    self._perform(topic, feed.interrupted())

    async def _drain(self) -> None:
        """Receive what arrived before the connection broke."""
        with contextlib.suppress(zmq.Again):
            while True:
                self._message(await self._socket.recv_multipart(zmq.NOBLOCK))

    def _perform(self, topic: bytes, steps: list[Step]) -> None:
        source = self.sources[topic]
        for step in steps:
            if isinstance(step, ReplayRequest):
                self._ask(topic, step.start)
            else:
                self._on_change(source.engine, step)

    def _ask(self, topic: bytes, start: int) -> None:
        before = self._replays.pop(topic, None)
        if before is not None:
            before.cancel()
        self._replays[topic] = self._task(self._replay(topic, start))

    async def _replay(self, topic: bytes, start: int) -> None:
        feed = self.feeds[topic]
        socket = self._context.socket(zmq.DEALER)
        socket.set(zmq.LINGER, 0)
        this = asyncio.current_task()
        try:
            socket.connect(self.sources[topic].replay)
            await socket.send_multipart([b"", start.to_bytes(8, "big")])
            while True:
                frames = await asyncio.wait_for(socket.recv_multipart(), self._replay_s)
                if self._replays.get(topic) is not this:
                    return  # a newer request was sent; a cancel waits for an await that waits
                if len(frames) < 2 or frames[-2] == END:
                    break
                self._perform(topic, feed.replayed(int.from_bytes(frames[-2], "big"), frames[-1]))
            self._perform(topic, feed.replay_ended())
        except (TimeoutError, zmq.ZMQError):
            if self._replays.get(topic) is this:
                self._perform(topic, feed.replay_failed())
        finally:
            socket.close(0)
