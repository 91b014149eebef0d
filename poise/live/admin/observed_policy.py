"""A policy that is looked at while it decides: the same policy, and a note of each of its answers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.view import ClusterView

Note = Callable[[RequestView, ClusterView, Any], None]
"""Told what a policy answered about a request, when the view is still what it decided on."""


class ObservedPolicy:
    """Asks `policy` and tells `note`; everything else is the policy's own, and a copy of it is a copy of the policy."""

    __slots__ = ("note", "policy")

    def __init__(self, policy: Any, note: Note) -> None:
        self.policy = policy
        self.note = note

    def __getattr__(self, name: str) -> Any:
        if name in ObservedPolicy.__slots__:  # not made yet: a copy that is being built asks for all sorts of names
            raise AttributeError(name)
        return getattr(self.policy, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copy.deepcopy(self.policy, memo)

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        """What the router says."""
        answer = self.policy.route(request, cluster, chance)
        self.note(request, cluster, answer)
        return answer

    def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Any:
        """What the admission says."""
        answer = self.policy.admit(request, able, cluster)
        self.note(request, cluster, answer)
        return answer


def seen(policy: Any, note: Note) -> Any:
    """The policy, looked at; errors go on naming it by its own class."""
    kind: Any = type(type(policy).__name__, (ObservedPolicy,), {"__slots__": ()})
    return kind(policy, note)


def plain(policy: Any) -> Any:
    """The policy itself, looked at or not."""
    return policy.policy if isinstance(policy, ObservedPolicy) else policy
