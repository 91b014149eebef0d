"""Who is unknown is told so by the head of the request: nobody keeps a body for somebody who may not ask."""

from __future__ import annotations

import asyncio
import json

import pytest

from poise.live.gateway.api import Api
from poise.live.http import Server
from poise.live.requests.tenants import Tenants, parse
from poise.live.requests.text_prefix import Pieces
from tests.live.gateway.attack import read_all
from tests.live.gateway.fakes import Bench
from tests.live.gateway.live import Live
from tests.live.http.test_connection import Client
from tests.patience import PATIENCE_S

HEAD = b"POST /v1/completions HTTP/1.1\r\nhost: g\r\n"
LENGTH = b"content-length: 10000000\r\n"
KEY = b"authorization: Bearer sk-gold\r\n"
WRONG = {
    "no key": b"",
    "a wrong key": b"authorization: Bearer sk-lead\r\n",
    "twice": b"x-api-key: no\r\n" + KEY[:-3] + b"\r\n",
}
BODIES = {
    "a length": LENGTH,
    "chunks": b"transfer-encoding: chunked\r\n",
    "an upgrade": LENGTH + b"connection: upgrade\r\nupgrade: h2c\r\n",
}


def _tenants(refuse: bool = True) -> Tenants:
    return Tenants(parse("[{name: gold, key: sk-gold}]", "keys"), refuse)


def _client(tenants: Tenants) -> Client:
    api = Api(Bench().world, Pieces(), tenants=tenants)
    return Client(server=Server(api.receive, gate=api.gate))


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("key", WRONG.values(), ids=WRONG)
def test_the_head_alone_is_refused(key: bytes, body: bytes) -> None:
    client = _client(_tenants())
    client.send(HEAD + key + body + b"expect: 100-continue\r\n\r\n")
    head, _, text = client.transport.written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 401 ") and b"\r\nwww-authenticate: Bearer\r\nconnection: close" in head
    assert json.loads(text)["error"]["code"] == "invalid_api_key"
    client.send(b"x" * 100_000)
    assert client.server.bodies.held == 0 and client.server.causes == {"key": 1} and not client.transport.aborted


def test_what_has_come_of_the_body_is_dropped() -> None:
    client = _client(_tenants())
    client.send(HEAD + LENGTH + b"\r\n" + b"x" * 100_000)
    assert client.status() == 401 and client.server.bodies.held == 0


def test_a_head_in_pieces_is_judged_when_it_is_whole() -> None:
    client = _client(_tenants())
    for byte in HEAD + LENGTH + KEY + b"expect: 100-continue\r\n\r":
        client.send(bytes((byte,)))
    assert not client.transport.writes
    client.send(b"\n")
    assert client.transport.written == b"HTTP/1.1 100 Continue\r\n\r\n"


@pytest.mark.parametrize(("tenants", "key"), [(_tenants(), KEY), (_tenants(False), b"")], ids=["known", "anybody"])
def test_who_may_ask_is_read(tenants: Tenants, key: bytes) -> None:
    client = _client(tenants)
    client.send(HEAD + key + LENGTH + b"\r\nxyz")
    assert not client.transport.writes and client.server.bodies.held == 3


def test_each_request_of_a_connection_is_judged_by_itself() -> None:
    client = _client(_tenants())
    client.send(HEAD + KEY + b"content-length: 2\r\n\r\n{")
    client.send(b"}" + HEAD + LENGTH + b"\r\n")
    first, second = client.transport.writes
    assert first.startswith(b"HTTP/1.1 400 ") and second.startswith(b"HTTP/1.1 401 ")


def test_a_client_that_sends_nothing_more_has_its_answer() -> None:
    async def main() -> None:
        async with Live(1, tenants=_tenants()) as live, asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", live.port)
            writer.write(HEAD + LENGTH + b"expect: 100-continue\r\n\r\n")
            assert (await read_all(reader)).startswith(b"HTTP/1.1 401 ")
            assert b'poise_clients_refused_total{cause="key"} 1.0' in b"".join(live.gateway.stats.page())
            writer.close()
            await writer.wait_closed()

    asyncio.run(main())
