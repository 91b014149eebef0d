"""Engines break and gateways die under load: each request ends once, limits hold over all gateways, nothing is left."""

from __future__ import annotations

import asyncio
import random

import pytest

from poise.core.control.control import Control
from poise.core.records.trace import replay
from poise.core.request import RequestView
from poise.core.spec import Belief, ReplicaSpec
from poise.live.gateway.settings import Settings
from poise.live.http.limits import PoolLimits
from poise.policies import Policies
from poise.policies.admit.ceiling import Ceiling
from poise.policies.admit.tenant_limits import TenantLimits
from poise.policies.order.virtual_token_counter import VirtualTokenCounter
from poise.policies.route.prefix_cache import PrefixCache
from tests.live.gateway.live import Answer
from tests.live.gateway.test_faults import a_fault
from tests.live.peers.several import Member, Several
from tests.live.warp import run
from tests.patience import until

# Python 3.11's own loop forgets a connection that it accepts while its listener closes (CPython issue 109564).
pytestmark = pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")

FAST = Settings(held_s=3.0, engines=PoolLimits(connect_s=0.5, head_s=0.3, stall_s=0.3, idle_s=1.0))
LIMIT = 60
"""Requests a minute of the tenant `limited`."""
APART_S = 0.004
"""Seconds between two requests."""


def policies() -> Policies:
    limits = TenantLimits(tenants={1: {"requests_per_minute": LIMIT}})
    return Policies(
        router=PrefixCache(), order=VirtualTokenCounter(), admission=(limits, Ceiling(requests=24)),
    )  # fmt: skip


def informed(member: Member, members: list[Member]) -> bool:
    """Whether a gateway has decided what it was sent, is connected to all others, and counts just their open requests.

    Without the first, two gateways may each admit the last request that a limit leaves.
    """
    if member.arrived < member.sent or member.mesh.connected < len(members) - 1:
        return False  # the clock jumps, and a silence of 5 s ends a connection
    others = [each.control for each in members if each is not member]
    open_ = [view for each in others for view in (*(flight.request for flight in each.flights.values()), *each.held)]
    return sorted(map(content, open_)) == sorted(content(view) for _, view in member.control.peers.known.values())


def content(request: RequestView) -> tuple[object, ...]:
    """What all gateways agree on: each numbers a request in its own way."""
    return request.tenant, request.prompt_tokens, request.max_tokens, request.ids


async def storm(seed: int, faults: int, requests: int) -> None:
    """So many faults of engines among so many requests; a gateway of three dies halfway, and another comes."""
    draw = random.Random(seed)
    given = policies()
    several = Several(
        3, 3, tenants=["limited"], settings=FAST, router=given.router, order=given.order, admission=given.admission
    )  # fmt: skip
    async with several:
        began = asyncio.get_running_loop().time()
        answers: list[tuple[Member, str, Answer]] = []
        gone: list[Member] = []
        for number in range(requests):
            if number == requests // 2:
                gone.append(several.members[0])
                await several.leave(gone[0])
                await several.join()
            member, tenant = draw.choice(several.members), draw.choice(["limited", "other"])
            if tenant == "limited":
                await until(lambda: all(informed(each, several.members) for each in several.members))
            prompt = f"{number} " + f"Tale {number % 7} " * draw.randint(1, 80)
            answer = member.ask(prompt, draw.randint(1, 40), stream=draw.random() < 0.7, key=tenant)
            answers.append((member, tenant, answer))
            for _ in range(faults * (number + 1) // requests - faults * number // requests):
                engine = draw.choice(several.engines)
                await engine.settled()
                engine.fault(**a_fault(draw))
            await asyncio.sleep(APART_S)
        for engine in several.engines:
            await engine.settled()
            engine.clear()
            await engine.settled()
        for member, _, answer in answers:
            await answer.wait()
            assert answer.whole or answer.error or member in gone, (answer.status, answer.body[-200:], answer.why)
        await several.settled()
        minutes = (asyncio.get_running_loop().time() - began) / 60
        admitted = [answer for _, tenant, answer in answers if tenant == "limited" and answer.status != 429]
        # The gateway that joins has a full bucket: what was admitted before is in the others' alone.
        assert LIMIT <= len(admitted) <= LIMIT * (1 + minutes) + LIMIT
        await until(lambda: all(len(each.gateway.world.fleet.serving) == 3 for each in several.members))
        after = [member.ask(f"After {number}", 4) for number in range(6) for member in several.members]
        assert all([(await answer.wait()).whole for answer in after]), [answer.error for answer in after]
        await several.settled()
        traces = [member.trace for member in [*several.members, *gone]]
    for trace in traces:
        fresh = Control(policies(), [ReplicaSpec(up=False)] * 4, tries=3, resume=False, belief=Belief(share_s=0.002))
        assert replay(trace.events, fresh) == list(trace.actions)


def test_a_storm_of_faults_over_three_gateways() -> None:
    run(storm(seed=1, faults=40, requests=160))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_thousand_faults_over_three_gateways(seed: int) -> None:
    """4 × 250 seeded faults, and four gateways that die."""
    run(storm(seed=200 + seed, faults=250, requests=1000))
