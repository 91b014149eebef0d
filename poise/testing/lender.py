"""`check_lender`: the contract of lenders as one function, for any lender."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from poise.core.action import Lend
from poise.core.policy import Lender
from poise.core.units import SECOND
from poise.testing.builders import a_cluster, a_flight, a_replica, a_request
from poise.testing.columns import ClusterColumns, ReplicaColumns
from poise.testing.router import needs_of
from poise.testing.rule import RuleBroken, calling
from poise.testing.twins import Twins

_ROUNDS = 60
_REPLICAS = 4
_BLOCKS = 1000

Loans = Mapping[tuple[int, int], int]


def check_lender(make: Callable[[], Lender], *, seed: int = 0) -> None:
    """Raise `RuleBroken` at the first rule of `policy.Lender` that the lenders which `make()` builds do not keep.

    The rules: `needs` names columns of the view, and no other is read; equal fresh copies with equal inputs give equal
    answers, deep copies too; the view stays untouched; the answer is a sequence of `Lend`, each between two existing
    replicas, for some blocks or giving back no more than are lent. Tried on replicas that are idle, full and
    lost, with loans that are active, were partly granted or given back.
    """
    name = getattr(make, "__name__", repr(make))
    with calling(f"{name}()", "a lender is built without arguments here; give a function that builds it"):
        first = make()
    who = type(first).__name__
    needs = needs_of(who, first)
    twins, rng = Twins(who, make), random.Random(seed)
    loans: dict[tuple[int, int], int] = {}
    for number in range(1, _ROUNDS + 1):
        if number == _ROUNDS // 2:
            twins.join_copy()
        twins.where = f"round {number}"
        replicas = [_replica(rng, 100 * number + 10 * each, number * SECOND) for each in range(_REPLICAS)]
        view = _view(replicas, needs, number * SECOND, loans)
        answer = twins.ask("lend", view=view)
        _check(twins, answer, loans)
        loans = _granted(rng, loans, answer)


def _check(twins: Twins, answer: Any, loans: Loans) -> None:
    if not isinstance(answer, list | tuple) or any(type(each) is not Lend for each in answer):
        raise RuleBroken(f"{twins.who} answers {answer!r}; it must be a list of Lend; {twins.where}")
    for loan in answer:
        pair = loan.debtor, loan.creditor
        if len(set(pair)) < 2 or not set(pair) <= set(range(_REPLICAS)):
            raise RuleBroken(f"{twins.who} asks for {loan}; name two of {_REPLICAS} replicas; {twins.where}")
        if type(loan.blocks) is not int or not loan.blocks or -loan.blocks > loans.get(pair, 0):
            raise RuleBroken(f"{twins.who} asks for {loan}, and {loans.get(pair, 0)} are lent; {twins.where}")


def _granted(rng: random.Random, loans: Loans, answer: list[Lend]) -> dict[tuple[int, int], int]:
    """The loans afterwards, granted and given back in whole, in part or not at all."""
    fields = dict(loans)
    for debtor, creditor, blocks in answer:
        left = fields.get((debtor, creditor), 0) + int(blocks * rng.choice((0, 0.5, 1)))
        fields[debtor, creditor] = min(max(left, 0), _BLOCKS)
    return {pair: blocks for pair, blocks in fields.items() if blocks}


def _replica(rng: random.Random, first: int, now: int) -> ReplicaColumns:
    """A replica that is lost, idle, busy, or full with waiting requests."""
    free, running, waiting = rng.choice(((0, 0, 0), (_BLOCKS, 0, 0), (600, 5, 0), (100, 5, 2), (0, 5, 5)))
    requests = [a_request(id=first + each, prompt_tokens=rng.choice((100, 9000))) for each in range(running + waiting)]
    flights = tuple(
        a_flight(request, first_token_at=0 if place < running else -1) for place, request in enumerate(requests)
    )
    queued = sum(request.prompt_tokens for request in requests[running:])
    return a_replica(
        requests=running + waiting, running=running, waiting=waiting, free_blocks=free, queued_tokens=queued,
        tokens=(_BLOCKS - free) * 16 + queued, flights=flights, total_blocks=_BLOCKS, able=rng.random() < 0.8,
        measured_at=now - rng.choice((0, SECOND)),
    )  # fmt: skip


def _view(
    replicas: list[ReplicaColumns], needs: tuple[str, ...], now: int, loans: Loans
) -> Callable[[], ClusterColumns]:
    return lambda: a_cluster(*replicas, now=now, needs=needs, loans=loans)
