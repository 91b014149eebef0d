"""What happens during `poise demo-live`, in lines: engines that die and come back, and queues at the gateway."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable

from poise.core.action import Action
from poise.core.event import Event, Failed, Refused
from poise.live.clock import now
from poise.live.gateway.fleet import DOWN, SERVING, Engine
from poise.live.gateway.gateway import Gateway
from poise.report.wording import duration
from poise.scenario.serve.demo_engines import DemoEngine

STEP_S = 0.05
"""Seconds between two looks."""

NOTICED_S = 10.0
"""Seconds after which a death is reported, whether or not the gateway has noticed it."""

QUEUED = 5
"""Waiting requests that are called a queue."""


class News:
    """Counts what becomes of requests at engines that die, and says it.

    say: prints a line. It listens to the gateway from `listen` on.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._gateway: Gateway | None = None
        self._moved: defaultdict[int, set[int]] = defaultdict(set)
        self._cut: defaultdict[int, set[int]] = defaultdict(set)
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._started: dict[str, asyncio.Event] = {}
        self._watching: asyncio.Task[None] | None = None

    def listen(self, gateway: Gateway) -> None:
        """Follow the events of a gateway, which go on to its recorder."""
        self._gateway = gateway
        world, keep = gateway.world, gateway.world.keep

        def heard(what: Event | Action) -> None:
            self.hear(what)
            if keep is not None:
                keep(what)

        world.keep = heard
        self._watching = asyncio.get_running_loop().create_task(self._queues(gateway))

    def hear(self, what: Event | Action) -> None:
        """One event: a request that another engine may take, or one whose answer broke off."""
        if type(what) is Refused and what.again:
            self._moved[what.replica].add(what.request)
        elif type(what) is Failed:
            self._cut[what.replica].add(what.request)

    def stop(self) -> None:
        """Say no more."""
        for task in (*self._lives.values(), *([self._watching] if self._watching else [])):
            task.cancel()

    def died(self, engine: DemoEngine) -> None:
        """The process of an engine died."""
        self._say(f"engine {engine.name} died (PID {engine.process.pid})")
        if (before := self._lives.get(engine.name)) is not None:
            before.cancel()
        started = self._started[engine.name] = asyncio.Event()
        self._lives[engine.name] = asyncio.get_running_loop().create_task(self._follow(engine, started))

    def started(self, engine: DemoEngine) -> None:
        """Its next process listens."""
        self._started[engine.name].set()

    async def _follow(self, engine: DemoEngine, started: asyncio.Event) -> None:
        """From an engine's death to its return, one line after the other."""
        assert self._gateway is not None
        there = next((each for each in self._gateway.world.fleet if each.name == engine.name), None)
        if there is not None:
            await self._death(engine, there, started)
        await started.wait()
        self._say(f"engine {engine.name} was started again: PID {engine.process.pid}, its cache is empty")
        if there is not None:
            await self._return(engine, there)

    async def _death(self, engine: DemoEngine, there: Engine, started: asyncio.Event) -> None:
        """Say what became of the requests.

        It waits until the gateway has noticed the death and nothing is left there. A gateway that sends nothing to an
        engine before its next process listens never notices.
        """
        assert self._gateway is not None
        requests = self._gateway.world.control.state.requests
        left = int(NOTICED_S / STEP_S)
        while left and not started.is_set() and (there.status != DOWN or requests[there.slot]):
            left -= 1
            await asyncio.sleep(STEP_S)
        cut = self._cut.pop(there.slot, set())
        moved = self._moved.pop(there.slot, set()) - cut
        self._say(
            f"engine {engine.name}: {_count(len(moved), 'request')} moved to other engines before a first byte, "
            f"{_count(len(cut), 'answer')} cut in the middle"
        )

    async def _return(self, engine: DemoEngine, there: Engine) -> None:
        while there.status != SERVING:
            await asyncio.sleep(STEP_S)
        self._moved.pop(there.slot, None)
        self._cut.pop(there.slot, None)
        self._say(f"engine {engine.name} is back and takes requests; kill it again with: kill -9 {engine.process.pid}")

    async def _queues(self, gateway: Gateway) -> None:
        """Say when requests begin to wait at the gateway, and when none waits any more."""
        held = gateway.world.control.held
        while True:
            while len(held) < QUEUED:
                await asyncio.sleep(STEP_S)
            began, most = now(), len(held)
            self._say("overload: requests wait at the gateway (the tile Held, and TTFT)")
            while len(held):
                most = max(most, len(held))
                await asyncio.sleep(STEP_S)
            took = duration(round((now() - began) * 1e-12, 1))
            self._say(f"the queue is gone after {took}; at most {most} requests waited")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
