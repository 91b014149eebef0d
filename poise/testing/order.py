"""`check_order`: the contract of the gateway's orders as one function, for any order."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from poise.core.event import Arrived, Cancelled, Finished
from poise.core.policy import Order
from poise.core.request import RequestView
from poise.testing.router import Situation, needs_of, sessions
from poise.testing.rule import calling
from poise.testing.twins import Twins


def check_order(make: Callable[[], Order], *, seed: int = 0) -> None:
    """Raise `RuleBroken` at the first rule of `policy.Order` that the orders which `make()` builds do not keep.

    The rules: `needs`, if there are any, names columns of the view, and no other is read; equal fresh copies with equal
    inputs give the same flows, keys and ranks, deep copies too; the view stays untouched; a flow can be hashed;
    keys of a flow, and ranks of flows, can be compared.
    Tried on requests of several tenants and models that are queued, sent, returned, ended and abandoned.
    """
    name = getattr(make, "__name__", repr(make))
    with calling(f"{name}()", "an order is built without arguments here; give a function that builds it"):
        first = make()
    who = type(first).__name__
    needs = needs_of(who, first) if hasattr(first, "needs") else ()
    rng = random.Random(seed)
    for session in sessions(rng, steps=40):
        _Play(Twins(who, make), needs, rng).run(session)


class _Play:
    """Requests that pass through one gateway with an order."""

    def __init__(self, twins: Twins, needs: tuple[str, ...], rng: random.Random) -> None:
        self.twins = twins
        self.needs = needs
        self.rng = rng
        self.waiting: dict[int, tuple[Any, Any, RequestView]] = {}
        self.sent: dict[int, RequestView] = {}

    def run(self, session: list[Situation]) -> None:
        """Each situation is an arrival, and one further event."""
        for number, situation in enumerate(session):
            if number == len(session) // 2:
                self.twins.join_copy()
            self.twins.where = str(situation)
            self.twins.ask("observe", Arrived(situation.request.arrived_at, situation.request))
            self._join(situation.request)
            for what in self.rng.choices((self._send, self._finish, self._give_up, self._come_back), (6, 5, 1, 1), k=2):
                what(situation)

    def _join(self, request: RequestView) -> None:
        ask = self.twins.ask
        ask("joined", request)
        flow, key = ask("flow", request), ask("key", request)
        with calling(f"{self.twins.who}.flow", f"{flow!r} cannot be hashed"):
            hash(flow)
        others = [other for each, other, _ in self.waiting.values() if each == flow]
        with calling(f"{self.twins.who}.key", f"{key!r} cannot be compared with {others!r}"):
            sorted([key, *others])
        self.waiting[request.id] = flow, key, request

    def _send(self, situation: Situation) -> None:
        """The head of the flow that goes first is sent to one of the able."""
        able = situation.view(()).able(situation.request)
        if not self.waiting or not able:
            return
        flows = list({flow: None for flow, _, _ in self.waiting.values()})
        ranks = [self.twins.ask("order", flow, view=lambda: situation.view(self.needs)) for flow in flows]
        with calling(f"{self.twins.who}.order", f"{ranks!r} cannot be compared"):
            first = flows[ranks.index(min(ranks))]
        _, _, request = min((key, request.id, request) for flow, key, request in self.waiting.values() if flow == first)
        del self.waiting[request.id]
        self.sent[request.id] = request
        self.twins.ask("taken", request, self.rng.choice(able), view=lambda: situation.view(self.needs))

    def _finish(self, situation: Situation) -> None:
        if self.sent:
            request = self.sent.pop(self.rng.choice(sorted(self.sent)))
            self.twins.ask("observe", Finished(situation.request.arrived_at, request.id, self.rng.randrange(1, 500)))
            self.twins.ask("ended", request)

    def _give_up(self, situation: Situation) -> None:
        if self.waiting:
            _, _, request = self.waiting.pop(self.rng.choice(sorted(self.waiting)))
            self.twins.ask("observe", Cancelled(situation.request.arrived_at, request.id, "gone"))
            self.twins.ask("ended", request)

    def _come_back(self, situation: Situation) -> None:
        if self.sent:
            self._join(self.sent.pop(self.rng.choice(sorted(self.sent))))
