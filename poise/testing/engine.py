"""Runs engines under small random work, to check policies that decide inside one: each answer, and the outcome."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, cast

from poise.core.action import ALL, ONE_STEP, UNTIL_CHANGE, UNTIL_HEAD, Batch, Entry
from poise.core.engine.lane import LaneState
from poise.core.engine.replica import Replica
from poise.core.estimate import Estimator
from poise.core.request import Sequence
from poise.core.slot import SLOTS
from poise.core.view import LaneView, SequenceView
from poise.testing.builders import a_bundle, newest
from poise.testing.invariants import check_replica
from poise.testing.rule import RuleBroken, calling
from poise.testing.solo import Log, drive
from poise.testing.twins import twins
from poise.testing.workloads import Case, a_case

Wrong = Callable[[tuple[Any, ...], Any], str]
"""A check: from a policy's inputs and its answer to an error text; empty if there is no error."""


def check_inside(slot: str, make: Callable[[], Any], wrong: Wrong, *, seed: int, cases: int = 40) -> None:
    """Raise `RuleBroken` where policies of an engine's slot do not keep a rule, on `cases` random small workloads.

    Each runs to its end on a real replica whose own sums are checked: an answer is right, a deep copy's is equal and
    the view stays untouched; every request ends; and a batch held over many steps gives the same as single steps.
    """
    who = twins(slot, make)[0].who
    for number in range(cases):
        case = _in_sessions(a_case(seed * 10_007 + number))
        where = f"in case {number} of seed {seed}: {case}"
        with calling(who, where):
            held, single = (_run(_Watched(slot, make(), wrong), case, one_step) for one_step in (False, True))
        if held != single:
            at = next((pair for pair in zip(held, single, strict=False) if pair[0] != pair[1]), (held[-1], single[-1]))
            raise RuleBroken(
                f"{who} makes a difference to how long batches are held: with holds {at[0]!r}, step by step {at[1]!r} "
                f"(instant in ps, outcome, request); answer by what the view shows, not by how often you are asked; "
                f"{where}"
            )


def _in_sessions(case: Case) -> Case:
    """The same with its requests in three sessions, for policies that keep KV until a session returns."""
    clients = tuple(
        each._replace(request=each.request._replace(session=at % 3, turn=at // 3))
        for at, each in enumerate(case.clients)
    )
    return case._replace(clients=clients)


def _run(watched: _Watched, case: Case, one_step: bool) -> Log:
    policies: dict[str, Any] = {"batcher": Plain(), "preempt": Newest(), watched.slot: watched}
    replica = Replica(
        case.engine, cast("Estimator", case.cost), case.blocks, a_bundle(**policies), layers=case.layers,
        one_step=one_step,
    )  # fmt: skip
    return drive(replica, case.clients, lambda now, passed: check_replica(replica, now, passed), most_turns=20_000)


class Plain:
    """A batcher that takes one prompt at a time and all decodes, cut to the token budget."""

    def batch(self, lane: LaneView) -> Batch:
        """The running prompt, or the head of the queue once its whole prompt has room."""
        budget = lane.engine.token_budget - lane.decoding
        if lane.prefilling:
            sequence = lane.prefilling[0]
            tokens = min(sequence.need - sequence.computed, budget)
            return Batch((Entry(sequence.id, tokens),) if tokens else (), ALL, ONE_STEP)
        for sequence in lane.queue() if lane.spec.prefill else ():
            left = sequence.need - lane.cached(sequence)
            if budget < 1 or not self._fits(lane, sequence, left):
                return Batch((), ALL, UNTIL_HEAD)
            return Batch((Entry(sequence.id, 0 if sequence.swapped else min(left, budget)),), ALL, ONE_STEP)
        return Batch((), ALL, UNTIL_CHANGE)

    def _fits(self, lane: LaneView, sequence: SequenceView, left: int) -> bool:
        room = lane.room(lane.blocks_for(sequence, left))
        return room and not lane.preempted and lane.running < lane.engine.max_sequences


class Newest:
    """A preemption rule: the request admitted last is preempted and recomputed."""

    def preempt(self, lane: LaneView) -> Any:
        """The last running prompt, or the newest decode."""
        return newest(lane)


class _Watched:
    """A policy of an engine; its slot's method is checked, all other attributes are its own."""

    def __init__(self, slot: str, policy: Any, wrong: Wrong) -> None:
        self.slot = slot
        self._policy = policy
        self._wrong = wrong
        if hasattr(policy, "reveal"):
            policy.reveal(lambda request: 10**9)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._ask if name == SLOTS[self.slot].verb else getattr(self._policy, name)

    def _ask(self, *given: Any) -> Any:
        method = SLOTS[self.slot].verb
        lane = given[-1] if isinstance(given[-1], LaneState) else None
        kept: dict[int, Any] = {}
        before: dict[str, Any] = {}
        if lane is not None:
            kept = {id(each): each for each in (lane, *lane.replica.sequences.values())}  # the lane's own
            before = picture(lane)
        twin = copy.deepcopy(self._policy, kept)
        answer = getattr(self._policy, method)(*given)
        if lane is not None:
            unchanged(lane, before)
        again = getattr(twin, method)(*given)
        if answer != again:
            raise RuleBroken(
                f"answers {answer!r} but its deep copy, asked the same, {again!r}; keep no state outside the object"
            )
        wrong = self._wrong(given, answer)
        if wrong:
            raise RuleBroken(f"answers {answer!r}; {wrong}")
        return answer


def picture(lane: LaneState) -> dict[str, Any]:
    """A copy of all that a batcher may read of a lane, to compare with later."""
    pool, group = lane.replica.pool, lane.group
    return {
        "prefilling": [_seen(each) for each in lane.prefilling],
        "queue": [_seen(each) for each in lane.queue()],
        "decodes": [_seen(each) for each in lane.decodes()],
        "running": (lane.running, lane.decoding, lane.waiting, lane.preempted),
        "blocks": (pool.held, pool.cached, pool.explicit, list(pool.lru), group.offsets, group.step),
        "engine": (lane.engine, lane.spec, lane.model_layers),
    }


def _seen(sequence: Sequence) -> tuple[Any, ...]:
    return (
        sequence.request, sequence.phase, sequence.computed, sequence.produced, sequence.chunk, sequence.layer,
        sequence.source, sequence.swapped, sequence.shared, sequence.output_tokens, sequence.cancelled,
    )  # fmt: skip


def unchanged(lane: LaneState, before: dict[str, Any]) -> None:
    """Raise `RuleBroken` where a lane was changed."""
    after = picture(lane)
    for name, value in before.items():
        if after[name] != value:
            raise RuleBroken(f"changed the lane's {name} from {value!r} to {after[name]!r}; the view is not its own")
