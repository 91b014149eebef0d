"""The cluster as it is shown for one decision of a router: a stage of its own, or fewer replicas to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from poise.core.control.state import State
from poise.core.request import RequestView


class RestrictedView:
    """A `ClusterView` of `state` in which only these replicas are able; all else is as in the state.

    stage: `decode` for the second half of a P/D pair, else `serve`.
    """

    __slots__ = ("_able", "_state", "stage")

    def __init__(self, state: State, able: Sequence[int], stage: str = "serve") -> None:
        self._state = state
        self._able = able
        self.stage = stage

    def able(self, request: RequestView) -> Sequence[int]:
        """The replicas that may be chosen."""
        return self._able

    def __getattr__(self, name: str) -> Any:
        if name in RestrictedView.__slots__:  # not initialised yet: copying reads many names
            raise AttributeError(name)
        return getattr(self._state, name)
