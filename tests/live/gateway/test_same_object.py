"""One policy object simulated, live before real sockets, and replayed: equal events, equal decisions."""

from __future__ import annotations

import copy
import pickle

import pytest

from poise.catalogue import device, model
from poise.core.control.control import Control
from poise.core.policy import Router
from poise.core.records.trace import Trace, replay
from poise.core.spec import Belief, Cluster, Pool, ReplicaSpec
from poise.cost import Roofline
from poise.live.http.loop import run
from poise.policies import Policies
from poise.policies.find import build, names
from poise.scenario.simulate import build_world
from poise.sim.terms import Saving
from poise.workload import poisson
from poise.workload.turns import sessions
from tests.live.gateway.live import Live


def decided(trace: Trace, control: Control) -> None:
    """A control that is told the same events decides the same, byte for byte."""
    again = replay(trace.events, control)
    assert again == list(trace.actions)
    assert [type(action) for action in again] == [type(action) for action in trace.actions]


def simulated(router: Router) -> tuple[Trace, Control]:
    """What happens and is decided in a simulation, and a fresh control of its kind."""
    trace = Trace()
    cluster = Cluster((Pool(model("llama-3.1-8b"), device("H100"), replicas=3),))
    chats = sessions(poisson(8.0, requests=40, prompt_tokens=700, output_tokens=60, seed=5), turns=3, seed=5)
    world = build_world(
        cluster, chats, Policies(router=router), Roofline(), Belief(), seed=3, saving=Saving(trace=trace)
    )
    fresh = copy.deepcopy(world.control)
    world.simulate()
    return trace, fresh


async def served(router: Router) -> tuple[Trace, Control]:
    """What happens and is decided live, and a fresh control of its kind."""
    async with Live(3, router) as live:
        fresh = Control(Policies(router=router), [ReplicaSpec(up=False)] * 4, tries=3, resume=False)
        answers = []
        for number in range(60):
            headers = [(b"x-session-id", str(number % 9).encode())]
            prompt = f"Tell me of thing {number % 5}. " * 40 + f"And of {number}."
            answers.append(live.ask(prompt, 1 + number % 20, headers=headers))
            if number % 10 == 9:
                await answers[-9].wait()
                call = answers[-1].call
                assert call is not None
                call.cancel()
            if number == 30:
                live.engines[0].fault("cut", count=2, after_tokens=0)
        for number, answer in enumerate(answers):
            if number % 10 != 9:
                await answer.wait()
        await live.check_balance()
        return live.trace, fresh


@pytest.mark.parametrize("name", names("router"))
def test_every_router_decides_the_same_in_all_worlds(name: str) -> None:
    router = build("router", name)
    before = pickle.dumps(router)
    for trace, control in (simulated(router), run(served(router))):
        kinds = {type(action).__name__ for action in trace.actions}
        assert "Dispatch" in kinds
        decided(trace, control)
    assert pickle.dumps(router) == before, "the object itself was never changed: each control has a copy"


def test_events_of_one_world_are_understood_in_the_other() -> None:
    """What was recorded live, told to a control that a simulation made, gives what was done live."""
    router = build("router", "cache_aware")
    trace, _ = run(served(router))
    control = Control(
        Policies(router=router), [ReplicaSpec(up=False)] * 4, tries=3, resume=False, seed=0, belief=Belief()
    )
    decided(trace, control)
