"""What the gateway knows of programs: turn and begin of each session; and programs first come, first served, live."""

from __future__ import annotations

from poise.core.action import Dispatch
from poise.core.control.control import Control
from poise.core.event import Arrived, Finished
from poise.core.spec import ReplicaSpec
from poise.live.http.loop import run
from poise.live.requests.names import Begun
from poise.policies import Policies
from poise.policies.admit.ceiling import Ceiling
from poise.policies.order.program_fcfs import ProgramOrder
from poise.policies.route.least_requests import LeastRequests
from poise.testing import a_request
from tests.live.gateway.live import Live


def test_turns_count_and_the_first_tells_when_a_session_began() -> None:
    begun = Begun(100)
    assert [begun.next(session, at) for session, at in ((4, 10), (5, 20), (4, 30), (-1, 40), (4, 50))] == [
        (0, 10), (0, 20), (1, 10), (0, 40), (2, 10),
    ]  # fmt: skip


def test_no_more_sessions_are_remembered_than_may_be() -> None:
    begun = Begun(2)
    for session, at in ((1, 1), (2, 2), (1, 3), (3, 4)):
        begun.next(session, at)
    assert len(begun) == 2
    assert begun.next(1, 5) == (2, 1), "met of late"
    assert begun.next(2, 6) == (0, 6), "forgotten, so it begins anew"


def test_policies_are_notified_at_the_gateway() -> None:
    async def main() -> None:
        async with Live(1) as live:
            for name in (b"a", b"b", b"a"):
                assert (await live.ask("more", 2, headers=[(b"x-session-id", name)]).wait()).whole
            first, other, later = [event.request for event in live.trace.events if isinstance(event, Arrived)]
            assert (first.turn, other.turn, later.turn) == (0, 0, 1)
            assert first.begun_at == later.begun_at == first.arrived_at
            assert other.begun_at == other.arrived_at > first.arrived_at

    run(main())


def test_of_those_that_are_held_the_early_program_goes_first() -> None:
    control = Control(
        Policies(router=LeastRequests(), order=ProgramOrder(), admission=(Ceiling(requests=1),)), [ReplicaSpec()]
    )
    begun, sent = {0: 0, 1: 1, 2: 2, 3: 0}, []
    for number, begun_at in begun.items():
        request = a_request(id=number, arrived_at=number, begun_at=begun_at, session=begun_at)
        sent += control.handle(Arrived(number, request, 0))
    for number in (0, 3, 1):
        sent += control.handle(Finished(10 + number, number, 1))
    assert [action.request for action in sent if isinstance(action, Dispatch)] == [0, 3, 1, 2]
