"""Scalers as `Control` asks them: when, of what they are shown, and what becomes of their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from poise.core.action import Dispatch, Hold, Scale
from poise.core.chance import Chance
from poise.core.control.control import Control
from poise.core.errors import PolicyError
from poise.core.event import Arrived, Draining, Event, ReplicaJoined, ReplicaLeft, ReplicaLost, Tick
from poise.core.records.header import header, pools_of
from poise.core.records.trace import Trace, replay
from poise.core.spec import Belief, PoolSpec, ReplicaSpec
from poise.core.units import SECOND
from poise.core.view import FleetView
from poise.policies import Policies
from poise.testing import a_request
from tests.core.scripted import Scripted, bundled, first_able

Rule = Callable[[FleetView], Sequence[Any]]


class Ruled:
    """Answers as a function says, and keeps what it was shown."""

    needs = ("requests",)

    def __init__(self, rule: Rule, period_s: float = 2.0) -> None:
        self.rule = rule
        self.period_s = period_s

    def scale(self, cluster: FleetView, chance: Chance) -> Sequence[Scale]:
        return self.rule(cluster)


def control(rule: Rule, *, up: int = 1, slots: int = 3, pool: PoolSpec | None = None, **given: Any) -> Control:
    specs = [ReplicaSpec(up=number < up, pool=0) for number in range(slots)]
    pools = [pool or PoolSpec("chat", up, 1, slots)]
    policies = bundled(given, router=Scripted(first_able), scaler=Ruled(rule))
    return Control(policies, specs, pools=pools, belief=Belief(), **given)


def scales(ours: Control, *events: Event) -> list[Scale]:
    return [each for each in replay(events, ours) if isinstance(each, Scale)]


def test_it_is_called_at_the_first_tick_behind_each_multiple_of_its_period() -> None:
    requests: list[int] = []
    ours = control(lambda cluster: requests.append(cluster.now) or [])
    replay([Tick(at * SECOND) for at in (1, 2, 3, 4, 9, 9, 10)], ours)
    assert requests == [SECOND, 2 * SECOND, 4 * SECOND, 9 * SECOND, 10 * SECOND]
    assert ours.scaling is not None and ours.scaling.beat == 2 * SECOND


def test_answers_are_held_to_the_bounds_and_sent_once() -> None:
    sizes = iter((9, 3, 0, 1))
    ours = control(lambda cluster: [Scale(0, next(sizes))])
    ticks = [Tick(2 * at * SECOND) for at in range(1, 5)]
    assert scales(ours, *ticks) == [Scale(0, 3), Scale(0, 1)], "9 is 3, 3 and then 1 are no change"


def test_what_a_scaler_is_shown() -> None:
    seen: list[tuple[Any, ...]] = []

    def look(cluster: FleetView) -> list[Scale]:
        (pool,) = cluster.pools
        seen.append((pool.name, pool.wanted, tuple(pool.serving), pool.held, pool.min_replicas, pool.max_replicas))
        return [Scale(0, 2)]

    ours = control(look, up=0, pool=PoolSpec("chat", 0, 0, 3))
    events = [Arrived(0, a_request(id=1)), Tick(SECOND), ReplicaJoined(3 * SECOND, 1), Tick(4 * SECOND)]
    actions = replay(events, ours)
    assert seen == [("chat", 0, (), 1, 0, 3), ("chat", 2, (1,), 0, 0, 3)]
    assert actions == [Scale(0, 2), Dispatch(1, 1, 1, True)]


def test_a_slot_that_was_left_may_be_filled_again() -> None:
    """Without a scaler nobody would ever come, and the request were hopeless."""
    ours = control(lambda cluster: [])
    events = [Draining(1, 0), ReplicaLeft(2, 0), Arrived(3, a_request(id=1))]
    assert replay(events, ours) == []
    assert replay([ReplicaJoined(4, 0)], ours) == [Dispatch(1, 0, 0, True)]
    assert replay([ReplicaLost(5, 0)], ours) == []
    assert replay([ReplicaJoined(6, 2)], ours) == [Dispatch(1, 2, 2, True)]


@pytest.mark.parametrize("answer", [[Scale(1, 1)], [Scale(-1, 1)], [Hold("no")], [(0, 1)], [Scale(0, 1, -1)]], ids=str)
def test_an_answer_that_cannot_be_meant(answer: list[Any]) -> None:
    with pytest.raises(PolicyError, match=r"Ruled answers .* must be a Scale of one of the pools 0 to 0"):
        replay([Tick(0)], control(lambda cluster: answer))


def test_a_period_of_nothing_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"period_s is 0\.0"):
        Control(Policies(router=Scripted(first_able), scaler=Ruled(lambda cluster: [], 0.0)), [])


def test_a_forecast_looks_as_far_as_a_start_takes() -> None:
    spans: list[int] = []
    rates: list[float] = []

    class Seer:
        def forecast(self, now: int, until: int, chance: Chance) -> float:
            spans.append((until - now) // SECOND)
            return 7.5

    spec = PoolSpec("chat", 1, 1, 3, start_s=42.0)
    ours = control(lambda cluster: rates.append(cluster.rate) or [], pool=spec, forecast=Seer())
    replay([Tick(0)], ours)
    assert (spans, rates) == ([42], [7.5])
    rates.clear()
    replay([Tick(0)], control(lambda cluster: rates.append(cluster.rate) or []))
    assert rates == [-1.0]


def test_scales_are_written_and_read_and_so_are_pools() -> None:
    trace = Trace()
    trace.add(Scale(2, 5, 1))
    assert list(trace.actions) == [Scale(2, 5, 1)]
    pools = [PoolSpec("chat", 1, 0, 4, 2, 30.0, 8.0)]
    assert pools_of(header([], Belief(), {}, pools=pools)) == pools
    assert pools_of({}) == []
