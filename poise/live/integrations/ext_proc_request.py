"""A request whose bytes a proxy carries: Poise picks the engine, and observes the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from poise.core.event import Cancelled, Prefilled, Refused, Restricted
from poise.core.request import RequestView
from poise.live.gateway.proxied_request import ANSWERING, ENDED, HELD, SENT, ProxiedRequest
from poise.live.http.call import DISCARD, Call
from poise.live.http.exchange import Exchange
from poise.live.http.refuse import plain
from poise.live.integrations.choice import Subset

if TYPE_CHECKING:
    from poise.live.discovery.address import Engine as Place
    from poise.live.gateway.api import Api
    from poise.live.gateway.fleet import Engine
    from poise.live.gateway.world import World

Headers = Sequence[tuple[bytes, bytes]]

PREFILLER: Final = b"x-prefiller-host-port"
"""The header with the engine that computes the prompt, read by llm-d's sidecar of a decode engine."""


class Proxy(Protocol):
    """The proxy that carries the bytes."""

    def route(self, endpoints: Sequence[str], headers: Headers) -> None:
        """Send the request to the first of these that takes it, with these headers set."""
        ...

    def refuse(self, status: int, headers: Headers, body: bytes) -> None:
        """Answer the client with this instead."""
        ...

    def cut(self) -> None:
        """The answer cannot be completed."""
        ...


class ExtProcRequest(Exchange):
    """One request, complete with its body; its answer bypasses Poise, so what is written of it here is dropped.

    subset: the endpoints that its proxy can reach, None for all.  reach: the slots of those that serve.
    routed: whether the proxy has received its decision.
    """

    __slots__ = ("proxied", "proxy", "reach", "routed", "subset")

    def __init__(
        self,
        proxy: Proxy,
        method: str,
        target: bytes,
        headers: list[tuple[bytes, bytes]],
        body: bytes,
        begun_at: int,
        subset: frozenset[str] | None = None,
    ) -> None:
        super().__init__(method, target, headers, body, begun_at)
        self.proxy = proxy
        self.subset = subset
        self.reach: list[int] | None = None
        self.routed = False
        self.proxied: Picked | None = None

    def ask(self, api: Api) -> None:
        """Pass it to the gateway, which decides now or later."""
        if self.subset is not None:
            serving = api.world.fleet.serving
            self.reach = [engine.slot for engine in serving if endpoint(engine.at.place) in self.subset]
            if not self.reach:
                self._cannot(503, "none of the endpoints within the proxy's reach is ready")
                return
            if _subset(api.world) is None:
                self._cannot(500, "the proxy named a subset of endpoints, for which the policies have no admission")
                return
        api.receive(self)

    def over(self) -> None:
        """The proxy has ended the stream; before the answer's end this means that its client or its engine is gone."""
        if self.proxied is not None:
            self.proxied.over()
        elif self.gone is not None:
            self.gone()

    def _cannot(self, status: int, message: str) -> None:
        self.answer(status, plain(self.path, status, message))

    # Called by the proxied request -----------------------------------------------------------------------------------

    def start(self, status: int, headers: Headers, length: int | None = None) -> None:
        """No effect: the proxy has sent the head."""

    def write(self, data: bytes) -> None:
        """No effect: the proxy sends the body."""

    def end(self) -> None:
        """No effect: the proxy has the end."""

    def answer(
        self, status: int, body: bytes, content_type: bytes = b"application/json", headers: Headers = ()
    ) -> None:
        """Answer by Poise itself; an engine's answer is already on its way."""
        if self.proxied is None or not self.proxied.answering:
            self.proxy.refuse(status, [(b"content-type", content_type), *headers], body)

    def cut(self) -> None:
        """Abort the answer."""
        self.proxy.cut()


class Carried(Call):
    """The proxy's own call to the engine, which Poise cannot control."""

    def __init__(self) -> None:
        super().__init__(DISCARD)

    def cancel(self) -> None:
        """No effect: the proxy ends the call when its client leaves."""


