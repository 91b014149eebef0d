"""A log of recent routing decisions; what the router saw and scored is recorded only while a page is open."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from poise.core.action import Action, Dispatch, Hold, Move, Refuse, Reject, Route
from poise.core.event import Arrived, Event, Refused
from poise.core.fast_tuple import made
from poise.core.request import RequestView
from poise.core.units import SECOND
from poise.core.view import ClusterView
from poise.live.admin.observed_policy import ObservedPolicy, plain, seen
from poise.live.gateway.world import World

KEPT: Final = 512
"""Decisions kept."""
GROUNDS: Final = 50
"""Decisions a second for which the router's view is recorded; the rest have none, so that an open page costs little."""
COLUMNS: Final = ("requests", "waiting", "running", "queued_tokens", "tokens", "free_blocks")

SENT, HELD, REFUSED, MOVED = "sent", "held", "refused", "moved"


class Reasons(NamedTuple):
    """What a router saw of each engine that it could choose, in order of `slots`, and its scores.

    columns: of the view, by name, those alone that are kept up to date; `cached_tokens` is that of the request.
    measured_at: picoseconds, 0 for never.  shadow: the slot that the shadow router chose, -1 for none.
    """

    slots: tuple[int, ...]
    names: tuple[str, ...]
    columns: dict[str, tuple[int, ...]]
    measured_at: tuple[int, ...]
    reason: str
    shadow: int


class Decision(NamedTuple):
    """One decision. number: consecutive.  at, waited: picoseconds.  outcome: one of the four words above.

    engine, decode: names; `decode` where it is another one.  reason: why it was not sent, or why again.
    """

    number: int
    at: int
    request: int
    tenant: str
    model: int
    prompt_tokens: int
    waited: int
    outcome: str
    engine: str
    decode: str
    reason: str
    grounds: Reasons | None


