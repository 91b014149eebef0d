"""Equal policies that get the same inputs, so that any difference between them is found."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from poise.core.slot import SLOTS, check_policy
from poise.testing.columns import ClusterColumns
from poise.testing.rule import RuleBroken, calling


def twins(slot: str, make: Callable[[], Any]) -> tuple[Twins, Any]:
    """Equal policies for a slot, and one of the kind to inspect; RuleBroken where it lacks a required method."""
    name = getattr(make, "__name__", repr(make))
    with calling(f"{name}()", f"a {slot} is built without arguments here; give a function that builds it"):
        first = make()
    who = type(first).__name__
    with calling(who, f"it is to be a {slot}"):
        check_policy(slot, first)
    for also, what in SLOTS[slot].also.items():
        if not hasattr(first, also):
            raise RuleBroken(f"{who} has no {also!r}, which a {slot} must have: {what}")
    return Twins(who, make), first


class Twins:
    """Two fresh policies of one kind, and later a deep copy, in the same situations.

    where: the situation, for errors.
    """

    def __init__(self, who: str, make: Callable[[], Any]) -> None:
        self.who = who
        self.where = ""
        self._policies = [make(), make()]

    def has(self, name: str) -> bool:
        """Whether they have this method."""
        return hasattr(self._policies[0], name)

    def join_copy(self) -> None:
        """Add a deep copy from here on."""
        with calling(f"copy.deepcopy({self.who})", "Control deep-copies the policies that it is given"):
            self._policies.append(copy.deepcopy(self._policies[0]))

    def ask(
        self, name: str, *given: Any, view: Callable[[], ClusterColumns] | None = None, then: tuple[Any, ...] = ()
    ) -> Any:
        """The common answer; each gets its own `view`, after the arguments `given` and before those of `then`.

        Nothing where they have no such method.
        """
        if not self.has(name):
            return None
        answers = [self._one(policy, name, given, view, then) for policy in self._policies]
        for answer, what in zip(answers[1:], ("an equal fresh copy", "its deep copy"), strict=False):
            if answer != answers[0]:
                raise RuleBroken(
                    f"{self.who}.{name} answers {answers[0]!r} but {what}, asked the same, {answer!r}; keep no state "
                    f"outside the object and draw no chance; {self.where}"
                )
        return answers[0]

    def _one(
        self,
        policy: Any,
        name: str,
        given: tuple[Any, ...],
        view: Callable[[], ClusterColumns] | None,
        then: tuple[Any, ...],
    ) -> Any:
        if view is None:
            with calling(f"{self.who}.{name}", self.where):
                return getattr(policy, name)(*given)
        seen = view()
        before = seen.picture()
        with calling(f"{self.who}.{name}", self.where):
            answer = getattr(policy, name)(*given, seen, *then)
        changed = [name for name, value in seen.picture().items() if value != before[name]]
        if changed:
            raise RuleBroken(
                f"{self.who} changed `cluster.{changed[0]}`; the view is not its own: copy what it wants to change; "
                f"{self.where}"
            )
        return answer
