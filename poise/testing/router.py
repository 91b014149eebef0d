"""`check_router`: the contract of routers as one function, for any router."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from poise.core.action import Hold, Reject, Route
from poise.core.event import Arrived, Cancelled, Draining, Event, Finished, FirstToken, ReplicaJoined, ReplicaLost
from poise.core.policy import Router
from poise.core.request import RequestView
from poise.core.view import COLUMNS
from poise.testing.builders import a_chance, a_cluster, a_replica, a_request
from poise.testing.columns import LOADS, ClusterColumns, ReplicaColumns
from poise.testing.rule import RuleBroken, calling

_STEPS = 12
_DRAWS = 400  # of which each replica must get between half and twice its share: more than 5 σ for 4 replicas


class Situation(NamedTuple):
    """One call of a router, and its situation."""

    where: str
    request: RequestView
    replicas: tuple[ReplicaColumns, ...]
    stage: str
    event: Event

    def view(self, needs: tuple[str, ...]) -> ClusterColumns:
        """The cluster as the router sees it; equal each time."""
        return a_cluster(*self.replicas, now=self.request.arrived_at, stage=self.stage, needs=needs)

    def decodes(self) -> Sequence[int]:
        """The replicas that may make the output of a request that another one prefills."""
        return self._replace(stage="decode").view(()).able(self.request)

    def __str__(self) -> str:
        able = tuple(self.view(()).able(self.request))
        return f"in {self.where}: {self.request}, stage {self.stage!r}, able {able}"


def check_router(make: Callable[[], Router], *, seed: int = 0, fair: bool = True) -> None:
    """Raise `RuleBroken` at the first rule of `policy.Router` that the routers which `make()` builds do not keep.

    The rules: `needs` names columns of the view, and no other is read; equal fresh copies with equal inputs give equal
    actions, deep copies too; the view and the chance stay untouched; the answer is a Route to an able replica, a Hold
    or a Reject; and a router that reads loads draws between equals: with all columns equal each able replica gets
    between half and twice its share (`fair=False` leaves this rule out).
    Tried on one and on many replicas, ties, unable ones, requests with and without prefix identity, both stages.
    """
    name = getattr(make, "__name__", repr(make))
    with calling(f"{name}()", "a router is built without arguments here; give a function that builds it"):
        first = make()
    who = type(first).__name__
    needs = needs_of(who, first)
    for session in sessions(random.Random(seed)):
        _play(who, make, needs, session)
    if fair and set(needs) & set(LOADS):
        _check_ties(who, make(), needs)


def needs_of(who: str, policy: object) -> tuple[str, ...]:
    """The columns that a policy declares; the names must exist."""
    known = COLUMNS
    needs: Any = getattr(policy, "needs", None)
    if not isinstance(needs, tuple) or any(not isinstance(name, str) for name in needs):
        raise RuleBroken(f"{who}.needs is {needs!r}; it must be a tuple of names of columns: {', '.join(known)}")
    unknown = [name for name in needs if name not in known]
    if unknown:
        raise RuleBroken(
            f"{who}.needs names {unknown[0]!r}, which is not a column of the cluster view; there are {', '.join(known)}"
        )
    return needs


def _play(who: str, make: Callable[[], Router], needs: tuple[str, ...], session: list[Situation]) -> None:
    """Call equal routers with the same inputs in the same order; from the middle on a deep copy joins them."""
    routers = [make(), make()]
    for number, situation in enumerate(session):
        if number == len(session) // 2:
            with calling(f"copy.deepcopy({who})", "Control deep-copies the policies that it is given"):
                routers.append(copy.deepcopy(routers[0]))
        actions = [_ask(who, router, needs, situation) for router in routers]
        for action, what in zip(actions[1:], ("an equal fresh copy", "its deep copy"), strict=False):
            if action != actions[0]:
                raise RuleBroken(
                    f"{who} answers {actions[0]!r} but {what}, asked the same, {action!r}; draw through `chance` alone "
                    f"and keep no state outside the object; {situation}"
                )


def _ask(who: str, router: Router, needs: tuple[str, ...], situation: Situation) -> Route | Hold | Reject:
    """One decision, checked."""
    view, chance = situation.view(needs), a_chance(key=situation.request.id)
    before = view.picture()
    observe: Callable[[Event], None] | None = getattr(router, "observe", None)
    with calling(who, str(situation)):
        if observe is not None:
            observe(situation.event)
        action = router.route(situation.request, view, chance)
    if view.picture() != before:
        changed = [name for name, value in view.picture().items() if value != before[name]]
        raise RuleBroken(
            f"{who} changed `cluster.{changed[0]}`; the view is not its own: copy what it wants to change; {situation}"
        )
    if (chance.key, chance.seed) != (situation.request.id, a_chance().seed):
        raise RuleBroken(
            f"{who} changed the key or the seed of `chance`; name another `purpose` for a second draw; {situation}"
        )
    _check_answer(who, action, situation)
    return action


def _check_answer(who: str, action: Any, situation: Situation) -> None:
    """The answer is of the right kind and names valid replicas."""
    if type(action) not in (Route, Hold, Reject):
        raise RuleBroken(f"{who} answers {action!r}; it must be a Route, a Hold or a Reject; {situation}")
    if type(action) is not Route:
        return
    able = situation.view(()).able(situation.request)
    count = len(situation.replicas)
    if type(action.replica) is not int or action.replica not in able:
        raise RuleBroken(f"{who} answers {action!r}, whose replica is none of `cluster.able(request)`; {situation}")
    if action.decode is not None and action.decode not in situation.decodes():
        raise RuleBroken(
            f"{who} answers {action!r}, whose decode replica is none that is able in the decode stage; {situation}"
        )
    if any(type(replica) is not int or not 0 <= replica < count for replica in action.fallback):
        raise RuleBroken(f"{who} answers {action!r}, whose fallback names something that is not a replica; {situation}")


def _check_ties(who: str, router: Router, needs: tuple[str, ...]) -> None:
    """Between replicas with equal columns a router that reads loads must draw, not take the first."""
    replicas = (*[a_replica() for _ in range(2)], a_replica(able=False), *[a_replica() for _ in range(2)])
    counts = {0: 0, 1: 0, 3: 0, 4: 0}
    routed = 0
    for key in range(_DRAWS):
        request = a_request(id=key, session=key, arrived_at=key)
        event = Arrived(request.arrived_at, request)
        action = _ask(who, router, needs, Situation("a draw between equals", request, replicas, "serve", event))
        if type(action) is Route:
            counts[action.replica] += 1
            routed += 1
    share = routed / len(counts)
    uneven = [replica for replica, count in counts.items() if not share / 2 <= count <= share * 2]
    if uneven:
        raise RuleBroken(
            f"{who} does not draw between equals: of {routed} requests with all columns equal the able replicas get "
            f"{counts}; choose with `chance.least` or `chance.pick` (or check with fair=False if this is the rule)"
        )


def sessions(rng: random.Random, steps: int = _STEPS) -> Iterator[list[Situation]]:
    """Sequences of calls, each to be made of one policy in order."""
    kinds: tuple[tuple[str, int, Callable[[int, int], ReplicaColumns]], ...] = (
        ("a cluster of one replica", 1, lambda step, number: _loaded(rng)),
        ("a cluster of two replicas", 2, lambda step, number: _loaded(rng)),
        ("a cluster of many replicas", 70, lambda step, number: _loaded(rng)),
        ("a cluster of equal idle replicas", 5, lambda step, number: a_replica()),
        (
            "a cluster of equal busy replicas",
            4,
            lambda step, number: a_replica(requests=3, tokens=900, running=3, cached_tokens=64),
        ),
        (
            "a cluster with replicas that are not able",
            8,
            lambda step, number: _loaded(rng, able=number % 3 == step % 3),
        ),
        ("a cluster with one able replica, the busiest", 6, lambda step, number: _only_busy(number == step % 6)),
        ("a cluster of several models", 6, lambda step, number: _loaded(rng, model=number % 3)),
        (
            "a prefill and decode cluster",
            5,
            lambda step, number: _loaded(rng, role="prefill" if number < 2 else "decode"),
        ),
        (
            "a cluster whose large prompts fit one replica",
            4,
            lambda step, number: _loaded(rng, capacity_tokens=50 if number else 10**6),
        ),
        (
            "a cluster of which little is known",
            5,
            lambda step, number: _loaded(
                rng, prefill_rate=number % 2 * 5000.0, measured_at=number * step * 10**8, total_blocks=number % 3 * 1000
            ),
        ),
        ("a cluster of which nothing is known", 3, lambda step, number: _loaded(rng, prefill_rate=0.0, total_blocks=0)),
    )
    for name, count, replica in kinds:
        session: list[Situation] = []
        for step in range(steps):
            request = _request(rng, step)
            replicas = tuple(replica(step, number) for number in range(count))
            stage = "decode" if "decode" in name and step % 2 else "serve"
            session.append(
                Situation(f"{name}, step {step}", request, replicas, stage, _event(rng, step, request, count))
            )
        yield session


def _loaded(rng: random.Random, **given: Any) -> ReplicaColumns:
    running, waiting = rng.randrange(20), rng.choice((0, 0, rng.randrange(30)))
    queued = waiting * rng.randrange(1, 500)
    columns: dict[str, Any] = {
        "requests": running + waiting,
        "tokens": queued + running * rng.randrange(1, 3000),
        "queued_tokens": queued,
        "waiting": waiting,
        "running": running,
        "free_blocks": rng.randrange(2000),
        "cached_tokens": rng.choice((0, 0, rng.randrange(400))),
        "adapter_slots": waiting % 3,
        "running_adapters": tuple(range(running % 3)),
    }
    return a_replica(**{**columns, **given})


def _only_busy(able: bool) -> ReplicaColumns:
    if not able:
        return a_replica(able=False)
    return a_replica(requests=90, tokens=9000, queued_tokens=4000, waiting=40, running=50, free_blocks=0, able=True)


def _request(rng: random.Random, step: int) -> RequestView:
    """Requests with and without identity and session, small and large, in order of arrival."""
    prompt = rng.choice((1, 30, 400, 5000))
    ids: tuple[int, ...] = () if step % 3 == 0 else (7,) if step % 3 == 1 else (7, 8, 100 + step)
    return a_request(
        id=step, prompt_tokens=prompt, arrived_at=step * 10**9, max_tokens=rng.choice((0, 16)), ids=ids,
        model=step % 3, session=rng.choice((-1, 3)), tenant=rng.choice((-1, 0, 1)), priority=rng.randrange(2),
        deadline_at=rng.choice((0, 10**13)), predicted_tokens=step % 2 * 40, lora=step % 4 - 1,
    )  # fmt: skip


def _event(rng: random.Random, step: int, request: RequestView, replicas: int) -> Event:
    """Events for a router that observes, before it is called: mostly arrivals, and changes of the cluster."""
    at, replica = request.arrived_at, rng.randrange(replicas)
    events: tuple[Event, ...] = (
        FirstToken(at, max(step - 1, 0), replica),
        Finished(at, max(step - 1, 0), 5),
        Cancelled(at, max(step - 2, 0), "timed out"),
        Draining(at, replica),
        ReplicaLost(at, replica),
        ReplicaJoined(at, replica),
    )
    return Arrived(at, request) if step % 2 == 0 else rng.choice(events)
