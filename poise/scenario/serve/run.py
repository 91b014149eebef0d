"""Serving until a signal: the gateway, its watchers, and signal handling."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from poise.live.admin.server import Admin
from poise.live.clock import now
from poise.live.discovery.engines import Diff
from poise.live.discovery.watch import watch_file, watch_name
from poise.live.gateway.gateway import Gateway
from poise.scenario.serve.build import Plan, admin_of, gateway_of, record, traces_of
from poise.scenario.serve.envoy import open_envoy
from poise.scenario.serve.reload import Reload
from poise.scenario.serve.roll import Roll
from poise.scenario.serve.sharing import Worker, follow_name, open_mesh

RARELY = (50_000, 20, 50)
"""The garbage collector's thresholds: requests leave no cycles, so that searching for them is wasted work."""

ORPHAN_S = 1.0
"""Seconds between two looks at whether the first process is still there."""

log = logging.getLogger("poise.gateway")


async def run(
    plan: Plan,
    ready: Callable[[Gateway, int, int], None],
    reread: Callable[[Plan], Plan],
    worker: Worker | None = None,
) -> bool:
    """Serve until SIGTERM or SIGINT; returns whether all running answers ended in time.

    ready: called with the gateway, its port and that of its page (0: none) once both listen.
    reread: reads the gateway file again, on SIGHUP, given the current plan.
    worker: which of several processes this one is; None where there is one.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    gateway = gateway_of(plan)
    roll = Roll(gateway)
    reload = Reload(plan, gateway, roll, reread)
    loop.add_signal_handler(signal.SIGHUP, reload.now)
    tasks: list[asyncio.Task[None]] = []
    admin, traces, front = admin_of(plan, gateway), traces_of(plan, gateway), None
    try:
        port = await _open(plan, gateway, worker)
        mesh = await open_mesh(plan.sharing, gateway, worker, plan.loaded)
        roll.list(plan.engines)
        record(plan, gateway, now(), worker)  # before anything can happen to the engines just listed
        front = await open_envoy(plan, gateway)
        tasks = [loop.create_task(work) for work in _watching(plan, roll)]
        if mesh is not None and plan.sharing is not None and plan.sharing.name is not None:
            tasks.append(loop.create_task(follow_name(plan.sharing, mesh, worker)))
        if worker is not None:
            tasks.append(loop.create_task(_orphaned(worker, stopping)))
        page = await _open_page(plan, admin, worker) if admin is not None else 0
        gc.freeze()
        gc.set_threshold(*RARELY)
        ready(gateway, port, page)
        await stopping.wait()
        log.info("stopping: answers under way have %g s", reload.drain_s)
    finally:
        for task in tasks:
            task.cancel()
        if front is not None:
            await front.stop(reload.drain_s)
        in_time = await gateway.stop(reload.drain_s)
        if admin is not None:
            await admin.stop()
        if traces is not None:
            traces.close()
    return in_time


async def _open(plan: Plan, gateway: Gateway, worker: Worker | None) -> int:
    """Listen; UserError where that is not allowed."""
    listen = plan.loaded.gateway.listen
    port = listen.port if worker is None else worker.port
    try:
        return await gateway.start(listen.host, port, plan.tls, several=worker is not None)
    except OSError as error:
        text = f"{listen.host}:{listen.port} cannot be listened on ({error.strerror or error})"
        raise plan.loaded.places.error(("listen", "port"), f"{text}; choose another port or address") from None


async def _open_page(plan: Plan, admin: Admin, worker: Worker | None) -> int:
    """Listen for the page, each worker on the next port; UserError where that is not allowed."""
    section = plan.loaded.gateway.admin
    port = section.port or 0
    if worker is not None and port:
        port += worker.number
    try:
        return await admin.start(section.host, port)
    except OSError as error:
        text = f"{section.host}:{port} cannot be listened on ({error.strerror or error})"
        cure = "choose another port, or null for no page"
        raise plan.loaded.places.error(("admin", "port"), f"{text}; {cure}") from None


async def _orphaned(worker: Worker, stopping: asyncio.Event) -> None:
    """Stop when the process that started this one is gone: none would pass signals on."""
    while os.getppid() == worker.parent:
        await asyncio.sleep(ORPHAN_S)
    log.error("the process that started worker %d is gone; it stops", worker.number)
    stopping.set()


def _watching(plan: Plan, roll: Roll) -> Iterator[Coroutine[Any, Any, None]]:
    """The tasks that look for engines as long as the gateway serves."""
    period = plan.loaded.gateway.discover.period_s
    if plan.watched is not None:
        roll.change(Diff(added=tuple(plan.watched.engines.values())))
        yield watch_file(plan.watched, roll.change, period)
    if plan.named is not None:
        place, name = plan.named
        yield watch_name(name, place.host, place.port, roll.change, period)
