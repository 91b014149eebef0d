"""A gateway before emulated engines, over real sockets in one loop; and clients that note how each request ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from poise.core.control.control import Control
from poise.core.policy import Admission, Hedger, Order, Router, Scaler
from poise.core.records.trace import Trace
from poise.core.spec import Belief, PoolSpec, ReplicaSpec
from poise.live.discovery.address import engine as place
from poise.live.emulator.emulated import Emulated
from poise.live.emulator.options import Options
from poise.live.gateway.fleet import EngineAt
from poise.live.gateway.gateway import Gateway
from poise.live.gateway.settings import Settings
from poise.live.http.call import Address, Call, Failure
from poise.live.http.limits import PoolLimits
from poise.live.http.pool import Pool
from poise.live.telemetry.poll import Every
from poise.policies import Policies
from poise.policies.route.least_requests import LeastRequests
from tests.patience import PATIENCE_S, turns, until

MODEL = "llama-3.1-8b"


class Answer:
    """How one request ended for its client: `heard` it as `Pool.send` tells."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self.chunks: list[bytes] = []
        self.why: Failure | None = None
        self.complete = False
        self.over = asyncio.Event()
        self.began = asyncio.Event()
        self.call: Call | None = None

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        assert not self.over.is_set() and not self.status, "an answer begins once"
        self.status, self.headers = status, dict(headers)

    def data(self, data: bytes) -> None:
        assert not self.over.is_set()
        self.body += data
        self.chunks.append(data)
        self.began.set()

    def end(self) -> None:
        assert not self.over.is_set(), "an answer ends once"
        self.complete = True
        self.over.set()
        self.began.set()

    def failed(self, why: Failure) -> None:
        assert not self.over.is_set(), "an answer ends once"
        self.why = why
        self.over.set()
        self.began.set()

    async def wait(self) -> Answer:
        async with asyncio.timeout(PATIENCE_S):
            await self.over.wait()
        return self

    @property
    def whole(self) -> bool:
        """A full answer: complete, and a stream with its last event."""
        streamed = self.headers.get(b"content-type", b"").startswith(b"text/event-stream")
        return self.complete and self.status == 200 and (not streamed or b"data: [DONE]" in self.body)

    @property
    def error(self) -> str:
        """The clear error that it ended with, empty for none: an error's status and body, or a stream's last event."""
        if self.complete and self.status >= 400:
            return str(json.loads(self.body)["error"]["message"])
        if b'data: {"error":' in self.body:
            return self.body.rpartition(b'data: {"error":')[2].decode()
        return "" if self.complete else str(self.why)


class Live:
    """Engines, gateway and a client's connections.

    engines: how many, or their options.  speed: of the engines' clock.  hints: whether engines are told how long to
    keep KV.  settle: wait until all engines have joined.
    """

    until = staticmethod(until)

    def __init__(
        self,
        engines: int | Sequence[Options] = 2,
        router: Router | None = None,
        *,
        order: Order | None = None,
        admission: Sequence[Admission] = (),
        hedge: Hedger | None = None,
        speed: float = 20.0,
        tries: int = 3,
        settings: Settings | None = None,
        belief: Belief | None = None,
        period_s: float = 0.05,
        build: Callable[..., Gateway] = Gateway,
        scaler: Scaler | None = None,
        pools: Sequence[PoolSpec] = (),
        hints: bool = False,
        **given: Any,
    ) -> None:
        options = [Options(MODEL, port=0, speed=speed, faults=True)] * engines if isinstance(engines, int) else engines
        self.engines = [Emulated(each, Policies()) for each in options]
        slots = [ReplicaSpec(up=False)] * (len(self.engines) + 1)
        self.control = Control(
            Policies(router=router or LeastRequests(), order=order, admission=admission, hedge=hedge, scaler=scaler),
            slots,
            tries=tries,
            resume=False,
            belief=belief,
            pools=pools,
        )
        self.settings = settings or Settings(
            held_s=10, engines=PoolLimits(connect_s=30, head_s=30, stall_s=30, idle_s=2.0)
        )
        self._build = build
        self._hints = hints
        self._given = {"every": Every(period_s, 0.5), **given}
        self.trace = Trace()

    async def __aenter__(self) -> Self:
        for engine in self.engines:
            await engine.start()
        self.gateway = self._build(self.control, self.settings, **self._given)
        self.gateway.world.keep = self.trace.add
        self.port = await self.gateway.start("127.0.0.1", 0)
        for number, engine in enumerate(self.engines):
            events = engine.plan.options.kv_events_config
            topic = events.topic if events is not None else ""
            where = place(engine.url, "test", f"e{number}")
            at = EngineAt(where, kv_events=engine.kv_endpoint, kv_topic=topic, hints=self._hints)
            self.gateway.prober.add(at)
        self.pool = Pool(Address("127.0.0.1", self.port), PoolLimits(idle=1000, head_s=0, stall_s=0))
        await self.until(lambda: len(self.gateway.world.fleet.serving) == len(self.engines))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.pool.close()
        await self.gateway.stop(1.0)
        for engine in self.engines:
            await engine.stop()
        await turns(5)  # connections that were being opened or accepted when their listener closed

    def ask(
        self,
        prompt: str = "Once upon a time",
        tokens: int = 8,
        *,
        stream: bool = True,
        path: bytes = b"/v1/completions",
        headers: Sequence[tuple[bytes, bytes]] = (),
        **given: Any,
    ) -> Answer:
        """Send a request; `given` are further fields of its body."""
        body = {"model": MODEL, "prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "stream": stream, **given}
        return self.send(b"POST", path, json.dumps(body).encode(), headers)

    def send(
        self, method: bytes, path: bytes, body: bytes = b"", headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> Answer:
        answer = Answer()
        sent = [(b"content-type", b"application/json"), *headers]
        answer.call = self.pool.send(method, path, sent, body, answer)
        return answer

    async def check_balance(self) -> None:
        """Nothing is left of any request: not at the gateway, not in the books, not in any engine."""
        world, control = self.gateway.world, self.control
        await self.until(lambda: not world.proxied_requests and not self.gateway.server.open)
        left = control.flights, list(control.held), control.tried
        assert not any(left), left
        assert not any(control.state.requests), control.state.requests
        for engine in self.engines:
            replica = engine.replica
            await self.until(lambda r=replica: r.closed or not (r.sequences or r.running))  # type: ignore[misc]
