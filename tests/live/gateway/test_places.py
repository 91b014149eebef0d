"""Where engines are, once more when their names are looked up: what a name says today it may unsay tomorrow."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from poise.core.control.control import Control
from poise.core.spec import ReplicaSpec
from poise.live.discovery.address import engine as place
from poise.live.discovery.engines import EngineName, parse
from poise.live.gateway.fleet import EngineAt
from poise.live.gateway.gateway import Gateway
from poise.live.http import Exchange, Server
from poise.policies import Policies
from poise.policies.route.least_requests import LeastRequests
from tests.live.gateway.live import Answer
from tests.live.http.test_server import _contexts
from tests.patience import PATIENCE_S

METADATA = "169.254.169.254"


class Book:
    """What names mean, in place of the system's resolver."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
        self.addresses = list(addresses)
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._look_up)

    def _look_up(self, host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        if host != "engines.test":
            return self._real(host, port, *rest, **more)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in self.addresses]


def _gateway() -> Gateway:
    return Gateway(Control(Policies(router=LeastRequests()), [ReplicaSpec(up=False)] * 4))


async def _ask(gateway: Gateway, at: EngineAt) -> Answer:
    """Ask an engine as the gateway asks it."""
    engine = gateway.world.fleet.add(at)
    assert engine is not None
    answer = Answer()
    engine.pool.send(b"GET", b"/health", [], b"", answer)
    return await answer.wait()


def _served(exchange: Exchange) -> None:
    exchange.answer(200, b"")


def _listed(port: int) -> dict[str, EngineAt]:
    """A name in the gateway file and one in a watched file."""
    url = f"http://engines.test:{port}"
    return {
        "named": EngineAt(place(url, "test")),
        "watched": EngineAt(parse(f"- {{url: '{url}', name: w}}", "file")["w"]),
    }


@pytest.mark.parametrize("source", ["named", "watched"])
def test_a_name_that_means_the_metadata_service_is_not_followed(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        server, gateway, book = Server(_served), _gateway(), Book(monkeypatch, METADATA, "::ffff:169.254.1.1")
        port = await server.listen("127.0.0.1", 0)
        trapped = await _ask(gateway, _listed(port)[source])
        assert trapped.why is not None and trapped.why.kind == "dns"
        assert f"{METADATA} (it is link-local" in trapped.why.reason and "::ffff:169.254.1.1 (" in trapped.why.reason
        book.addresses = [METADATA, "127.0.0.1"]
        assert (await _ask(gateway, _listed(port)[source])).status == 200 and server.accepted == 1
        await gateway.stop(1)
        await server.drain(1)

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


def test_an_engine_found_by_dns_is_verified_by_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        ours, _ = _contexts(tmp_path, "DNS:engines.test")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        server, gateway = Server(_served), _gateway()
        port = await server.listen("127.0.0.1", 0, ours)
        name = EngineName(place(f"https://engines.test:{port}", "test"), grace=1, at=0)
        (found,) = name.resolved(["127.0.0.1", METADATA], "", 1).added
        assert (await _ask(gateway, EngineAt(found))).status == 200
        unnamed = await _ask(gateway, EngineAt(place(f"https://127.0.0.1:{port}", "test")))
        assert unnamed.why is not None and unnamed.why.kind == "refused"
        await gateway.stop(1)
        await server.drain(1)

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))
