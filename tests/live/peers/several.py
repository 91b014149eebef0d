"""Several gateways before the same emulated engines, over real sockets in one loop."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from poise.core.action import Action
from poise.core.control.control import Control
from poise.core.event import Arrived, Event
from poise.core.records.trace import Trace
from poise.core.spec import Belief, ReplicaSpec
from poise.live.discovery.address import engine as place
from poise.live.emulator.emulated import Emulated
from poise.live.emulator.options import Options
from poise.live.gateway.fleet import EngineAt
from poise.live.gateway.gateway import Gateway
from poise.live.gateway.settings import Settings
from poise.live.http.call import Address
from poise.live.http.limits import PoolLimits
from poise.live.http.pool import Pool
from poise.live.peers.mesh import Mesh
from poise.live.requests.tenants import Tenants
from poise.live.telemetry.poll import Every
from poise.policies import Policies
from poise.policies.route.least_requests import LeastRequests
from tests.live.gateway.live import MODEL, Answer
from tests.patience import turns, until

SETTINGS = Settings(held_s=10, engines=PoolLimits(connect_s=30, head_s=30, stall_s=30, idle_s=2.0))


class Member:
    """One gateway of several: its control, its mesh, its recording, and a client's connections to it."""

    def __init__(self, gateway: Gateway, mesh: Mesh, trace: Trace) -> None:
        self.gateway, self.mesh, self.trace = gateway, mesh, trace
        self.control = gateway.control
        self.arrived = 0
        """Requests that were admitted or rejected."""
        self.sent = 0
        gateway.world.keep = self._keep
        self.pool: Pool | None = None
        self.mesh_port = 0

    def _keep(self, item: Event | Action) -> None:
        self.arrived += isinstance(item, Arrived)
        self.trace.add(item)

    def ask(self, prompt: str = "Once upon a time", tokens: int = 8, **given: Any) -> Answer:
        """Send a request; `key` is its tenant's, `path` where it goes, the rest are fields of its body."""
        key, path = given.pop("key", ""), given.pop("path", b"/v1/completions")
        body = {"model": MODEL, "prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "stream": True, **given}
        headers = [(b"content-type", b"application/json"), *([(b"x-tenant", key.encode())] if key else [])]
        answer = Answer()
        assert self.pool is not None
        self.sent += 1
        answer.call = self.pool.send(b"POST", path, headers, json.dumps(body).encode(), answer)
        return answer


class Several:
    """Gateways with equal policies; each knows the tenant by the header x-tenant.

    policies: as `Policies` takes them.  tenants: all gateways number these alike, from 1, as by a key file.
    """

    def __init__(
        self,
        gateways: int = 2,
        engines: int = 2,
        *,
        speed: float = 20.0,
        settings: Settings = SETTINGS,
        tenants: Sequence[str] = (),
        **policies: Any,
    ) -> None:
        options = [Options(MODEL, port=0, speed=20.0, faults=True)] * engines
        self.engines = [Emulated(each, Policies()) for each in options]
        self._count = gateways
        self._settings = settings
        self._tenants = tenants
        self._policies = {"router": LeastRequests(), **policies}
        self.members: list[Member] = []

    async def __aenter__(self) -> Self:
        for engine in self.engines:
            await engine.start()
        for _ in range(self._count):
            await self.join()
        return self

    async def join(self, key: bytes = b"secret", awaited: bool = True, alone: bool = False) -> Member:
        """One more gateway.

        awaited: until it and all others have reached one another.  alone: before any of them calls it.
        """
        slots = [ReplicaSpec(up=False)] * (len(self.engines) + 1)
        control = Control(Policies(**self._policies), slots, tries=3, resume=False, belief=Belief(share_s=0.002))
        gateway = Gateway(
            control, self._settings, every=Every(0.05, 0.5), tenants=Tenants([], False, True),
            tenant_header=b"x-tenant",
        )  # fmt: skip
        gateway.api.share_sessions()
        for tenant in self._tenants:  # before others report theirs
            gateway.api.tenant_number(tenant)
        mesh = gateway.mesh = Mesh(gateway.world, gateway.api, key, 0.002)
        member = Member(gateway, mesh, Trace())
        port = await gateway.start("127.0.0.1", 0)
        member.pool = Pool(Address("127.0.0.1", port), PoolLimits(idle=1000, head_s=0, stall_s=0))
        for number, engine in enumerate(self.engines):
            gateway.prober.add(EngineAt(place(engine.url, "test", f"e{number}")))
        await until(lambda: len(gateway.world.fleet.serving) == len(self.engines))
        member.mesh_port = await mesh.listen(("127.0.0.1", 0))
        self.members.append(member)
        if alone:
            return member
        self.connect()
        if awaited:
            await until(lambda: all(each.mesh.connected == len(self.members) - 1 for each in self.members))
        return member

    def connect(self) -> None:
        """All gateways call all of them."""
        ports = [("127.0.0.1", each.mesh_port) for each in self.members]
        for each in self.members:
            each.mesh.call(ports)  # its own too, as where a name lists all gateways

    async def leave(self, member: Member) -> None:
        """A gateway goes without a word, and its connections with it."""
        self.members.remove(member)
        assert member.pool is not None
        await member.mesh.close()
        await member.pool.close()
        await member.gateway.stop(0.0)

    async def settled(self) -> None:
        """All requests have ended, and all gateways have been sent so."""
        await until(lambda: not any(each.gateway.world.proxied_requests for each in self.members))
        await until(lambda: not any(each.control.peers.known for each in self.members))
        for each in self.members:
            assert not any(each.control.state.requests), each.control.state.requests

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in list(self.members):
            await self.leave(member)
        for engine in self.engines:
            await engine.stop()
        await turns(5)
