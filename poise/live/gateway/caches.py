"""KV events of the engines, applied to the prefix index that `Control` uses."""

from __future__ import annotations

import asyncio
import logging

import zmq.asyncio

from poise.core.event import CacheChanged
from poise.live.gateway.fleet import Engine
from poise.live.gateway.world import World
from poise.live.telemetry.kv_events import Change
from poise.live.telemetry.kv_socket import EventSource, Subscriber

log = logging.getLogger("poise.gateway")


class Caches:
    """Follows every engine that publishes KV events.

    bind: an endpoint that engines connect to, each under its own topic; the gateway connects to the others, one by one.
    """

    def __init__(self, world: World, bind: str = "") -> None:
        self._world = world
        self._bind = bind
        self._context: zmq.asyncio.Context | None = None
        self._followed: dict[str, Subscriber] = {}
        self._engines: dict[int, Engine] = {}
        self._stopping: set[asyncio.Task[None]] = set()

    def add(self, engine: Engine) -> None:
        """Follow an engine from now on, if it publishes; UserError where that is not possible."""
        at = engine.at
        if not at.kv_events:
            return
        source = EventSource(engine.slot, at.kv_topic, at.kv_replay)
        follower = self._followed.get(at.kv_events)
        if follower is not None:
            follower.add(source)
        else:
            if self._context is None:
                self._context = zmq.asyncio.Context()
            bind = at.kv_events == self._bind
            follower = Subscriber(self._context, at.kv_events, bind, [source], self._changed)
            follower.start()
            self._followed[at.kv_events] = follower
        self._engines[engine.slot] = engine

    def lost(self, engine: Engine) -> None:
        """An engine has left: drop what it held from the index."""
        if self._engines.get(engine.slot) is engine:  # not one that had the slot before
            self._followed[engine.at.kv_events].lost(engine.slot)

    def remove(self, engine: Engine) -> None:
        """Stop following an engine."""
        if self._engines.get(engine.slot) is not engine:
            return
        del self._engines[engine.slot]
        endpoint = engine.at.kv_events
        follower = self._followed[endpoint]
        follower.remove(engine.slot)
        if not follower.feeds and endpoint != self._bind:  # what is bound stays for engines to come
            del self._followed[endpoint]
            task = asyncio.get_running_loop().create_task(follower.stop())
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)

    async def close(self) -> None:
        """Stop following all engines."""
        for endpoint in list(self._followed):
            await self._followed.pop(endpoint).stop()
        if self._stopping:
            await asyncio.gather(*self._stopping)
        if self._context is not None:
            self._context.term()

    def _changed(self, slot: int, change: Change) -> None:
        world = self._world
        world.turn(CacheChanged(world.clock(), slot, change.entered, change.left, change.cleared))

    def followed(self) -> dict[int, tuple[str, dict[str, int]]]:
        """By slot: the engine, and counters of its KV event stream."""
        return {
            source.engine: (follower.feeds[topic].sync.value, dict(follower.feeds[topic].counts))
            for follower in self._followed.values()
            for topic, source in follower.sources.items()
        }
