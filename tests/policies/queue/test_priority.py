"""The lowest priority number first, then by arrival: in an engine, whoever waits."""

from __future__ import annotations

from typing import Any

from poise.core.engine.replica import Replica
from poise.core.spec import Engine
from poise.policies import Policies
from poise.policies.queue.priority import Priority
from poise.testing import Client, LinearCost, a_request, drive


def test_the_key_is_the_priority() -> None:
    assert [Priority().queue(a_request(priority=priority)) for priority in (3, -1)] == [3, -1]


def test_an_engine_serves_in_that_order() -> None:
    cost: Any = LinearCost(step_s=1.0)
    engine = Engine(max_sequences=1)
    replica = Replica(engine, cost, 100, Policies(queue=Priority()))
    priorities = (5, 2, 0, 2, 1)
    clients = [
        Client(a_request(id=number, priority=priority, arrived_at=number), 3)
        for number, priority in enumerate(priorities)
    ]
    done = [request for _, what, request in drive(replica, clients) if what == "done"]
    assert done == [0, 2, 4, 1, 3], "the first is running when the others come"
