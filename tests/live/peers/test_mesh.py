"""Gateways before the same engines decide as one: on load, prefixes, limits and fair shares; and part cleanly."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from poise.core.control.control import Control
from poise.core.records.trace import ACTIONS, EVENTS, replay
from poise.core.spec import Belief, ReplicaSpec
from poise.policies import Policies
from poise.policies.admit.ceiling import Ceiling
from poise.policies.admit.tenant_limits import TenantLimits
from poise.policies.order.virtual_token_counter import VirtualTokenCounter
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.prefix_cache import PrefixCache
from tests.live.peers.several import Member, Several
from tests.live.warp import run
from tests.patience import until

# Python 3.11's own loop forgets a connection that it accepts while its listener closes (CPython issue 109564).
pytestmark = pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")

LONG = "The same long beginning of many prompts. " * 40


def test_open_requests_count_at_every_gateway_until_they_end() -> None:
    async def main() -> None:
        async with Several(3) as several:
            first, second, third = several.members
            answers = [first.ask(tokens=200) for _ in range(4)]
            for each in (second, third):
                await until(lambda each=each: sum(each.control.state.requests) == 4)  # type: ignore[misc]
                assert each.control.state.requests[:2] == [2, 2]
            assert all([(await answer.wait()).whole for answer in answers])
            await several.settled()

    run(main())


def test_a_prompt_finds_its_prefix_where_another_gateway_sent_it() -> None:
    async def main() -> None:
        async with Several(2, router=PrefixCache()) as several:
            first, second = several.members
            for number in range(6):
                assert (await first.ask(f"{number} {LONG}").wait()).whole
            await until(lambda: len(second.control.state.sent_prefixes.index._holders) >= 6)  # type: ignore[union-attr]
            for number in range(6):
                assert (await second.ask(f"{number} {LONG}").wait()).whole
            await several.settled()
            for number in range(6):  # each prompt went to one engine, whichever gateway it came through
                assert _places(first)[number] == _places(second)[number]

    run(main())


def _places(member: Member) -> list[int]:
    return [item.replica for item in member.trace.actions if type(item).__name__ == "Dispatch"]


def test_a_limit_of_a_tenant_holds_over_all_gateways() -> None:
    async def main() -> None:
        async with Several(2, admission=(TenantLimits(requests_per_minute=6),)) as several:
            statuses = []
            for number in range(10):
                one, other = several.members[number % 2], several.members[1 - number % 2]
                answer = await one.ask(key="one").wait()
                statuses.append(answer.status)
                seen = sum(answered == 200 for answered in statuses)
                await until(lambda other=other, seen=seen: _counted(other) >= seen)  # type: ignore[misc]
            assert statuses == [200] * 6 + [429] * 4
            assert (await several.members[0].ask(key="two").wait()).status == 200, "another tenant"
            await several.settled()

    run(main())


def _counted(member: Member) -> int:
    """The requests of both gateways that a gateway has heard of."""
    names = [type(item).__name__ for item in member.trace.items()]
    return names.count("Dispatch") + names.count("PeerEnded")


def test_a_ceiling_holds_over_all_gateways_and_what_waits_goes_when_another_gateways_request_ends() -> None:
    async def main() -> None:
        policies: dict[str, Any] = {"admission": (Ceiling(requests=2),), "order": VirtualTokenCounter()}
        async with Several(2, 1, **policies) as several:
            first, second = several.members
            open_ = [first.ask(tokens=100) for _ in range(2)]
            await until(lambda: sum(second.control.state.requests) == 2)
            waits = second.ask()
            await until(lambda: len(second.control.held) == 1)
            assert (await waits.wait()).whole
            assert all([(await answer.wait()).whole for answer in open_])
            await several.settled()

    run(main())


def test_a_gateway_that_joins_gets_open_requests_and_known_prefixes() -> None:
    async def main() -> None:
        async with Several(1, router=PrefixCache()) as several:
            (first,) = several.members
            assert (await first.ask(LONG).wait()).whole
            open_ = first.ask("Another", tokens=300)
            await until(lambda: sum(first.control.state.requests) == 1)
            late = await several.join()
            await until(lambda: sum(late.control.state.requests) == 1)
            await until(lambda: late.control.state.sent_prefixes.index._holders)  # type: ignore[union-attr]
            assert (await late.ask(LONG).wait()).whole
            assert _places(late)[0] == _places(first)[0]
            assert (await open_.wait()).whole
            await several.settled()

    run(main())


def test_a_gateway_that_finds_itself_calls_ever_more_rarely_and_still_gets_prefixes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name with the addresses of all gateways has its own too."""

    async def main() -> None:
        async with Several(1, router=PrefixCache()) as several:
            (first,) = several.members
            assert (await first.ask(LONG).wait()).whole
            late = await several.join(alone=True)
            calls: list[float] = []
            connect, loop = late.mesh._connect, asyncio.get_running_loop()

            def counted(address: Any) -> Any:
                calls.append(loop.time())
                return connect(address)

            monkeypatch.setattr(late.mesh, "_connect", counted)
            late.mesh.call([("127.0.0.1", late.mesh_port)])
            began = loop.time()
            await until(lambda: loop.time() - began > 20)
            assert 5 <= len(calls) <= 15 and not late.mesh.connected
            several.connect()
            await until(lambda: late.control.state.sent_prefixes.index._holders)  # type: ignore[union-attr]

    run(main())


