"""What the gateway knows of programs: turn and begin of each session; and programs first come, first served, live."""

from __future__ import annotations

from poise.core.event import Arrived
from poise.live.gateway.names import Begun
from poise.live.wire.loop import run
from poise.policies.admit.ceiling import Ceiling
from poise.policies.order.program_fcfs import ProgramOrder
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


def test_an_early_program_goes_ahead_of_later_ones_that_wait() -> None:
    async def main() -> None:
        order = ProgramOrder()
        async with Live(1, order=order, admission=(Ceiling(requests=1),)) as live:
            first = await live.ask("first of a", 2, headers=[(b"x-session-id", b"a")]).wait()
            assert first.whole
            names = (b"b", b"c", b"d", b"a")
            answers = [live.ask("more", 20, headers=[(b"x-session-id", name)]) for name in names]
            for answer in answers:
                assert (await answer.wait()).whole
            asked = [event.request for event in live.trace.events if isinstance(event, Arrived)]
            sent = [action.request for action in live.trace.actions if type(action).__name__ == "Dispatch"]
            session = {request.id: request.session for request in asked}
            turns = {request.id: request.turn for request in asked}
            assert sorted(turns.values()) == [0, 0, 0, 0, 1]
            goes_on = next(request for request in asked if request.turn == 1)
            assert goes_on.begun_at == asked[0].arrived_at
            waited = [request for request in sent if session[request] != asked[0].session][1:]
            assert sent.index(goes_on.id) < min(sent.index(request) for request in waited), "ahead of all that waited"

    run(main())
