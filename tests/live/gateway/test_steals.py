"""Sessions stolen at the gateway: an engine that idles takes one from a full engine, and no request is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from poise.core.action import Dispatch, Move, Route
from poise.core.chance import Chance
from poise.core.control.control import Control
from poise.core.event import Measured, Moved, MoveFailed
from poise.core.records.trace import replay
from poise.core.request import RequestView
from poise.core.spec import ReplicaSpec, Role
from poise.core.view import ClusterView
from poise.live.discovery.address import Engine as Place
from poise.live.emulator.options import Options
from poise.live.gateway.fleet import EngineAt
from poise.policies import Policies
from poise.policies.route.saga import Saga
from tests.live.gateway.fakes import Bench
from tests.live.gateway.live import MODEL, Live
from tests.live.warp import run

ONE_AT_A_TIME = Options(MODEL, port=0, speed=20.0, max_num_seqs=1)


def saga() -> Saga:
    return Saga(idle_s=0.02, steal=1.5)


def test_a_session_is_stolen_and_goes_on_where_it_was_taken_to() -> None:
    async def main() -> None:
        async with Live([ONE_AT_A_TIME] * 2, saga()) as live:
            headers = [(b"x-session-id", b"agent")]
            answers = [live.ask(f"Branch {number}: " + "all of it. " * 60, 600, headers=headers) for number in range(6)]
            for answer in answers:
                assert (await answer.wait()).whole, answer.error
            moves = [action for action in live.trace.actions if isinstance(action, Move)]
            homes = {action.replica for action in live.trace.actions if isinstance(action, Dispatch)}
            assert len(homes) == 1 and moves[0].source in homes, "all are sent home, and some are taken from there"
            assert any(isinstance(event, Moved) for event in live.trace.events)
            assert all(engine.core.metrics.whole.count for engine in live.engines), "both have answered"

            assert (await live.ask("And then?", 2, headers=headers).wait()).whole
            last = [action for action in live.trace.actions if isinstance(action, Dispatch)][-1]
            assert last.replica == moves[-1].target, "the next turn of the session"
            await live.check_balance()
            again = Control(Policies(router=saga()), [ReplicaSpec(up=False)] * 3, tries=3, resume=False)
            assert replay(live.trace.events, again) == list(live.trace.actions)

    run(main())


@dataclass
class Takes:
    """Sends all to replica 0, with 2 for the output, and at the next look moves it along `way`."""

    way: tuple[int, int]
    needs: tuple[str, ...] = ("flights",)
    done: list[int] = field(default_factory=list)

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        return Route(0, 2)

    def move(self, cluster: ClusterView) -> Sequence[Move]:
        source, target = self.way
        flights = [each.request.id for each in cluster.flights(source) if not self.done]
        self.done += flights
        return [Move(request, source, target) for request in flights]


def pairs(move: tuple[int, int]) -> Bench:
    """Two engines for prompts and two for outputs, and a request whose prompt the first computes."""
    bench = Bench(0, Takes(move), slots=4)
    roles: tuple[Role, ...] = ("prefill", "prefill", "decode", "decode")
    for number, role in enumerate(roles):
        engine = bench.world.fleet.add(EngineAt(Place(f"e{number}", "127.0.0.1", 1), role=role))
        assert engine is not None
        bench.world.fleet.join(engine, engine.spec._replace(up=True))
        bench.engines.append(engine)
    bench.ask(body=b'{"model": "m"}')
    return bench


def look(bench: Bench) -> None:
    bench.world.turn(Measured(bench.now, bench.now, 0, {}))


def test_a_prompt_that_is_moved_keeps_its_partner() -> None:
    bench = pairs((0, 1))
    look(bench)
    (prefill,) = bench.calls
    assert prefill.pool is bench.pool(1) and b"do_remote_decode" in prefill.body
    prefill.answer(b'{"kv_transfer_params": {"remote_host": "e1"}}')
    (decode,) = bench.calls
    assert decode.pool is bench.pool(2) and b'"e1"' in decode.body
    decode.answer()
    bench.check_balance()


@pytest.mark.parametrize("answered", [False, True])
def test_an_output_stays_where_its_kv_went(answered: bool) -> None:
    bench = pairs((2, 3))
    bench.calls[0].answer(b'{"kv_transfer_params": {}}')
    (decode,) = bench.calls
    if answered:
        decode.head()
        decode.data(b"data: x\n\n")
    look(bench)
    assert any(isinstance(event, MoveFailed) for event in bench.trace.events)
    assert bench.calls == [decode] and not decode.cancelled
    if answered:
        decode.end()
    else:
        decode.answer()
    bench.check_balance()
