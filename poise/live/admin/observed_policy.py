"""A wrapper that records each answer of a policy and changes none."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from poise.core.chance import Chance
from poise.core.request import RequestView
from poise.core.view import ClusterView

Note = Callable[[RequestView, ClusterView, Any], None]
"""Called with a policy's answer about a request, while the view is still the one it decided on."""


class ObservedPolicy:
    """Calls `policy`, then `note`; all other attributes are the policy's own, and a copy wraps a copy of the policy."""

    __slots__ = ("note", "policy")

    def __init__(self, policy: Any, note: Note) -> None:
        self.policy = policy
        self.note = note

    def __getattr__(self, name: str) -> Any:
        if name in ObservedPolicy.__slots__:  # not initialised yet: copying reads many names
            raise AttributeError(name)
        return getattr(self.policy, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copy.deepcopy(self.policy, memo)

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Any:
        """The router's answer."""
        answer = self.policy.route(request, cluster, chance)
        self.note(request, cluster, answer)
        return answer

    def admit(self, request: RequestView, able: Sequence[int], cluster: ClusterView) -> Any:
        """The admission's answer."""
        answer = self.policy.admit(request, able, cluster)
        self.note(request, cluster, answer)
        return answer


def seen(policy: Any, note: Note) -> Any:
    """The policy, wrapped; errors still name it by its own class."""
    kind: Any = type(type(policy).__name__, (ObservedPolicy,), {"__slots__": ()})
    return kind(policy, note)


def plain(policy: Any) -> Any:
    """The policy itself, wrapped or not."""
    return policy.policy if isinstance(policy, ObservedPolicy) else policy
