"""Calls the recovery policy for the requests of replicas that will be lost, until they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from poise.core.action import Action, Move
from poise.core.control.state import DRAINING, State
from poise.core.policy import Recovery
from poise.core.units import ps


class Recovering:
    """going: the instants at which draining replicas will be lost, by replica.

    enter: checks and records moves.
    patience: picoseconds after which KV on its way to a replica is given up, 0 for never.
    """

    def __init__(self, policy: Recovery, state: State, enter: Callable[[object, Sequence[Move]], None]) -> None:
        self.going: dict[int, int] = {}
        self.patience = ps(getattr(policy, "patience_s", 0.0))
        self._policy = policy
        self._state = state
        self._enter = enter

    def drains(self, replica: int, gone_at: int) -> list[Action]:
        """A replica drains and will be lost at an instant; 0 where it may stay until it is empty."""
        if gone_at:
            self.going[replica] = gone_at
        return self.moves(replica)

    def moves(self, replica: int) -> list[Action]:
        """The moves away from a replica that will be lost."""
        gone_at = self.going.get(replica)
        if gone_at is None:
            return []
        if self._state.status[replica] != DRAINING:
            del self.going[replica]
            return []
        actions = list(self._policy.recover(replica, gone_at, self._state))
        self._enter(self._policy, [action for action in actions if isinstance(action, Move)])
        return list(actions)

    def all_moves(self) -> list[Action]:
        """The moves away from all of them."""
        return [action for replica in list(self.going) for action in self.moves(replica)]
