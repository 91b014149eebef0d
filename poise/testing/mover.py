"""`check_mover`: the contract of movers as one function, for any mover, or router that moves too."""

from __future__ import annotations

import random
from collections.abc import Callable

from poise.core.policy import Mover
from poise.core.slot import SLOTS
from poise.core.units import SECOND
from poise.testing.fleet import a_fleet, check_moves, view_of
from poise.testing.router import needs_of
from poise.testing.rule import RuleBroken
from poise.testing.twins import twins

_ROUNDS = 60
_REPLICAS = 4


def check_mover(make: Callable[[], Mover], *, seed: int = 0) -> None:
    """Raise `RuleBroken` at the first rule of `policy.Mover` that the movers which `make()` builds do not keep.

    The rules: `needs` names columns of the view, and no other is read; equal fresh copies with equal inputs give equal
    answers, deep copies too; the view stays untouched; the answer is a sequence of `Move`, each of a request that is
    there and does not move yet, at most one of each, to one of its peers. Tried on replicas that are idle, full and
    lost, with requests that wait, run and move.
    """
    both, first = twins("mover", make)
    needs, rng = needs_of(both.who, first), random.Random(seed)
    for number in range(1, _ROUNDS + 1):
        if number == _ROUNDS // 2:
            both.join_copy()
        both.where = f"round {number}"
        replicas = a_fleet(rng, _REPLICAS, number * SECOND)
        answer = both.ask(SLOTS["mover"].verb, view=view_of(replicas, needs, number * SECOND))
        if not isinstance(answer, list | tuple):
            raise RuleBroken(f"{both.who} answers {answer!r}; it must be a list of Move; {both.where}")
        check_moves(both, list(answer), replicas)
