"""`poise demo-live`: a gateway in front of four emulated engines, a minute of traffic, its page, and its recording."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import webbrowser
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from poise.core.errors import UserError
from poise.core.units import SECOND
from poise.live.admin.server import Admin
from poise.live.clock import now
from poise.live.gateway.gateway import Gateway
from poise.live.http.call import Address
from poise.live.traffic import ANSWERED, Ended, Traffic
from poise.scenario.serve.build import Plan, admin_of, gateway_of, plan, record
from poise.scenario.serve.load import load_gateway
from poise.scenario.serve.roll import Roll
from poise.workload import lognormal, poisson, shared_prefixes
from poise.workload.turns import sessions

if TYPE_CHECKING:
    from poise.workload import Workload

ENGINES = 4
MODEL, DEVICE = "llama-3.1-8b", "H100"
SECONDS = 60.0
STARTED_S = 30.0
"""Seconds in which an engine's process must start."""


@dataclass(frozen=True, slots=True)
class LiveDemo:
    """The result of the demonstration. page: URL of the page.  recording: its path."""

    ended: Ended
    page: str
    recording: Path
    hits: float
    interrupted: bool


def traffic(seconds: float = SECONDS) -> Workload:
    """Chats of a few turns after one of six system prompts: the use case of prefix routing."""
    starts = poisson(5.0, duration_s=seconds * 0.7, prompt_tokens=lognormal(300, 0.6), output_tokens=lognormal(80, 0.7))
    prompts = shared_prefixes(starts, groups=6, prefix_tokens=1200, seed=1)
    return sessions(prompts, turns=3, think_s=4.0, user_tokens=80, seed=1)


async def demo_live(
    out: Path,
    router: str,
    *,
    seconds: float = SECONDS,
    port: int = 8000,
    admin_port: int = 8001,
    opened: Callable[[str], Any] = webbrowser.open,
    told: Callable[[int, int], None] | None = None,
) -> LiveDemo:
    """Start engines and gateway, replay the traffic, and stop all; Ctrl-C ends it early."""
    out.mkdir(parents=True, exist_ok=True)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    async with _engines() as urls:
        planned = _planned(urls, router, out, port, admin_port)
        gateway = gateway_of(planned)
        admin = admin_of(planned, gateway)
        assert admin is not None
        try:
            at, page = await _open(planned, gateway, admin)
            print(f"poise: {ENGINES} emulated engines behind http://127.0.0.1:{at}/v1, the page at {page}", flush=True)
            opened(page)
            sending = Traffic(traffic(seconds), Address("127.0.0.1", at), MODEL, told=told)
            running = loop.create_task(sending.run())
            stop = loop.create_task(stopping.wait())
            await asyncio.wait([running, stop], return_when=asyncio.FIRST_COMPLETED)
            interrupted, hits = not running.done(), _hits(gateway)
            for task in (running, stop):
                task.cancel()
            await asyncio.gather(running, stop, return_exceptions=True)
        finally:
            await gateway.stop(2.0)
            await admin.stop()
        assert gateway.recorder is not None
        return LiveDemo(sending.ended, page, gateway.recorder.path, hits, interrupted)


def _planned(urls: list[str], router: str, out: Path, port: int, admin_port: int) -> Plan:
    options: dict[tuple[str | int, ...], Any] = {
        ("engines",): [{"url": url, "model": MODEL, "device": DEVICE} for url in urls],
        ("policies", "router"): router,
        ("listen", "port"): port,
        ("admin", "port"): admin_port,
        ("record", "file"): str((out / "day.jsonl").absolute()),
        ("limits", "drain_s"): 2,
    }
    return plan(load_gateway(None, (), [(path, value, "demo-live") for path, value in options.items()]))


async def _open(planned: Plan, gateway: Gateway, admin: Admin) -> tuple[int, str]:
    """Listen, wait for the engines to join; returns the port and the page."""
    section = planned.loaded.gateway
    try:
        at = await gateway.start(section.listen.host, section.listen.port)
        shown = await admin.start(section.admin.host, section.admin.port or 0)
    except OSError as error:
        cure = "give others by --port and --admin-port"
        raise UserError(f"ports {section.listen.port} and {section.admin.port}: {error.strerror}; {cure}") from None
    Roll(gateway).list(planned.engines)
    record(planned, gateway, now())
    async with asyncio.timeout(STARTED_S):
        while len(gateway.world.fleet.serving) < ENGINES:
            await asyncio.sleep(0.05)
    return at, f"http://127.0.0.1:{shown}/"


@contextlib.asynccontextmanager
async def _engines() -> AsyncIterator[list[str]]:
    """Emulated engines, each a process of its own, on ports that the system chooses."""
    flags = ["--model", MODEL, "--device", DEVICE, "--port", "0", "--faults"]
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-m", "poise", "engine", *flags,
            stderr=asyncio.subprocess.PIPE, start_new_session=True,
        )
        for _ in range(ENGINES)
    ]  # fmt: skip
    try:
        async with asyncio.timeout(STARTED_S):
            urls = [await _url(process) for process in processes]
        yield urls
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        await asyncio.gather(*(process.communicate() for process in processes))


async def _url(process: asyncio.subprocess.Process) -> str:
    """The port in an engine's first line."""
    assert process.stderr is not None
    line = (await process.stderr.readline()).decode()
    found = next((word.rstrip(";,") for word in line.split() if word.startswith("http://")), "")
    if not found:
        raise UserError(f"an emulated engine did not start: {line.strip() or 'it said nothing'}; try `poise engine`")
    return found


def _hits(gateway: Gateway) -> float:
    """Share of prompt tokens that the engines found cached, by their own counters."""
    found = [visit.reading.counters for visit in gateway.prober.visits.values() if visit.reading is not None]
    queries = sum(counters.get("prefix_queries", 0.0) for counters in found)
    return sum(counters.get("prefix_hits", 0.0) for counters in found) / queries if queries else 0.0


def summary(demo: LiveDemo, router: str) -> str:
    """The closing text."""
    ended = demo.ended
    whole = int((ended.how == ANSWERED).sum())
    sent = int((ended.sent_at >= 0).sum())
    lines = [f"{whole} of {sent} requests answered by {router}, {demo.hits:.0%} of prompt tokens found in caches"]
    if whole:
        low, high = np.percentile(ended.ttft_s, [50, 99])
        end = (ended.end_at - ended.sent_at)[ended.how == ANSWERED] / SECOND
        lines.append(f"TTFT p50 {low:.3f} s, p99 {high:.3f} s; end to end p50 {np.percentile(end, 50):.2f} s")
    lines.append(f"recorded in {demo.recording}; ask of it: poise whatif {demo.recording} --router round_robin")
    return "\n".join(lines)
