"""A gateway with emulated engines and its admin port, all on loopback; and a client that speaks plain HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from poise.core.control.control import Control
from poise.core.policy import Admission, Router
from poise.core.spec import ReplicaSpec
from poise.live.admin.server import LIMITS, Admin
from poise.live.discovery.address import Engine as Place
from poise.live.emulator.emulated import Emulated
from poise.live.emulator.options import Options
from poise.live.emulator.publish import KvEvents
from poise.live.gateway.fleet import EngineAt
from poise.live.gateway.gateway import Gateway
from poise.live.http.limits import Limits
from poise.live.requests.tenants import Tenants
from poise.live.telemetry.poll import Every
from poise.policies import Policies
from poise.policies.route.prefix_cache import PrefixCache
from tests.patience import PATIENCE_S, until

MODEL = "llama-3.1-8b"
KV = KvEvents(True, endpoint="tcp://127.0.0.1:*", replay_endpoint="tcp://127.0.0.1:*")


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(
    port: int, target: str, method: str = "GET", headers: dict[str, str] | None = None, body: bytes = b""
) -> Answer:
    """One request on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    given = {"host": f"127.0.0.1:{port}", "connection": "close", **(headers or {})}
    if body or method == "POST":
        given["content-length"] = str(len(body))
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    try:
        raw = await asyncio.wait_for(reader.read(), PATIENCE_S)
    finally:
        writer.close()
        await writer.wait_closed()
    head, _, rest = raw.partition(b"\r\n\r\n")
    first, *others = head.decode().split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in others)}
    return Answer(int(first.split()[1]), fields, rest)


@dataclass
class House:
    gateway: Gateway
    admin: Admin
    port: int
    admin_port: int
    emulated: list[Emulated]

    def add(self, name: str, engine: Emulated, key: str = "") -> None:
        """Have the gateway take up an engine."""
        self.gateway.prober.add(
            EngineAt(
                Place(name, "127.0.0.1", engine.port),
                api_key=key,
                kv_events=engine.kv_endpoint,
                kv_replay=engine.replay_endpoint,
            )
        )

    async def complete(self, prompt: str, key: str = "", **given: Any) -> Answer:
        """One request of a client."""
        body = {"model": MODEL, "messages": [{"role": "user", "content": prompt}], "max_tokens": 4, **given}
        headers = {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
        return await ask(self.port, "/v1/chat/completions", "POST", headers, json.dumps(body).encode())

    async def look(self, target: str, method: str = "GET", **headers: str) -> Answer:
        """One request to the admin port."""
        return await ask(self.admin_port, target, method, {name.replace("_", "-"): to for name, to in headers.items()})


@asynccontextmanager
async def house(
    engines: Sequence[str] = ("a", "b"),
    *,
    router: Router | None = None,
    admission: Sequence[Admission] = (),
    token: str = "",
    tenants: Tenants | None = None,
    engine_key: str = "",
    step_s: float = 10.0,
    limits: Limits = LIMITS,
    publish: bool = False,
) -> AsyncIterator[House]:
    """A house that is ready: every engine serves. publish: engines tell of their caches by KV events."""
    async with AsyncExitStack() as stack:
        emulated = [
            await stack.enter_async_context(
                Emulated(
                    Options(model=MODEL, device="H100", port=0, faults=True, kv_events_config=KV if publish else None),
                    Policies(),
                )
            )
            for _ in engines
        ]
        control = Control(
            Policies(router=router or PrefixCache(), admission=admission),
            [ReplicaSpec(up=False)] * (len(engines) + 1),
            tries=2,
            resume=False,
        )
        gateway = Gateway(control, tenants=tenants, every=Every(period_s=0.05))
        admin = Admin(gateway, token, limits=limits, step_s=step_s)
        port = await gateway.start("127.0.0.1", 0)
        admin_port = await admin.start()
        here = House(gateway, admin, port, admin_port, emulated)
        for name, engine in zip(engines, emulated, strict=True):
            here.add(name, engine, engine_key)
        try:
            await until(lambda: len(gateway.world.fleet.serving) == len(engines))
            yield here
        finally:
            await admin.stop()
            await gateway.stop(1.0)


async def events(port: int, enough: Callable[[list[tuple[str, Any]]], bool]) -> list[tuple[str, Any]]:
    """What `/events` tells until it is enough."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /events HTTP/1.0\r\nhost: localhost:{port}\r\n\r\n".encode())
    found: list[tuple[str, Any]] = []
    try:
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
        while not enough(found):
            name, data = (await asyncio.wait_for(reader.readuntil(b"\n\n"), PATIENCE_S)).split(b"\n")[:2]
            found.append((name.removeprefix(b"event: ").decode(), json.loads(data.removeprefix(b"data: "))))
    finally:
        writer.close()
        await writer.wait_closed()
    return found


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Run an asynchronous test."""
    asyncio.run(main())  # type: ignore[arg-type]
