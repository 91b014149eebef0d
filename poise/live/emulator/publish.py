"""KV events over ZMQ: a PUB socket for what enters and leaves the cache, a ROUTER socket for replays.

The sockets and their options are vLLM's (`--kv-events-config`).
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, fields

import msgspec
import zmq
import zmq.asyncio

from poise.core.errors import UserError
from poise.live.emulator.events import Ledger, Stream


@dataclass(frozen=True, slots=True)
class KvEvents:
    """vLLM's `KVEventsConfig`: where events go.

    endpoint: bound where it holds `*` or `::`, or is `ipc:` or `inproc:`; else the engine connects to it.
    replay_endpoint: for replays of missed batches, the last `buffer_steps` of them.
    hwm: batches that may wait for a slow subscriber.
    """

    enable_kv_cache_events: bool = False
    publisher: str = "zmq"
    endpoint: str = "tcp://*:5557"
    replay_endpoint: str | None = None
    buffer_steps: int = 10_000
    hwm: int = 100_000
    max_queue_size: int = 100_000
    topic: str = ""

    @property
    def on(self) -> bool:
        """Whether there is anything to publish."""
        return self.enable_kv_cache_events and self.publisher == "zmq"

    @property
    def binds(self) -> bool:
        """Whether the engine binds the endpoint, by vLLM's rule."""
        return "*" in self.endpoint or "::" in self.endpoint or self.endpoint.startswith(("ipc://", "inproc://"))


def parse_kv_events(text: str) -> KvEvents:
    """Read the JSON of `--kv-events-config`; UserError names the field that is wrong."""
    try:
        return msgspec.convert(msgspec.json.decode(text, type=dict), KvEvents)
    except msgspec.DecodeError as error:
        known = ", ".join(each.name for each in fields(KvEvents))
        raise UserError(f"--kv-events-config {text!r}: {error}; give a JSON object with fields of {known}") from None


class Publisher:
    """Sends the ledger's events; `endpoint` and `replay_endpoint` are where it can be reached."""

    def __init__(self, config: KvEvents, ledger: Ledger) -> None:
        self.config = config
        self.ledger = ledger
        self.stream = Stream(config.topic, config.buffer_steps)
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._socket: zmq.Socket[bytes] | None = None
        self._replay: zmq.asyncio.Socket | None = None
        self._answering: asyncio.Task[None] | None = None
        self.endpoint = config.endpoint
        self.replay_endpoint = config.replay_endpoint or ""

    def start(self) -> None:
        """Open the sockets; call it in the loop that the engine runs in."""
        config = self.config
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PUB)
        self._socket.set_hwm(config.hwm)
        self._socket.linger = 0
        self.endpoint = _open(self._socket, config.endpoint, config.binds)
        if config.replay_endpoint:
            self._replay = zmq.asyncio.Context(self._context).socket(zmq.ROUTER)
            self._replay.linger = 0
            self.replay_endpoint = _open(self._replay, config.replay_endpoint, True)
            self._answering = asyncio.get_running_loop().create_task(self._answer(self._replay))

    def flush(self) -> None:
        """Send what has happened since the last call, as one batch."""
        if self.ledger.events and self._socket is not None:
            self._socket.send_multipart(self.stream.frames(self.ledger.take(), time.time()))

    async def stop(self) -> None:
        """Close the sockets."""
        if self._answering is not None:
            self._answering.cancel()
            await asyncio.gather(self._answering, return_exceptions=True)
        for socket in (self._socket, self._replay):
            if socket is not None:
                socket.close(linger=0)
        if self._context is not None:
            self._context.term()
        self._socket = self._replay = self._context = None

    async def _answer(self, socket: zmq.asyncio.Socket) -> None:
        while True:
            for answer in self.stream.replay(await socket.recv_multipart()):
                await socket.send_multipart(answer)


def _open(socket: zmq.Socket[bytes] | zmq.asyncio.Socket, endpoint: str, bind: bool) -> str:
    """Bind or connect; the endpoint as it is then (a wildcard port has become a number)."""
    try:
        if not bind:
            socket.connect(endpoint)
            return endpoint
        socket.bind(endpoint)
        return str(socket.getsockopt_string(zmq.LAST_ENDPOINT))
    except zmq.ZMQError as error:
        verb = "bound" if bind else "connected to"
        raise UserError(f"--kv-events-config: {endpoint} cannot be {verb} ({error}); give another endpoint") from None
