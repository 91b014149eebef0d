"""The admin port's server: the page and its data, metrics, health, and draining engines."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from secrets import token_urlsafe
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from poise.live.admin.decision_dict import as_dict
from poise.live.admin.decisions import KEPT, Receipts
from poise.live.admin.feed import BEAT_S, Feed
from poise.live.admin.guard import Guard, Refusal
from poise.live.admin.html import page
from poise.live.admin.merge import Json
from poise.live.admin.recent import STEP_S, Recent, totals
from poise.live.admin.resolved import resolved
from poise.live.admin.snapshot import snapshot
from poise.live.clock import now
from poise.live.gateway.fleet import DRAINING, Engine, EngineAt
from poise.live.gateway.gateway import Gateway
from poise.live.http.exchange import Exchange
from poise.live.http.limits import Limits
from poise.live.http.refuse import openai
from poise.live.http.server import Server

Headers = tuple[tuple[bytes, bytes], ...]

SAFE: Final[Headers] = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)
"""Sent with every answer; there is no CORS header, so scripts of other sites cannot read answers."""
POLICY: Final = (
    "default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
LIMITS: Final = Limits(body_bytes=4096, connections=256, read_s=10.0, write_buffer_bytes=262_144)
"""A browser that does not read for `read_s` is disconnected."""
PROMETHEUS: Final = b"text/plain; version=0.0.4; charset=utf-8"


class Admin:
    """The server of the admin port, separate from the gateway's own.

    token: what clients must show, but for the empty page, `/health` and `/ready`; empty for none.
    hosts: names by which it may be called, besides `localhost` and addresses.
    """

    def __init__(
        self,
        gateway: Gateway,
        token: str = "",
        hosts: tuple[str, ...] = (),
        limits: Limits = LIMITS,
        step_s: float = STEP_S,
    ) -> None:
        self._gateway = gateway
        self._guard = Guard(token, hosts)
        self._began = now()
        self._recent = Recent(self._totals(), step_s)
        self._drained: dict[str, EngineAt] = {}
        self._timers: dict[Callable[[], None], asyncio.TimerHandle] = {}
        self.receipts = Receipts(gateway.world)
        self.feed = Feed(self.state, self.decided, self._turned)
        self.server = Server(self.receive, limits)
        self._get: dict[str, Callable[[Exchange], None]] = {
            "/events": self._events,
            "/metrics": self._metrics,
            "/state": lambda exchange: self._json(exchange, self.state()),
            "/decisions": self._decisions,
            "/config": lambda exchange: self._json(exchange, resolved(gateway)),
        }
        self._open: dict[str, Callable[[Exchange], None]] = {
            "/": self._page,
            "/health": lambda exchange: self._json(exchange, {"ok": True}),
            "/healthz": lambda exchange: self._json(exchange, {"ok": True}),
            "/ready": self._ready,
            "/readyz": self._ready,
        }
        self._post: dict[str, Callable[[str], tuple[int, str]]] = {"drain": self.drain, "undrain": self.undrain}

    async def start(self, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> int:
        """Listen; returns the port."""
        self._every(self._recent.step_s, self._step)
        return await self.server.listen(host, port, tls)

    async def stop(self, grace_s: float = 1.0) -> None:
        """End the event streams, and close."""
        self.feed.close()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        await self.server.drain(grace_s)

    # State -----------------------------------------------------------------------------------------------------------

    def state(self) -> Json:
        """The gateway's current state."""
        state = snapshot(self._gateway, self._recent, self._began, now())
        state["drained"] = sorted(self._drained)
        return state

    def decided(self, number: int, most: int) -> tuple[int, list[Json]]:
        """The number of the last decision, and the newest of those after `number`, `most` of them at most."""
        receipts, models = self.receipts, self._gateway.api.models.listed()
        rows = receipts.since(number)[-most:] if most else []
        return receipts.count, [as_dict(each, models, self._began) for each in rows]

    def _totals(self) -> Any:
        world = self._gateway.world
        return totals(now(), self._gateway.stats.engines.values(), world.proxied_requests.values())

    def _step(self) -> None:
        self._gateway.stats.review()
        self._recent.mark(self._totals())

    def _beat(self) -> None:
        self.receipts.open()
        self.feed.beat()

    def _turned(self, on: bool) -> None:
        """The first page opened, or the last one closed."""
        if on:
            self.receipts.open()
            self._every(BEAT_S, self._beat)
        else:
            self.receipts.close()
            self._timers.pop(self._beat).cancel()

    def _every(self, period_s: float, act: Callable[[], None]) -> None:
        """Call it every so often, until its timer is cancelled."""
        loop = asyncio.get_running_loop()

        def ring() -> None:
            self._timers[act] = loop.call_later(period_s, ring)
            act()

        self._timers[act] = loop.call_later(period_s, ring)

    # Requests --------------------------------------------------------------------------------------------------------

    def receive(self, exchange: Exchange) -> None:
        """Answer one request."""
        refusal = self._guard.called_rightly(exchange)
        if refusal is not None:
            self._refuse(exchange, refusal)
        elif exchange.method == "POST":
            self._change(exchange)
        elif exchange.method not in ("GET", "HEAD"):
            self._refuse(exchange, Refusal(405, "the admin port takes GET, and POST to /drain and /undrain"))
        elif exchange.path in self._open:
            self._open[exchange.path](exchange)
        else:
            refusal = self._guard.known(exchange)
            answer = self._get.get(exchange.path)
            if refusal is not None:
                self._refuse(exchange, refusal)
            elif answer is None:
                self._refuse(exchange, Refusal(404, f"there is no such page; there are: {', '.join(self._get)}"))
            else:
                answer(exchange)

    def _page(self, exchange: Exchange) -> None:
        nonce = token_urlsafe(16)
        policy = POLICY.format(nonce).encode()
        body = page(nonce, self._guard.has_token).encode()
        self._answer(exchange, body, b"text/html; charset=utf-8", ((b"content-security-policy", policy),))

    def _events(self, exchange: Exchange) -> None:
        if exchange.method == "HEAD":
            self._refuse(exchange, Refusal(405, "/events takes GET only"))
        elif not self.feed.join(exchange, SAFE):
            self._refuse(exchange, Refusal(503, "too many pages are open; close some"))

    def _metrics(self, exchange: Exchange) -> None:
        """Answer with Prometheus' page, one slice of it in each turn of the loop, so that no request waits for it."""
        loop, slices = asyncio.get_running_loop(), self._gateway.stats.page()
        made: list[bytes] = []
        left: list[bool] = []

        def more() -> None:
            piece = next(slices, None)
            if left:
                return
            if piece is None:
                self._answer(exchange, b"".join(made), PROMETHEUS)
            else:
                made.append(piece)
                loop.call_soon(more)

        exchange.gone = lambda: left.append(True)
        more()

    def _decisions(self, exchange: Exchange) -> None:
        given = parse_qs(exchange.query).get("n", ["50"])[-1]
        if not (given.isascii() and given.isdigit() and 0 < int(given[:9]) <= KEPT):
            self._refuse(exchange, Refusal(400, f"n must be a number from 1 to {KEPT}"))
            return
        count, rows = self.decided(0, int(given))
        self._json(exchange, {"count": count, "decisions": rows})

    def _ready(self, exchange: Exchange) -> None:
        gateway = self._gateway
        serving = len(gateway.world.fleet.serving)
        ready = serving > 0 and not gateway.draining
        self._json(exchange, {"ready": ready, "engines": serving}, 200 if ready else 503)

    # Changes ---------------------------------------------------------------------------------------------------------

    def _change(self, exchange: Exchange) -> None:
        refusal = self._guard.may_change(exchange)
        verb, _, name = exchange.path.removeprefix("/").partition("/")
        act = self._post.get(verb)
        if refusal is not None:
            self._refuse(exchange, refusal)
        elif act is None or not name:
            self._refuse(exchange, Refusal(404, "POST goes to /drain/NAME or /undrain/NAME"))
        else:
            status, state = act(name)
            if status == 200:
                self._json(exchange, {"engine": name, "state": state})
            else:
                self._refuse(exchange, Refusal(status, state))

    def drain(self, name: str) -> tuple[int, str]:
        """Drain an engine: it gets no new requests, then leaves; 200 and its state, or another status and why not."""
        engine = self._named(name)
        if engine is None:
            return (200, "drained") if name in self._drained else (404, f"there is no engine {name}")
        self._drained[name] = engine.at
        self._gateway.prober.remove(engine)
        return 200, "draining"

    def undrain(self, name: str) -> tuple[int, str]:
        """Return a drained engine to service."""
        engine, at = self._named(name), self._drained.get(name)
        if at is None:
            return 404, f"engine {name} was not drained here"
        if engine is not None:
            self._gateway.prober.keep(engine)
        elif self._gateway.prober.add(at) is None:
            return 409, "no slot is left for it; drain another, or start the gateway with more `slots`"
        del self._drained[name]
        return 200, "serving" if engine is not None else "starting"

    def _named(self, name: str) -> Engine | None:
        """The engine of that name; of several, one that does not leave."""
        found = [engine for engine in self._gateway.world.fleet if engine.name == name]
        return min(found, key=lambda engine: engine.status == DRAINING, default=None)

    # Answers ---------------------------------------------------------------------------------------------------------

    def _answer(self, exchange: Exchange, body: bytes, kind: bytes, headers: Headers = (), status: int = 200) -> None:
        exchange.answer(status, body, kind, [*SAFE, *headers])

    def _json(self, exchange: Exchange, body: object, status: int = 200) -> None:
        self._answer(exchange, msgspec.json.encode(body), b"application/json", status=status)

    def _refuse(self, exchange: Exchange, refusal: Refusal) -> None:
        body = openai(refusal.status, refusal.reason)
        self._answer(exchange, body, b"application/json", refusal.headers, refusal.status)
