"""`poise engine`: one emulated engine until SIGINT or SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import sys

from poise.core.errors import UserError
from poise.core.policy import Bundle
from poise.live.emulator.emulated import Emulated
from poise.live.emulator.options import Options
from poise.live.http import loop

GRACE_S = 5.0
"""Seconds that running answers have left after SIGTERM."""


def run(options: Options, policies: Bundle) -> int:
    """Serve until SIGINT or SIGTERM, then drain; returns the exit code. UserError for options that contradict."""
    engine = Emulated(options, policies)
    loop.run(_serve(engine))
    return 0


async def _serve(engine: Emulated) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        await engine.start()
    except OSError as error:
        options = engine.plan.options
        raise UserError(
            f"--port {options.port} on {options.host} cannot be listened at ({error.strerror or error}); "
            f"give another one, or 0 for any that is free"
        ) from None
    print(_story(engine), file=sys.stderr, flush=True)
    await stop.wait()
    await engine.stop(GRACE_S)


def _story(engine: Emulated) -> str:
    """The line printed at the start: model, device and URL."""
    plan = engine.plan
    options = plan.options
    parts = [
        f"{plan.name} on {options.tensor_parallel_size} × {plan.pool.device.name} emulated at {engine.url}",
        f"{plan.blocks} KV blocks of {options.block_size} tokens",
        f"up to {plan.context} tokens a request",
    ]
    if options.speed != 1:
        parts.append(f"{options.speed:g} times as fast as real")
    if engine.kv_endpoint:
        parts.append(f"KV events at {engine.kv_endpoint}")
    if options.faults:
        parts.append("faults at /fault")
    return "; ".join(parts)
