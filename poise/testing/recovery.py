"""`check_recovery`: the contract of recoveries as one function, for any recovery."""

from __future__ import annotations

import random
from collections.abc import Callable

from poise.core.action import Wake
from poise.core.policy import Recovery
from poise.core.slot import SLOTS
from poise.core.units import SECOND
from poise.testing.fleet import a_fleet, check_moves, view_of
from poise.testing.router import needs_of
from poise.testing.rule import RuleBroken
from poise.testing.twins import twins

_ROUNDS = 60
_REPLICAS = 4


def check_recovery(make: Callable[[], Recovery], *, seed: int = 0) -> None:
    """Raise `RuleBroken` at the first rule of `policy.Recovery` that those which `make()` builds do not keep.

    The rules: `needs`, if there are any, names columns of the view, and no other is read; `resumes` is True or False,
    and `patience_s` seconds; equal fresh copies with equal inputs give equal answers, deep copies too; the view stays
    untouched; the answer is a sequence of `Wake`, each later than now, and of `Move`, each of a request of the replica
    that leaves, to one of its peers. Tried from the notice until the replica is gone.
    """
    both, first = twins("recovery", make)
    needs, rng = needs_of(both.who, first) if hasattr(first, "needs") else (), random.Random(seed)
    if not isinstance(first.resumes, bool):
        raise RuleBroken(f"{both.who}.resumes is {first.resumes!r}; it must be True or False")
    patience = getattr(first, "patience_s", 0.0)
    if not patience >= 0:
        raise RuleBroken(f"{both.who}.patience_s is {patience!r}; give seconds, 0 for never")
    for number in range(1, _ROUNDS + 1):
        if number == _ROUNDS // 2:
            both.join_copy()
        now, goes = number * SECOND, rng.randrange(_REPLICAS)
        gone_at = now + rng.choice((0, 1, 30)) * SECOND
        both.where = f"round {number}, of replica {goes}, gone at {gone_at} ps"
        replicas = a_fleet(rng, _REPLICAS, now)
        replicas[goes] = replicas[goes]._replace(able=False)
        answer = both.ask(SLOTS["recovery"].verb, goes, gone_at, view=view_of(replicas, needs, now))
        if not isinstance(answer, list | tuple):
            raise RuleBroken(f"{both.who} answers {answer!r}; it must be a list of Move or Wake; {both.where}")
        late = [each for each in answer if type(each) is Wake and each.at <= now]
        if late:
            raise RuleBroken(f"{both.who} answers {late[0]!r}, and it is {now} ps; name a later instant; {both.where}")
        moves = [each for each in answer if type(each) is not Wake]
        if any(getattr(move, "source", -1) != goes for move in moves):
            raise RuleBroken(f"{both.who} answers {moves!r}; only who is at replica {goes} is to move; {both.where}")
        check_moves(both, moves, replicas)
