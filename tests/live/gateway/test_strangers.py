"""What those are told who have no key where tenants have keys; and bodies that cannot be sent on."""

from __future__ import annotations

import json

import pytest

from poise.live.gateway import proxied_request as proxied
from poise.live.http.loop import run
from poise.live.requests.tenants import Tenants, parse
from tests.live.gateway.live import MODEL, Live
from tests.live.gateway.test_world import pair

GOLD = [(b"authorization", b"Bearer sk-gold")]


def test_who_has_no_key_hears_no_names() -> None:
    async def main() -> None:
        async with Live(1, tenants=Tenants(parse("[{name: gold, key: sk-gold}]", "keys"))) as live:
            for key in ([], [(b"authorization", b"Bearer sk-lead")]):
                refused = await live.send(b"GET", b"/v1/models", headers=key).wait()
                assert refused.status == 401 and refused.headers[b"www-authenticate"] == b"Bearer"
                assert MODEL.encode() not in refused.body
                ready = await live.send(b"GET", b"/ready", headers=key).wait()
                assert (ready.status, json.loads(ready.body)) == (200, {"ready": True})
            listed = json.loads((await live.send(b"GET", b"/v1/models", headers=GOLD).wait()).body)
            assert [each["id"] for each in listed["data"]] == [MODEL]
            result = json.loads((await live.send(b"GET", b"/ready", headers=GOLD).wait()).body)
            assert result == {"ready": True, "engines": 1}
            assert (await live.send(b"GET", b"/health").wait()).status == 200

    run(main())


@pytest.mark.parametrize("refuse", [False, True])
def test_an_open_gateway_warns_that_anybody_may_use_it(refuse: bool) -> None:
    """Unknown keys are the tenant `default`, or a proxy names the tenants."""
    tenants = Tenants([], True, True) if refuse else Tenants(parse("[{name: gold, key: sk-gold}]", "keys"), False)

    async def main() -> None:
        async with Live(1, tenants=tenants, tenant_header=b"x-tenant" if refuse else b"") as live:
            assert (await live.send(b"GET", b"/v1/models").wait()).status == 200
            assert json.loads((await live.send(b"GET", b"/ready").wait()).body)["engines"] == 1

    run(main())


@pytest.mark.parametrize("error", [RecursionError("too deep"), ValueError("a header holds the end of a line")])
def test_what_cannot_be_written_to_an_engine_is_the_clients_mistake(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(body: bytes) -> bytes:
        raise error

    monkeypatch.setattr(proxied, "prefill_body", fails)
    bench, wire = pair()
    assert wire.status == 400 and b"cannot be written" in wire.body
    bench.check_balance()


def test_bodies_nested_around_the_bound_are_answered_by_the_engine_or_refused() -> None:
    """Somewhere the reader gets through, and whoever reads on from deeper down does not."""

    async def main() -> None:
        async with Live(1) as live:
            for depth in range(700, 1010, 10):
                deep = b"[" * depth + b"]" * depth
                body = b'{"model":"%b","prompt":"x","max_tokens":1,"nvext":%b}' % (MODEL.encode(), deep)
                answer = await live.send(b"POST", b"/v1/completions", body).wait()
                assert answer.status in (200, 400), (depth, answer.body)
            await live.check_balance()

    run(main())