class Picked(ProxiedRequest):
    """A proxied request whose engine is picked here and called by the proxy, which reports the answer.

    heard: an answer has begun, so no other engine can be picked.
    """

    __slots__ = ("_prefill", "_subset", "answering", "passage")

    def __init__(self, world: World, exchange: Exchange, view: RequestView, stream: bool, tenant: str) -> None:
        assert isinstance(exchange, ExtProcRequest)
        super().__init__(world, exchange, view, stream, tenant)
        self.gathers = False
        self.passage = exchange
        self.answering = False
        self._prefill: Engine | None = None
        exchange.proxied = self
        self._subset = None if exchange.reach is None else _subset(world)
        if exchange.reach is not None:
            world.turn(Restricted(view.arrived_at, view.id, tuple(exchange.reach)))

    @property
    def slot(self) -> int:
        """The slot of the engine that has it as far as is known, -1 for none."""
        return self.engine.slot if self.engine is not None and self.state in (SENT, ANSWERING) else -1

    def send(self, engine: Engine, decode: Engine | None = None) -> None:
        """Have the proxy send it to an engine, or to `decode`, whose sidecar has `engine` compute the prompt.

        Once the proxy has its decision, it tries the engines by itself; then this only tracks which one.
        """
        self.state = SENT
        self.sent_at = self._world.clock()
        self.engine = decode or engine
        self.engine.sent += 1
        self._prefill = engine if decode is not None else None
        if not self.passage.routed:
            self.passage.routed = True
            self.passage.proxy.route(self._endpoints(), self._headers())

    def _endpoints(self) -> list[str]:
        assert self.engine is not None
        flight, slots = self._world.control.flights[self.view.id], self._world.fleet.slots
        fallback = [] if self._prefill is not None else [slots[slot] for slot in flight.fallback]
        return [endpoint(each.at.place) for each in (self.engine, *fallback) if each is not None]

    def _headers(self) -> Headers:
        assert self.engine is not None
        key, prefill, target = self.engine.at.api_key, self._prefill, self.engine.target(self.passage.target)
        headers = [] if not key else [(b"authorization", b"Bearer " + key.encode())]
        if target != self.passage.target:
            headers.append((b":path", target))
        if prefill is not None:
            headers.append((PREFILLER, endpoint(prefill.at.place).encode()))
        return headers

    # Called by the proxy's stream ------------------------------------------------------------------------------------

    def answered(self, status: int, headers: list[tuple[bytes, bytes]], served: str) -> None:
        """An answer begins, from the engine at the endpoint `served` ("": the proxy does not say)."""
        if self.state == ENDED or self.answering:
            return
        self.answering = True
        self._head = status, headers
        if self.view.id not in self._world.control.flights:  # its engine was lost, and Control holds it
            self.state = HELD
        if served:
            self._follow(served)
        if self.state != SENT:
            self._unbooked(status)
            return
        self.call = _CARRIED
        prefill, world = self._prefill, self._world
        if prefill is not None:
            world.turn(Prefilled(world.clock(), self.view.id, prefill.slot))
        self.head(status, headers)

    def passes(self, data: bytes) -> None:
        """A part of the answer has passed."""
        if self.call is not None:
            self.data(data)

    def passed(self) -> None:
        """The whole answer has passed."""
        if self.call is not None:
            self.end()

    def over(self) -> None:
        """The proxy will report nothing more."""
        self.leave()
        if self._subset is not None:
            self._subset.forget(self.view.id)

    def _follow(self, served: str) -> None:
        """The proxy skipped the engines before `served`: Control receives a refusal from each."""
        world = self._world
        while self.state == SENT and self.engine is not None and endpoint(self.engine.at.place) != served:
            self.engine.failed("refused", True, self.sent_at)
            self.state = HELD
            reason = f"{self.engine.name}: the proxy went on to {served}"
            world.turn(Refused(world.clock(), self.view.id, self.engine.slot, reason, True))

    def _unbooked(self, status: int) -> None:
        """An engine that Control would not have chosen answers it, so it is removed from the load."""
        if self.state != ENDED:
            self.state = ENDED
            self._world.ended(self, status)
            self._world.turn(Cancelled(self._world.clock(), self.view.id, "answered by an engine out of turn"))

    def refused(self, engine: Engine, status: int, headers: Headers, body: bytes) -> None:
        """An error has passed to the client: report refusals to Control until it has no engine left to try."""
        world = self._world
        engine.refused(status, self.sent_at)
        self.call, self._head, self._error = None, (status, headers), body
        while self.state in (SENT, ANSWERING):
            assert self.engine is not None
            self.state = HELD
            reason = f"{self.engine.name} answered {status}"
            world.turn(Refused(world.clock(), self.view.id, self.engine.slot, reason))


_CARRIED: Final = Carried()


def endpoint(place: Place) -> str:
    """`ip:port`, an IPv6 address in brackets, as Envoy writes them."""
    return f"[{place.host}]:{place.port}" if ":" in place.host else f"{place.host}:{place.port}"


def _subset(world: World) -> Subset | None:
    """The policy that restricts requests to the engines that their proxy can reach."""
    return next((policy for policy in world.control.admission if isinstance(policy, Subset)), None)
