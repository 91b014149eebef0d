"""The engines' own word on their caches: KV events into the prefix index that control believes."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict

import zmq.asyncio

from poise.core.event import CacheChanged
from poise.live.gateway.fleet import Engine
from poise.live.gateway.world import World
from poise.live.know.kv_events import Change
from poise.live.know.kv_socket import Source, Subscriber

log = logging.getLogger("poise.gateway")


class Caches:
    """Follows every engine that publishes KV events.

    bind: an endpoint that engines connect to, each under its own topic; the others are connected to, one by one.
    """

    def __init__(self, world: World, bind: str = "") -> None:
        self._world = world
        self._bind = bind
        self._context: zmq.asyncio.Context | None = None
        self._followed: dict[str, Subscriber] = {}
        self._engines: dict[int, Engine] = {}
        self._changes: set[asyncio.Task[None]] = set()

    def add(self, engine: Engine) -> None:
        """Follow an engine from now on, if it publishes."""
        if engine.at.kv_events:
            self._engines[engine.slot] = engine
            self._again(engine.at.kv_events)

    def lost(self, engine: Engine) -> None:
        """An engine is gone: what it held is not believed any more."""
        follower = self._followed.get(engine.at.kv_events)
        if follower is not None:
            follower.lost(engine.slot)

    def remove(self, engine: Engine) -> None:
        """Follow an engine no longer."""
        if self._engines.pop(engine.slot, None) is not None:
            self._again(engine.at.kv_events)

    async def close(self) -> None:
        """Follow nobody."""
        for endpoint in list(self._followed):
            await self._followed.pop(endpoint).stop()
        if self._changes:
            await asyncio.gather(*self._changes)
        if self._context is not None:
            self._context.term()

    def _again(self, endpoint: str) -> None:
        """Follow those who publish at an endpoint now; what is known of the others there is asked for anew."""
        task = asyncio.get_running_loop().create_task(self._replace(endpoint))
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)

    async def _replace(self, endpoint: str) -> None:
        before = self._followed.pop(endpoint, None)
        if before is not None:
            await before.stop()
        by_topic: dict[str, Engine] = {}
        for engine in self._engines.values():
            if engine.at.kv_events == endpoint:
                by_topic[engine.at.kv_topic] = engine
        if not by_topic:
            return
        if self._context is None:
            self._context = zmq.asyncio.Context()
        sources = [Source(engine.slot, topic, engine.at.kv_replay) for topic, engine in by_topic.items()]
        follower = Subscriber(self._context, endpoint, endpoint == self._bind, sources, self._changed)
        self._followed[endpoint] = follower
        follower.start()

    def _changed(self, slot: int, change: Change) -> None:
        world = self._world
        world.turn(CacheChanged(world.clock(), slot, change.entered, change.left, change.cleared))

    def followed(self) -> dict[int, tuple[str, dict[str, int]]]:
        """How far the events of each engine are followed, and what befell them, by slot."""
        return {
            source.engine: (follower.feeds[topic].sync.value, dict(follower.feeds[topic].counts))
            for follower in self._followed.values()
            for topic, source in follower.sources.items()
        }

    def counts(self) -> dict[str, dict[str, int]]:
        """What befell the events, by engine."""
        told: dict[str, dict[str, int]] = defaultdict(dict)
        for follower in self._followed.values():
            for topic, source in follower.sources.items():
                told[self._engines[source.engine].name] = dict(follower.feeds[topic].counts)
        return told
