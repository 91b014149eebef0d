"""`poise demo-live`: a gateway in front of four emulated engines, traffic until Ctrl-C, its page, and its recording."""

from __future__ import annotations

import asyncio
import signal
import webbrowser
from collections.abc import Callable, Sequence
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
from poise.scenario.serve.demo_engines import AGAIN_S, STARTED_S, DemoEngine, DemoEngines
from poise.scenario.serve.demo_news import News
from poise.scenario.serve.load import load_gateway
from poise.scenario.serve.roll import Roll
from poise.workload import diurnal, lognormal, shared_prefixes
from poise.workload.turns import sessions

if TYPE_CHECKING:
    from poise.workload import Workload

ENGINES = 4
MODEL, DEVICE = "llama-3.1-8b", "L4"
SLOTS = 16
"""Requests that an engine runs at once; the gateway sends it no more, so a queue forms where the page shows it."""

MINUTE = ((0.0, 1.2), (25.0, 1.2), (27.0, 8.0), (37.0, 8.0), (39.0, 1.2), (60.0, 1.2))
"""Sessions that begin per second, over a minute that comes again and again: calm, ten seconds of overload, calm."""

LONGEST_S = 6 * 3600.0
"""Seconds of traffic that are generated when no end is given."""


@dataclass(frozen=True, slots=True)
class LiveDemo:
    """The result of the demonstration. page: URL of the page.  recording: its path.

    interrupted: it was ended before the seconds that were asked for.
    """

    ended: Ended
    page: str
    recording: Path
    hits: float
    interrupted: bool


def traffic(seconds: float) -> Workload:
    """Chats of a few turns after one of six system prompts: the use case of prefix routing."""
    starts = diurnal(
        MINUTE, repeat=True, duration_s=seconds, prompt_tokens=lognormal(300, 0.6), output_tokens=lognormal(80, 0.7)
    )
    prompts = shared_prefixes(starts, groups=6, prefix_tokens=1200, seed=1)
    return sessions(prompts, turns=3, think_s=4.0, user_tokens=80, seed=1)


async def demo_live(
    out: Path,
    router: str,
    *,
    seconds: float | None = None,
    port: int = 8000,
    admin_port: int = 8001,
    opened: Callable[[str], Any] = webbrowser.open,
    say: Callable[[str], None] = print,
    again_s: float = AGAIN_S,
) -> LiveDemo:
    """Start engines and gateway, send traffic, and stop all on Ctrl-C, or after traffic of so many seconds."""
    out.mkdir(parents=True, exist_ok=True)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    news = News(say)
    options = ["--model", MODEL, "--device", DEVICE, "--max-num-seqs", str(SLOTS), "--faults"]
    async with DemoEngines(ENGINES, options, died=news.died, started=news.started, again_s=again_s) as engines:
        planned = _planned([engine.url for engine in engines.engines], router, out, port, admin_port)
        gateway = gateway_of(planned)
        admin = admin_of(planned, gateway)
        assert admin is not None
        try:
            at, page = await _open(planned, gateway, admin)
            news.listen(gateway)
            for line in invitation(at, page, engines.engines, seconds):
                say(line)
            opened(page)
            sending = Traffic(traffic(LONGEST_S if seconds is None else seconds), Address("127.0.0.1", at), MODEL)
            running = loop.create_task(sending.run())
            stop = loop.create_task(stopping.wait())
            await asyncio.wait([running, stop], return_when=asyncio.FIRST_COMPLETED)
            interrupted, hits = not running.done() and seconds is not None, _hits(gateway)
            news.stop()
            for task in (running, stop):
                task.cancel()
            await asyncio.gather(running, stop, return_exceptions=True)
        finally:
            news.stop()
            await gateway.stop(2.0)
            await admin.stop()
        assert gateway.recorder is not None
        return LiveDemo(sending.ended, page, gateway.recorder.path, hits, interrupted)


def invitation(port: int, page: str, engines: Sequence[DemoEngine], seconds: float | None) -> list[str]:
    """What there is to see, and what to try."""
    pid = engines[0].process.pid
    end = "stop with Ctrl-C" if seconds is None else f"ends after {seconds:g} s of traffic, or with Ctrl-C"
    return [
        f"The page:  {page}",
        f"Clients:   http://127.0.0.1:{port}/v1 (model {MODEL}), {len(engines)} emulated engines on {DEVICE} behind it",
        f"Try this:  kill -9 {pid}",
        f"           Engine {engines[0].name} turns to down on the page; its requests without a first byte move to",
        f"           other engines, answers that had begun are cut. It is started again after {AGAIN_S:g} s.",
        "Overload:  ten seconds of each minute; requests wait at the gateway, and the page shows the queue.",
        f"Now running; {end}.",
    ]


def _planned(urls: list[str], router: str, out: Path, port: int, admin_port: int) -> Plan:
    options: dict[tuple[str | int, ...], Any] = {
        ("engines",): [{"url": url, "model": MODEL, "device": DEVICE} for url in urls],
        ("policies", "router"): router,
        ("policies", "admission"): {"ceiling": {"requests": SLOTS}},
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