def test_the_requests_of_a_gateway_that_is_gone_count_no_longer() -> None:
    async def main() -> None:
        async with Several(2) as several:
            first, second = several.members
            first.ask(tokens=2000)
            await until(lambda: sum(second.control.state.requests) == 1)
            await several.leave(first)
            await until(lambda: not any(second.control.state.requests))
            assert (await second.ask().wait()).whole

    run(main())


def test_a_response_goes_on_where_it_began_through_any_gateway() -> None:
    async def main() -> None:
        async with Several(2, 3) as several:
            first, second = several.members
            body: dict[str, Any] = {"path": b"/v1/responses", "input": "Hello", "stream": False, "max_output_tokens": 8}
            for _ in range(4):
                answer = await first.ask(**body).wait()
                response = answer.body.partition(b'"id":"')[2].partition(b'"')[0].decode()
                await until(lambda response=response: response in second.gateway.api._responses)  # type: ignore[misc]
                assert (await second.ask(previous_response_id=response, **body).wait()).status == 200
            assert _places(first) == _places(second)

    run(main())


def test_a_gateway_with_another_key_is_not_connected(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with Several(1) as several:
            (first,) = several.members
            with caplog.at_level(logging.WARNING, "poise.gateway"):
                stranger = await several.join(key=b"guessed", awaited=False)
                await until(lambda: len(caplog.records) >= 2)
            answer = first.ask(tokens=50)
            assert (await answer.wait()).whole
            assert first.mesh.connected == stranger.mesh.connected == 0
            assert not stranger.control.peers.known and not first.control.peers.known
        assert all("key" in record.getMessage() for record in caplog.records)

    run(main())


@pytest.mark.parametrize("junk", [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\x00\x00\x00\x01\xc1", b""])
def test_what_is_not_a_gateway_is_cut_off_and_harms_nothing(junk: bytes) -> None:
    async def main() -> None:
        async with Several(2) as several:
            first, _ = several.members
            reader, writer = await asyncio.open_connection("127.0.0.1", first.mesh_port)
            writer.write(junk)
            while await reader.read(4096):
                pass
            writer.close()
            assert first.mesh.connected == 1
            assert (await first.ask().wait()).whole
            await several.settled()

    run(main())


def test_each_gateway_repeats_itself_from_its_own_recording() -> None:
    """What others reported is in it, so the same events give the same actions."""

    async def main() -> None:
        policies: dict[str, Any] = {
            "router": PrefixCache(), "order": VirtualTokenCounter(),
            "admission": (Ceiling(requests=2), TenantLimits(tokens_per_minute=4000)),
        }  # fmt: skip
        async with Several(2, **policies) as several:
            answers = [
                several.members[number % 2].ask(f"Tale {number % 5} {LONG}", 20, key=f"t{number % 3}")
                for number in range(40)
            ]
            for answer in answers:
                await answer.wait()
            await several.settled()
            traces = [member.trace for member in several.members]
        for trace in traces:
            slots = [ReplicaSpec(up=False)] * 3
            fresh = Control(Policies(**policies), slots, tries=3, resume=False, belief=Belief(share_s=0.002))
            kinds = [type(item).__name__ for item in trace.items()]
            assert kinds.count("PeerSent") >= 10 and set(kinds) <= set(EVENTS) | set(ACTIONS)
            assert replay(trace.events, fresh) == list(trace.actions)

    run(main())


def test_sessions_have_the_same_number_at_every_gateway() -> None:
    async def main() -> None:
        async with Several(2, router=LeastRequests()) as several:
            for member in several.members:
                assert (await member.ask(prompt_cache_key="conversation").wait()).whole
            seen = [
                [item.request.session for item in member.trace.events if type(item).__name__ == "Arrived"]
                for member in several.members
            ]
            assert seen[0] == seen[1] and seen[0][0] >= 0

    run(main())
