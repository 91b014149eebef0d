"""Clients and engines without sockets: what is written is kept, and the test says what comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from poise.core.control.control import Control
from poise.core.policy import Admission, Hedger, Order, Router
from poise.core.records.trace import Trace
from poise.core.spec import Belief, ReplicaSpec
from poise.live.discovery.address import Engine as Place
from poise.live.gateway.fleet import Engine, EngineAt
from poise.live.gateway.proxied_request import ProxiedRequest
from poise.live.gateway.settings import Settings
from poise.live.gateway.world import World
from poise.live.http.call import Address, Call, Failure, Kind, ResponseHandler
from poise.live.http.exchange import Exchange
from poise.live.http.pool import Pool
from poise.policies import Policies
from poise.policies.route.least_requests import LeastRequests

Headers = list[tuple[bytes, bytes]]
JSON: Headers = [(b"content-type", b"application/json")]
SSE: Headers = [(b"content-type", b"text/event-stream")]


class Wire:
    """A client's connection: what it was sent."""

    closing = False

    def __init__(self) -> None:
        self.sent = b""
        self.done = False
        self.was_cut = False

    def write(self, data: bytes) -> None:
        assert not self.done and not self.was_cut, "nothing follows the end"
        self.sent += data

    def soon(self, call: Callable[[], None]) -> None:
        pass

    def over(self) -> None:
        assert not self.done and not self.was_cut, "an answer ends once"
        self.done = True

    def cut(self, clean: bool) -> None:
        assert not self.done and not self.was_cut, "an answer ends once"
        self.was_cut = True

    def freed(self, size: int) -> None:
        pass

    @property
    def ended(self) -> bool:
        return self.done or self.was_cut

    @property
    def status(self) -> int:
        return int(self.sent.split(b" ", 2)[1])

    @property
    def body(self) -> bytes:
        return self.sent.partition(b"\r\n\r\n")[2]


class FakeCall(Call):
    def __init__(
        self, pool: FakePool, handler: ResponseHandler, target: bytes, headers: Headers, body: bytes, fresh: bool
    ) -> None:
        super().__init__(handler)
        self.fresh = fresh
        self.pool, self.target, self.headers, self.body = pool, target, headers, body
        self.cancelled = False

    def cancel(self) -> None:
        if not self.over:
            self.cancelled = self.over = True

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    # What the engine does

    def head(self, status: int = 200, headers: Headers = SSE) -> None:
        self.handler.head(status, headers)

    def data(self, data: bytes) -> None:
        self.handler.data(data)

    def end(self) -> None:
        self.over = True
        self.handler.end()

    def answer(self, body: bytes = b"{}", status: int = 200) -> None:
        self.head(status, JSON)
        self.data(body)
        self.end()

    def fail(self, kind: Kind = "reset", answered: bool = False) -> None:
        self.over = True
        self.handler.failed(Failure(kind, f"was {kind}", answered, kind not in ("refused", "dns")))


def pairs(headers: Sequence[tuple[bytes, bytes]] | bytes) -> Headers:
    """Headers that were passed on, as pairs."""
    if not isinstance(headers, bytes):
        return list(headers)
    cut = [line.partition(b": ") for line in headers.split(b"\r\n")[1:]]
    return [(name, value) for name, _, value in cut]


class FakePool(Pool):
    """An engine that does what the test says."""

    def __init__(self, at: EngineAt) -> None:
        super().__init__(Address("127.0.0.1", 1))
        self.at = at
        self.calls: list[FakeCall] = []

    def send(
        self,
        method: bytes,
        target: bytes,
        headers: Sequence[tuple[bytes, bytes]] | bytes,
        body: bytes,
        handler: ResponseHandler,
        fresh: bool = False,
    ) -> FakeCall:
        call = FakeCall(self, handler, target, pairs(headers), body, fresh)
        self.calls.append(call)
        return call

    @property
    def open(self) -> list[FakeCall]:
        return [call for call in self.calls if not call.over]

    async def close(self) -> None:
        pass


class Bench:
    """A world on a hand-moved clock, with engines that are up. now: picoseconds."""

    def __init__(
        self,
        engines: int = 2,
        router: Router | None = None,
        *,
        order: Order | None = None,
        admission: Sequence[Admission] = (),
        hedge: Hedger | None = None,
        tries: int = 2,
        slots: int | None = None,
        settings: Settings | None = None,
        belief: Belief | None = None,
    ) -> None:
        self.now = 1_000
        self.timers: list[tuple[int, Callable[[], None]]] = []
        self.trace = Trace()
        self.notes: list[tuple[str, str, bool]] = []
        self.statuses: list[int] = []
        specs = [ReplicaSpec(up=False)] * (engines if slots is None else slots)
        self.control = Control(
            Policies(router=router or LeastRequests(), order=order, admission=admission, hedge=hedge),
            specs,
            tries=tries,
            resume=False,
            belief=belief,
        )
        self.world = World(
            self.control, settings or Settings(), lambda: self.now, lambda at, call: self.timers.append((at, call)),
            FakePool,
            watcher=lambda proxied, status: self.statuses.append(status),
            note=lambda engine, kind, well, _: self.notes.append((engine.name, kind, well)),
        )  # fmt: skip
        self.world.keep = self.trace.add
        self.engines = [self.add(f"e{number}") for number in range(engines)]
        self._next = 0

    def add(self, name: str) -> Engine:
        engine = self.world.fleet.add(EngineAt(Place(name, "127.0.0.1", 1)))
        assert engine is not None
        self.world.fleet.join(engine, ReplicaSpec())
        return engine

    def pool(self, engine: int) -> FakePool:
        pool = self.engines[engine].pool
        assert isinstance(pool, FakePool)
        return pool

    @property
    def calls(self) -> list[FakeCall]:
        """Requests that engines have, in order of engines."""
        return [call for number in range(len(self.engines)) for call in self.pool(number).open]

    def ask(
        self,
        *,
        stream: bool = True,
        prompt: int = 10,
        body: bytes = b"{}",
        path: bytes = b"/v1/completions",
        **given: Any,
    ) -> tuple[Wire, Exchange, ProxiedRequest]:
        """A client's request."""
        wire = Wire()
        exchange = Exchange("POST", path, [], body, self.now)
        exchange.join(wire, "127.0.0.1")
        view = self.view(prompt, **given)
        proxied = ProxiedRequest(self.world, exchange, view, stream, "")
        self.world.arrive(proxied)
        return wire, exchange, proxied

    def view(self, prompt: int, **given: Any) -> Any:
        from poise.core.request import RequestView

        number = self._next
        self._next += 1
        self.now += 1
        return RequestView(number, self.now, prompt, **given)

    def pass_s(self, seconds: float) -> None:
        """Let time pass, ring what is due, and sweep."""
        self.now += int(seconds * 1e12)
        due = [each for each in self.timers if each[0] <= self.now]
        self.timers = [each for each in self.timers if each[0] > self.now]
        for _, call in due:
            call()
        self.world.sweep()

    def check_balance(self) -> None:
        """Nothing is under way: no trip, flight, held request or count is left."""
        control = self.control
        assert not self.world.proxied_requests and not control.flights and not control.held and not control.tried
        assert not any(control.state.requests)
