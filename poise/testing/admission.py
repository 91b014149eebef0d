"""`check_admission`: the contract of admissions as one function, for any admission."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from poise.core.action import Hold, Reject
from poise.core.event import Arrived, Finished
from poise.core.policy import Admission
from poise.core.request import RequestView
from poise.testing.builders import a_cluster, a_replica, a_request
from poise.testing.columns import ClusterColumns
from poise.testing.router import Situation, needs_of, sessions
from poise.testing.rule import RuleBroken, calling
from poise.testing.twins import Twins


def check_admission(make: Callable[[], Admission], *, seed: int = 0) -> None:
    """Raise `RuleBroken` at the first rule of `policy.Admission` that those which `make()` builds do not keep.

    The rules: `needs` names columns of the view, and no other is read; equal fresh copies with equal inputs give equal
    answers, deep copies too; the view stays untouched; `admit` answers replicas that it was offered, in their order, a
    Hold or a Reject, and `enter`, if there is one, None or a Reject; and a request that finds everything idle is not
    held without a `wake_at`, because it would never be called again.
    Tried on loaded and idle clusters, with replicas never measured and of unknown rate.
    """
    name = getattr(make, "__name__", repr(make))
    with calling(f"{name}()", "an admission is built without arguments here; give a function that builds it"):
        first = make()
    who = type(first).__name__
    needs = needs_of(who, first)
    rng = random.Random(seed)
    for session in sessions(rng, steps=40):
        _play(Twins(who, make), needs, rng, session)
    _check_idle(who, make, needs)


def _play(twins: Twins, needs: tuple[str, ...], rng: random.Random, session: list[Situation]) -> None:
    """Requests arrive and are admitted or not; some of those that were sent end."""
    sent: list[RequestView] = []
    for number, situation in enumerate(session):
        if number == len(session) // 2:
            twins.join_copy()
        request, twins.where = situation.request, str(situation)
        able = situation.view(()).able(request)

        def view(situation: Situation = situation) -> ClusterColumns:
            return situation.view(needs)

        twins.ask("observe", Arrived(request.arrived_at, request))
        if _enters(twins, twins.ask("enter", request, view=view)) and able:
            twins.ask("joined", request)
            answer = twins.ask("admit", request, able, view=view)
            chosen = _chosen(twins, answer, able)
            if chosen:
                twins.ask("taken", request, rng.choice(chosen), view=view)
                sent.append(request)
            else:
                twins.ask("ended", request)
        if sent and rng.random() < 0.5:
            done = sent.pop(rng.randrange(len(sent)))
            twins.ask("observe", Finished(request.arrived_at, done.id, rng.randrange(1, 500)))
            twins.ask("ended", done)


def _enters(twins: Twins, answer: Any) -> bool:
    """Whether a request is admitted by `enter`."""
    if answer is not None and type(answer) is not Reject:
        raise RuleBroken(f"{twins.who}.enter answers {answer!r}; it must be None or a Reject; {twins.where}")
    if answer is not None:
        _check_retry(twins, answer)
    return answer is None


def _chosen(twins: Twins, answer: Any, able: Any) -> list[int]:
    """The replicas that a request may be sent to; none where it is held or rejected."""
    if type(answer) is Hold:
        return []
    if type(answer) is Reject:
        _check_retry(twins, answer)
        return []
    chosen = list(answer) if isinstance(answer, list | tuple) else None
    if chosen is None or chosen != [replica for replica in able if replica in chosen]:
        raise RuleBroken(
            f"{twins.who}.admit answers {answer!r}; it must be some of {tuple(able)} in that order, a Hold or a "
            f"Reject; {twins.where}"
        )
    return chosen


def _check_retry(twins: Twins, answer: Reject) -> None:
    if type(answer.retry_after) is not int or answer.retry_after < 0:
        raise RuleBroken(
            f"{twins.who} answers {answer!r}; `retry_after` is a whole number of picoseconds, 0 where it is unsaid; "
            f"{twins.where}"
        )


def _check_idle(who: str, make: Callable[[], Admission], needs: tuple[str, ...]) -> None:
    """The first request of an idle cluster must not wait for ever."""
    for rate in (0.0, 10_000.0):
        for prompt in (1, 400, 1_000_000):
            request = a_request(prompt_tokens=prompt)
            twins = Twins(who, make)
            twins.where = f"on an idle cluster of prefill rate {rate:g}, for {request}"
            view = a_cluster(*[a_replica(prefill_rate=rate)] * 2, needs=needs)

            def idle(view: ClusterColumns = view) -> ClusterColumns:
                return view

            if not _enters(twins, twins.ask("enter", request, view=idle)):
                continue
            twins.ask("joined", request)
            answer = twins.ask("admit", request, (0, 1), view=idle)
            waits = (type(answer) is Hold and not answer.wake_at) or (not isinstance(answer, Hold) and not answer)
            if waits:
                raise RuleBroken(
                    f"{who}.admit answers {answer!r} where nothing is in flight, so that nothing will ever ask again; "
                    f"admit it, turn it away, or name an instant in `wake_at`; {twins.where}"
                )
