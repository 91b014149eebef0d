"""`check_scaler`: the contract of scalers as one function, for any scaler."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, get_args

from poise.core.action import Convert, Scale
from poise.core.event import Arrived, Event, Finished, FirstToken
from poise.core.policy import Scaler
from poise.core.spec import Role
from poise.core.units import SECOND, ps
from poise.core.view import PoolView
from poise.testing.builders import a_chance, a_cluster, a_pool, a_replica, a_request
from poise.testing.columns import ClusterColumns, ReplicaColumns
from poise.testing.router import needs_of
from poise.testing.rule import RuleBroken, calling
from poise.testing.twins import Twins

_BEATS = 60
_REPLICAS = 8


def check_scaler(make: Callable[[], Scaler], *, seed: int = 0) -> None:
    """Raise `RuleBroken` at the first rule of `policy.Scaler` that the scalers which `make()` builds do not keep.

    The rules: `needs` names columns of the view, and no other is read; `period_s` is above 0; equal fresh copies with
    equal inputs give equal answers, deep copies too; the view stays untouched; the answer is a sequence of `Scale`,
    each of one of the pools, at most one for a pool, and of `Convert`, each of a replica that serves, at most one for a
    replica. Tried on one pool, and on one for prefill and one for decode, that grow, shrink, are empty and get
    requests while they are, idle and crowded.
    """
    name = getattr(make, "__name__", repr(make))
    with calling(f"{name}()", "a scaler is built without arguments here; give a function that builds it"):
        first = make()
    who = type(first).__name__
    needs = needs_of(who, first)
    if not first.period_s > 0:
        raise RuleBroken(f"{who}.period_s is {first.period_s!r}; it must be above 0")
    rng = random.Random(seed)
    for pools in (1, 2):
        _play(Twins(who, make), needs, ps(first.period_s), pools, rng)


def _play(twins: Twins, needs: tuple[str, ...], beat: int, pools: int, rng: random.Random) -> None:
    """Call at each period, with events in between; pools reach their target sizes some periods later."""
    wanted = [[1] * pools]
    for number in range(1, _BEATS + 1):
        if number == _BEATS // 2:
            twins.join_copy()
        now, asks = number * beat, wanted[-1]
        twins.where = f"in a fleet of {pools} pools, beat {number}"
        for event in _events(rng, number, now - beat, now):
            twins.ask("observe", event)
        view = _view(rng, needs, now, asks, wanted[max(len(wanted) - 4, 0)])
        before = view.picture()
        answer = twins.ask("scale", view, a_chance(key=number))
        if view.picture() != before:
            raise RuleBroken(f"{twins.who} changed the view; copy what it wants to change; {twins.where}")
        wanted.append(_checked(twins, answer, asks, view))


def _checked(twins: Twins, answer: Any, asks: Sequence[int], view: ClusterColumns) -> list[int]:
    """The target sizes now; checks the form of the answer."""
    targets = list(asks)
    if not isinstance(answer, list | tuple) or any(type(each) not in (Scale, Convert) for each in answer):
        raise RuleBroken(f"{twins.who} answers {answer!r}; it must be a list of Scale or Convert; {twins.where}")
    turned = [each.replica for each in answer if type(each) is Convert]
    serving = {each for pool in view.pools for each in pool.serving}
    if len(set(turned)) < len(turned) or not set(turned) <= serving:
        raise RuleBroken(f"{twins.who} converts {turned}; each of {sorted(serving)} at most once; {twins.where}")
    if any(each.role not in get_args(Role) for each in answer if type(each) is Convert):
        raise RuleBroken(f"{twins.who} answers {answer!r}; the roles are {', '.join(get_args(Role))}; {twins.where}")
    sizes = [each for each in answer if type(each) is Scale]
    named = [each.pool for each in sizes]
    if len(set(named)) < len(named) or not set(named) <= set(range(len(asks))):
        raise RuleBroken(f"{twins.who} names the pools {named}; each of the {len(asks)} at most once; {twins.where}")
    for pool, replicas, warm in sizes:
        if type(replicas) is not int or type(warm) is not int or warm < 0:
            raise RuleBroken(f"{twins.who} answers {answer!r}; sizes are ints, and warm is not below 0; {twins.where}")
        targets[pool] = min(max(replicas, 0), _REPLICAS)
    return targets


def _events(rng: random.Random, number: int, since: int, until: int) -> list[Event]:
    """A few requests that arrive, and most of them end."""
    events: list[Event] = []
    for each in range(rng.choice((0, 1, 8))):
        request = a_request(id=100 * number + each, prompt_tokens=rng.choice((1, 900)), arrived_at=since)
        events.append(Arrived(since, request))
        if rng.random() < 0.8:
            done = rng.randrange(since + 1, until + 1)
            events += [FirstToken(done, request.id, 0), Finished(done, request.id, rng.choice((1, 300)))]
    return sorted(events, key=lambda event: event.at)


def _view(
    rng: random.Random, needs: tuple[str, ...], now: int, asks: Sequence[int], has: Sequence[int]
) -> ClusterColumns:
    """Each pool has `has` replicas, serves with some of them, and has the targets `asks`."""
    pools: list[PoolView] = []
    replicas: list[ReplicaColumns] = []
    roles: tuple[Role, ...] = ("mixed",) if len(asks) == 1 else ("prefill", "decode")
    for role, wanted, there in zip(roles, asks, has, strict=True):
        first, crowd = len(replicas), rng.choice((0, 1, 30, 400))
        serving = range(first, first + rng.randint(min(there, 1), there))
        replicas += [
            a_replica(
                requests=crowd, waiting=crowd // 2, running=crowd - crowd // 2, tokens=100 * crowd,
                queued_tokens=50 * crowd, free_blocks=1000 - min(2 * crowd, 1000), role=role,
            )
            for _ in range(_REPLICAS)
        ]  # fmt: skip
        held = rng.choice((0, 5)) if not serving else 0
        pools.append(a_pool(*serving, wanted=wanted, max_replicas=_REPLICAS, held=held, warm=rng.randrange(2)))
    return a_cluster(*replicas, now=now, needs=needs, pools=pools, rate=rng.choice((-1.0, SECOND / now, 20.0)))
