"""`check_hedge`: the contract of hedgers as one function, for any hedger."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

from poise.core.event import Arrived, FirstToken
from poise.core.policy import Hedger
from poise.core.slot import SLOTS
from poise.testing.builders import a_chance
from poise.testing.columns import ClusterColumns
from poise.testing.router import Situation, needs_of, sessions
from poise.testing.rule import RuleBroken
from poise.testing.twins import Twins, twins


def check_hedge(make: Callable[[], Hedger], *, seed: int = 0) -> None:
    """Raise `RuleBroken` at the first rule of `policy.Hedger` that the hedgers which `make()` builds do not keep.

    The rules: `needs` names columns of the view, and no other is read; equal fresh copies that see the same answer the
    same, deep copies too; the view stays untouched; `wait` answers whole picoseconds, 0 for never; and the second
    replica is one of the able, or None. Tried on many clusters, with first tokens that come soon, late and never.
    """
    _, first = twins("hedge", make)
    needs, rng = needs_of(type(first).__name__, first), random.Random(seed)
    for session in sessions(rng, steps=40):
        _play(twins("hedge", make)[0], needs, rng, session)


def _play(both: Twins, needs: tuple[str, ...], rng: random.Random, session: list[Situation]) -> None:
    for number, (situation, later) in enumerate(pairwise(session)):
        if number == len(session) // 2:
            both.join_copy()
        request, able = situation.request, situation.view(()).able(situation.request)
        if not able:
            continue
        replica, both.where = rng.choice(list(able)), str(situation)

        def view(situation: Situation = situation) -> ClusterColumns:
            return situation.view(needs)

        both.ask("observe", Arrived(request.arrived_at, request))
        both.ask("taken", request, replica, view=view)
        wait = both.ask("wait", request, replica, view=view)
        if type(wait) is not int or wait < 0:
            raise RuleBroken(f"{both.who}.wait answers {wait!r}; give picoseconds, 0 for never; {both.where}")
        others = tuple(each for each in able if each != replica)
        if others:
            second = both.ask(
                SLOTS["hedge"].verb, request, replica, others, view=view, then=(a_chance(key=request.id),)
            )
            if second is not None and second not in others:
                raise RuleBroken(f"{both.who} answers {second!r}; it must be one of {others}, or None; {both.where}")
        if rng.random() < 0.7:
            both.ask("observe", FirstToken(later.request.arrived_at, request.id, replica))
            both.ask("ended", request)
