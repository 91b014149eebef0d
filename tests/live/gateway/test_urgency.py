"""How urgent a client may say that it is: no more than its tenant may be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from poise.core.event import Arrived
from poise.core.request import RequestView
from poise.live.gateway.api import Api
from poise.live.gateway.settings import Settings
from poise.live.http.exchange import Exchange
from poise.live.http.loop import run
from poise.live.requests.tenants import Tenants, parse
from poise.live.requests.text_prefix import Pieces
from poise.policies.admit.ceiling import Ceiling
from poise.policies.order.priority import Priority
from tests.live.gateway.fakes import Bench, Wire
from tests.live.gateway.live import Live

KEYS = """
- {name: chat, key: sk-chat}
- {name: batch, key: sk-batch, priority: 10}
- {name: ops, key: sk-ops, priority: 5, min_priority: -5, min_ttft_ms: 200}
"""
MS = 10**9


def ask(api: Api, key: str, headers: Any = (), **given: Any) -> Wire:
    body = json.dumps({"model": "m", "prompt": "x", "z": 1.50, **given}).encode()
    exchange = Exchange("POST", b"/v1/completions", [(b"authorization", f"Bearer {key}".encode()), *headers], body, 0)
    wire = Wire()
    exchange.join(wire, "127.0.0.1")
    api.receive(exchange)
    return wire


def received(tenants: str, key: str, headers: Any = (), ttft_s: float = 0.0, **given: Any) -> tuple[RequestView, bytes]:
    """What policies and the engine see of a request with this key."""
    bench = Bench(1, settings=Settings(ttft_s=ttft_s))
    ask(Api(bench.world, Pieces(), tenants=Tenants(parse(tenants, "keys")) if tenants else None), key, headers, **given)
    (arrived,) = [each for each in bench.trace.events if isinstance(each, Arrived)]
    return arrived.request, bench.calls[0].body


@pytest.mark.parametrize(
    ("key", "priority", "seen", "sent"),
    [
        ("sk-batch", -1_000_000, 10, 0),
        ("sk-batch", 3, 13, 3),
        ("sk-batch", None, 10, None),
        ("sk-chat", -1, 0, 0),
        ("sk-ops", -7, -2, -7),
        ("sk-ops", -1_000_000, -5, -10),
    ],
)
def test_a_body_lowers_its_priority_and_raises_it_as_far_as_its_tenant_may(
    key: str, priority: int | None, seen: int, sent: int | None
) -> None:
    view, body = received(KEYS, key, **({} if priority is None else {"priority": priority}))
    assert view.priority == seen
    assert json.loads(body).get("priority") == sent, "the engine has an order of its own"
    assert json.loads(body)["z"] == 1.5


def test_without_tenants_all_are_one_house() -> None:
    view, body = received("", "", priority=-1_000_000, headers=[(b"x-slo-ttft-ms", b"1")])
    assert view.priority == -1_000_000 and json.loads(body)["priority"] == -1_000_000
    assert view.deadline_at - view.arrived_at == MS


@pytest.mark.parametrize(
    ("key", "ttft_s", "expected", "due"),
    [
        ("sk-chat", 0.0, b"1", 0),  # nothing is due for its tenant, so nothing is due sooner
        ("sk-chat", 2.0, b"1", 2000),
        ("sk-chat", 2.0, b"9000", 9000),
        ("sk-chat", 2.0, None, 2000),
        ("sk-ops", 2.0, b"1", 200),
        ("sk-ops", 0.0, b"500", 500),
        ("sk-ops", 0.0, b"1", 200),
    ],
)
def test_a_deadline_is_no_sooner_than_a_tenant_may_ask(
    key: str, ttft_s: float, expected: bytes | None, due: int
) -> None:
    headers = [] if expected is None else [(b"x-slo-ttft-ms", expected)]
    view, _ = received(KEYS, key, headers, ttft_s)
    assert (view.deadline_at - view.arrived_at if view.deadline_at else 0) == due * MS


def test_a_tenant_that_goes_last_does_not_overtake() -> None:
    """One request at a time, the most urgent first: batch asks to be that, and goes last all the same."""
    bench = Bench(1, order=Priority(), admission=[Ceiling(1)])
    order: list[int] = []
    api = Api(bench.world, Pieces(), tenants=Tenants(parse(KEYS, "keys")))
    ask(api, "sk-chat")
    ask(api, "sk-batch", priority=-1_000_000)
    for _ in range(3):
        ask(api, "sk-chat")
    while bench.calls:
        order += [flight.request.tenant for flight in bench.control.flights.values()]
        bench.calls[0].answer()
    assert order == [1, 1, 1, 1, 2]
    bench.check_balance()


def test_a_body_that_is_rewritten_is_counted_as_it_is() -> None:
    async def main() -> None:
        async with Live(1, tenants=Tenants(parse(KEYS, "keys"))) as live:
            answer = live.ask(headers=[(b"authorization", b"Bearer sk-batch")], priority=-1_000_000)
            assert (await answer.wait()).whole
            await live.check_balance()
            assert live.gateway.server.bodies.held == 0

    run(main())


def test_a_body_that_cannot_be_rewritten_is_the_clients_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reader got through it, and whoever rewrites it, from deeper down, does not."""

    def fails(body: bytes, changed: object) -> bytes:
        raise RecursionError

    monkeypatch.setattr("poise.live.gateway.api.replaced", fails)
    bench = Bench(1)
    api = Api(bench.world, Pieces(), tenants=Tenants(parse(KEYS, "keys")))
    wire = ask(api, "sk-chat", priority=-1)
    assert wire.status == 400 and b"nested too deeply" in wire.body
    bench.check_balance()
