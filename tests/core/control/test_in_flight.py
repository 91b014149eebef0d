"""Whatever happens, and in whatever order: Control keeps every open request in one place, and its counts add up."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from poise.core.action import Abort, Decision, Dispatch, Hedge, Hold, Refuse, Reject, Route, Wake
from poise.core.control.control import Control
from poise.core.control.state import DRAINING, GONE, SERVING, STARTING
from poise.core.event import (
    Arrived,
    Cancelled,
    Draining,
    Event,
    Finished,
    FirstToken,
    Prefilled,
    Refused,
    ReplicaJoined,
    ReplicaLeft,
    ReplicaLost,
    Tick,
)
from poise.core.request import RequestView
from poise.core.spec import ReplicaSpec, Role
from poise.core.view import ClusterView
from tests.core.scripted import Hasty, a_control, a_request

LAYOUTS: dict[str, list[Role]] = {
    "mixed": ["mixed", "mixed", "mixed"],
    "pairs": ["prefill", "prefill", "decode", "decode"],
    "both": ["mixed", "prefill", "decode"],
}


def moody(request: RequestView, cluster: ClusterView) -> Decision:
    """Route mostly, hold and reject now and then, always the same for the same input."""
    mood = (request.id * 7 + cluster.now * 3) % 11
    able = cluster.able(request)
    if cluster.stage == "serve" and mood == 0:
        return Reject("mood")
    if mood in (1, 2):
        return Hold("mood", wake_at=cluster.now + 2 if mood == 1 else 0)
    return Route(able[mood % len(able)], fallback=tuple(able) if mood > 7 else ())


class Books(RuleBasedStateMachine):
    """A world that does what it is told and tells what happens, with no engines in it."""

    @initialize(layout=st.sampled_from(sorted(LAYOUTS)), last_up=st.booleans(), hedged=st.booleans())
    def begin(self, layout: str, last_up: bool, hedged: bool) -> None:
        roles = LAYOUTS[layout]
        specs = [ReplicaSpec(role=role, capacity_tokens=50) for role in roles[:-1]]
        specs.append(ReplicaSpec(role=roles[-1], up=last_up))
        self.control: Control = a_control(moody, specs, hedge=Hasty(1) if hedged else None)
        specs.pop()
        self.status = [SERVING] * len(specs) + [SERVING if last_up else STARTING]
        self.open: dict[int, Dispatch | None] = {}  # where each open request was sent; None: held
        self.places: dict[int, set[int]] = {}  # where each request was sent last
        self.copies: dict[int, int] = {}  # where a second copy of it is
        self.done: set[int] = set()
        self.now = self.count = 0

    def tell(self, event: Event, ended: int = -1) -> None:
        """Tell Control, and do what it says."""
        if ended >= 0:
            del self.open[ended]
        for action in self.control.handle(event):
            if isinstance(action, Dispatch):
                assert self.open[action.request] is None, "sent twice"
                assert self.status[action.replica] == SERVING
                assert self.status[action.decode] == SERVING or not isinstance(event, Arrived | Tick)
                self.open[action.request] = action
                self.places[action.request] = {action.replica, action.decode}
            elif isinstance(action, Refuse):
                assert self.open.pop(action.request) is None, "refused while it was somewhere"
            elif isinstance(action, Hedge):
                sent = self.open[action.request]
                assert sent is not None and sent.replica == sent.decode != action.replica
                assert action.request not in self.copies and self.status[action.replica] == SERVING
                self.copies[action.request] = action.replica
                self.places[action.request].add(action.replica)
            elif isinstance(action, Abort):
                assert action.replica in self.places[action.request], "stopped where it never was"
                assert event != ReplicaLost(event.at, action.replica), "stopped where nothing is left"
            else:
                assert isinstance(action, Wake)
                assert action.at > event.at

    @rule(passed=st.integers(0, 3), prompt=st.sampled_from([10, 10, 49, 50]))
    def arrive(self, passed: int, prompt: int) -> None:
        self.now += passed
        self.open[self.count] = None
        self.count += 1
        self.tell(Arrived(self.now, a_request(self.count - 1, self.now, prompt)))

    @rule(passed=st.integers(0, 3))
    def tick(self, passed: int) -> None:
        self.now += passed
        self.tell(Tick(self.now))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(sorted(self.open)))
        self.done.discard(request)
        self.copies.pop(request, None)
        self.tell(Cancelled(self.now, request, "left"), request)

    @precondition(lambda self: any(self.open.values()))
    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        """A request ends, or its prompt does where another replica goes on."""
        request = data.draw(st.sampled_from([request for request, sent in self.open.items() if sent]))
        sent = self.open[request]
        assert sent is not None
        copy = self.copies.pop(request, None)
        if copy is not None:
            first, last = data.draw(st.permutations([copy, sent.replica]))
            self.open[request] = sent._replace(replica=first, decode=first)
            actions = self.control.handle(FirstToken(self.now, request, first))
            assert actions[0] == Abort(request, last)
        elif sent.replica != sent.decode and request not in self.done:
            self.done.add(request)
            self.tell(Prefilled(self.now, request, sent.replica))
        else:
            self.done.discard(request)
            self.tell(Finished(self.now, request, 3), request)

    @precondition(lambda self: any(sent and request not in self.done for request, sent in self.open.items()))
    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        able = [request for request, sent in self.open.items() if sent and request not in self.done]
        request = data.draw(st.sampled_from(able))
        sent = self.open[request]
        assert sent is not None
        copy = self.copies.pop(request, None)
        if copy is None:
            self.open[request] = None
            self.tell(Refused(self.now, request, sent.replica, "full"))
            return
        gone, left = data.draw(st.permutations([copy, sent.replica]))
        self.open[request] = sent._replace(replica=left, decode=left)
        self.tell(Refused(self.now, request, gone, "full"))
        assert request in self.control.flights, "the other copy goes on"

    @rule(data=st.data(), what=st.sampled_from([Draining, ReplicaLost, ReplicaJoined, ReplicaLeft]))
    def change(
        self, data: st.DataObject, what: type[Draining] | type[ReplicaLost] | type[ReplicaJoined] | type[ReplicaLeft]
    ) -> None:
        """A replica comes or goes; a drained one leaves when nothing is there."""
        before = {
            Draining: (SERVING,),
            ReplicaLost: (SERVING, DRAINING),
            ReplicaJoined: (STARTING, GONE),
            ReplicaLeft: (DRAINING,),
        }[what]
        able = [number for number, status in enumerate(self.status) if status in before]
        if what is ReplicaLeft:
            busy = {place for sent in self.open.values() if sent for place in (sent.replica, sent.decode)}
            busy |= set(self.copies.values())
            able = [number for number in able if number not in busy]
        if not able:
            return
        number = data.draw(st.sampled_from(able))
        self.status[number] = {Draining: DRAINING, ReplicaLost: GONE, ReplicaJoined: SERVING, ReplicaLeft: GONE}[what]
        if what is ReplicaLost:
            for request, sent in self.open.items():
                copy = self.copies.get(request, -1)
                if sent and copy >= 0 and number in (copy, sent.replica):
                    left = sent.replica if copy == number else self.copies[request]
                    del self.copies[request]
                    self.open[request] = sent._replace(replica=left, decode=left)
                elif sent and (sent.decode == number or (sent.replica == number and request not in self.done)):
                    self.open[request] = None
                    self.done.discard(request)
        self.tell(what(self.now, number))

    @invariant()
    def every_open_request_is_in_one_place(self) -> None:
        if not hasattr(self, "control"):
            return
        held = [request.id for request in self.control.held]
        assert len(set(held)) == len(held)
        assert set(held) == {request for request, sent in self.open.items() if sent is None}
        assert set(self.control.flights) == {request for request, sent in self.open.items() if sent}

    @invariant()
    def requests_in_flight_add_up(self) -> None:
        if not hasattr(self, "control"):
            return
        counts = [0] * len(self.status)
        for request, sent in self.open.items():
            if sent is None:
                continue
            if request not in self.done:
                counts[sent.replica] += 1
                if request in self.copies:
                    counts[self.copies[request]] += 1
            if sent.decode != sent.replica:
                counts[sent.decode] += 1
        assert list(self.control.state.requests) == counts


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=200, stateful_step_count=30)