class Receipts:
    """Keeps the last decisions of a world; between `open` and `close` it also records what the router saw."""

    def __init__(self, world: World, kept: int = KEPT) -> None:
        self._world = world
        self._trips = world.proxied_requests
        self._slots = world.fleet.slots
        self.kept: deque[Decision] = deque(maxlen=kept)
        self.count = 0
        self._noted: dict[int, Reasons] = {}
        self._shadow: dict[int, int] = {}
        self._second = self._in_second = 0
        world.onlooker = self.decided

    def since(self, number: int) -> list[Decision]:
        """The kept decisions with a greater number."""
        fresh = min(self.count - number, len(self.kept))
        return list(islice(self.kept, len(self.kept) - fresh, None)) if fresh > 0 else []

    # Every decision --------------------------------------------------------------------------------------------------

    def decided(self, event: Event, actions: Sequence[Action]) -> None:
        """Called when Control has answered an event, before its actions are performed."""
        if len(actions) == 1 and type(event) is Arrived and not self._noted:  # mostly: no page is open, and it is sent
            action = actions[0]
            if type(action) is Dispatch:
                at, view, _ = event
                request, slot, decode, _ = action
                engine = self._slots[slot]
                if request == view.id and decode == slot and engine is not None:
                    self.count = number = self.count + 1
                    tenant, name = self._trips[request].tenant, engine.name
                    row = (number, at, request, tenant, view.model, view.prompt_tokens, 0, SENT, name, "", "", None)
                    self.kept.append(made(Decision, row))
                    return
        self._each(event, actions)

    def _each(self, event: Event, actions: Sequence[Action]) -> None:
        waits = type(event) is Arrived
        for action in actions:
            kind = type(action)
            if kind is Dispatch:
                self._sent(event, action)  # type: ignore[arg-type]
            elif kind is Refuse:
                self._keep(event, action.request, REFUSED, "", "", action.reason)  # type: ignore[union-attr]
            elif kind is Move:
                target = self._name(action.target)  # type: ignore[union-attr]
                self._keep(event, action.request, MOVED, target, "", f"from {self._name(action.source)}")  # type: ignore[union-attr]
            else:
                continue
            if waits and action.request == event.request.id:  # type: ignore[union-attr]
                waits = False
        if waits:
            self._held(event)  # type: ignore[arg-type]
        if self._noted:
            self._noted.clear()
            self._shadow.clear()

    def _sent(self, event: Event, action: Dispatch) -> None:
        decode = "" if action.decode == action.replica else self._name(action.decode)
        again = event.reason if type(event) is Refused and event.request == action.request else ""
        self._keep(event, action.request, SENT, self._name(action.replica), decode, again)

    def _held(self, event: Arrived) -> None:
        request = event.request
        if request.id in self._noted:
            reason = ""  # it says so itself
        elif not self._world.control.state.able(request):
            reason = "no engine can take it now"
        else:
            reason = "others wait before it" if len(self._world.control.held) > 1 else ""
        self._keep(event, request.id, HELD, "", "", reason)

    def _keep(self, event: Event, request: int, outcome: str, engine: str, decode: str, reason: str) -> None:
        proxied = self._trips.get(request)
        if proxied is None:
            return
        view = proxied.view
        grounds = self._noted.get(request) if self._noted else None
        if grounds is not None and not reason:
            reason = grounds.reason
        self.count += 1
        self.kept.append(
            made(
                Decision,
                (
                    self.count, event.at, request, proxied.tenant, view.model, view.prompt_tokens,
                    event.at - view.arrived_at, outcome, engine, decode, reason, grounds,
                ),
            )
        )  # fmt: skip

    def _name(self, slot: int) -> str:
        engine = self._slots[slot]
        return "" if engine is None else engine.name

    # What the router saw ---------------------------------------------------------------------------------------------

    def open(self) -> None:
        """A page is open: record what the router sees from now on, also for policies exchanged later."""
        control = self._world.control
        if not isinstance(control.router, ObservedPolicy):
            shadow = getattr(control.router, "shadow", None)
            if shadow is not None:
                control.router.shadow = seen(plain(shadow), self._note_shadow)
            control.router = seen(control.router, self._note)
        if not all(isinstance(each, ObservedPolicy) for each in control.admission):
            control.admission = tuple(seen(plain(each), self._note_admission) for each in control.admission)

    def close(self) -> None:
        """No page is open any more."""
        control = self._world.control
        control.router = plain(control.router)
        if hasattr(control.router, "shadow"):
            control.router.shadow = plain(control.router.shadow)
        control.admission = tuple(plain(each) for each in control.admission)
        self._noted.clear()
        self._shadow.clear()

    def _note_shadow(self, request: RequestView, cluster: ClusterView, answer: Any) -> None:
        if cluster.stage == "serve":
            self._shadow[request.id] = answer.replica if type(answer) is Route else -1

    def _note_admission(self, request: RequestView, cluster: ClusterView, answer: Any) -> None:
        if not answer:
            answer = Hold("every engine has as much as it may be sent")
        if type(answer) in (Hold, Reject):
            self._note(request, cluster, answer)

    def _note(self, request: RequestView, cluster: ClusterView, answer: Any) -> None:
        """Record what the view shows of the engines that may be chosen."""
        second = cluster.now // SECOND
        if second != self._second:
            self._second, self._in_second = second, 0
        if cluster.stage != "serve" or self._in_second >= GROUNDS or len(self._noted) >= GROUNDS:
            return
        self._in_second += 1
        state = self._world.control.state
        slots = tuple(state.able(request))
        kept = {"requests", *state.reported}
        columns: dict[str, tuple[int, ...]] = {
            name: tuple(getattr(state, name)[slot] for slot in slots) for name in COLUMNS if name in kept
        }
        if state.prefix is not None:
            cached = state.cached_tokens(request)
            columns["cached_tokens"] = tuple(cached[slot] for slot in slots)
        self._noted[request.id] = Reasons(
            slots,
            tuple(self._name(slot) for slot in slots),
            columns,
            tuple(state.measured_at[slot] for slot in slots),
            answer.reason if type(answer) in (Hold, Reject) else "",
            self._shadow.get(request.id, -1),
        )
