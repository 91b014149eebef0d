"""Conversations in lanes: which begin when, what may arrive, and how long nothing may be under way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from poise.sim.agenda import ARRIVE, START, Agenda
from poise.sim.arrivals import Arrivals

if TYPE_CHECKING:
    from poise.workload.table import Lanes


class Conversing:
    """The conversations of a run.

    cancel: takes back a request that is under way.  opened: called with the instant from which requests count.
    over: whether no request arrives any more.
    """

    def __init__(
        self,
        lanes: Lanes,
        arrivals: Arrivals,
        agenda: Agenda,
        cancel: Callable[[int], None],
        opened: Callable[[int], None] | None,
    ) -> None:
        self.over = False
        self._lanes = lanes
        self._arrivals = arrivals
        self._agenda = agenda
        self._cancel = cancel
        self._opened = opened
        self._play: list[int] = np.where(lanes.primer, -1, lanes.play).tolist()
        self._begins: list[list[int]] = [[] for _ in lanes.whole]
        waits = arrivals.awaited
        for row, play in enumerate(self._play):
            if play >= 0 and row not in waits:
                self._begins[play].append(row)
        self._left = np.bincount(lanes.play[~lanes.primer], minlength=len(lanes.whole)).tolist()
        self._primers = int(lanes.primer.sum())
        self._next = 0
        self._out: set[int] = set()
        self._out_of = [0] * len(lanes.whole)
        self._due: dict[int, dict[int, int]] = {}  # of each conversation, what will arrive and when
        self._came = 0
        self._came_to = [0] * len(lanes.whole)

    @property
    def under_way(self) -> int:
        """Conversations that have begun and are not over."""
        return sum(1 for left in self._left[: self._next] if left)

    def begin(self) -> None:
        """Send the first primer of each lane, or open the lanes where there are none."""
        for row in np.flatnonzero(self._lanes.primer).tolist():
            if row not in self._arrivals.awaited:
                self._agenda.push(self._agenda.now, ARRIVE, row)
        if not self._primers:
            self._open(self._agenda.now)

    def expect(self, row: int, at: int) -> None:
        """A request will arrive at an instant."""
        play = self._play[row]
        if play >= 0:
            self._due.setdefault(play, {})[row] = at

    def arrived(self, row: int) -> None:
        """A request has arrived."""
        play = self._play[row]
        if play >= 0:
            self._due.get(play, {}).pop(row, None)
            self._out.add(row)
            self._out_of[play] += 1
            self._came += 1
            self._came_to[play] += 1

    def ended(self, row: int) -> None:
        """A request has ended and those that follow it are expected: begin the next conversation, or cut the wait."""
        play = self._play[row]
        if play < 0:
            self._primers -= 1
            if not self._primers:
                self._open(self._agenda.now + 1)
            return
        self._out.discard(row)
        self._out_of[play] -= 1
        self._left[play] -= 1
        if self.over:
            return
        if not self._left[play]:
            self._due.pop(play, None)
            self._take(self._agenda.now)
        elif not self._out_of[play]:
            self._watch_tree(play, self._agenda.now)
        if not self._out:
            self._watch_all(self._agenda.now)

    def _open(self, at: int) -> None:
        """Begin a conversation in each lane; requests count from now."""
        if self._opened is not None:
            self._opened(at)
        for _ in range(self._lanes.count):
            self._take(at)
        self._watch_all(at)
        self._agenda.later(at + self._lanes.duration, START, self._close)
        self._agenda.later(at + self._lanes.duration + self._lanes.grace, START, self._abandon)

    def _take(self, at: int) -> None:
        """A lane is free: the next conversation begins in it, where there is one."""
        if self._next == len(self._begins):
            return
        play = self._next
        self._next += 1
        delay = self._arrivals.delay
        for row in self._begins[play]:
            arrives = at + (delay[row] if delay else 0)
            self.expect(row, arrives)
            self._agenda.push(arrives, ARRIVE, row)
        self._watch_tree(play, at)

    def _watch_tree(self, play: int, since: int) -> None:
        """Nothing of a conversation is under way since now: see that it does not stay so for longer than it may."""
        came = self._came_to[play]

        def wake() -> None:
            if came == self._came_to[play] and not self.over:
                self._hasten([play])

        self._wake(since + self._lanes.tree_idle, [play], wake)

    def _watch_all(self, since: int) -> None:
        """Nothing at all is under way since now."""
        came = self._came

        def wake() -> None:
            if came == self._came and not self.over:
                self._hasten(list(self._due))

        self._wake(since + self._lanes.idle, list(self._due), wake)

    def _wake(self, at: int, plays: Sequence[int], wake: Callable[[], None]) -> None:
        """Call at an instant, unless something arrives in some conversations by then: it can only come earlier."""
        if self._first(plays) > at:
            self._agenda.later(at, START, wake)

    def _first(self, plays: Sequence[int]) -> int:
        """When the first request of some conversations arrives; 0 where none is expected."""
        return min((at for play in plays for at in self._due.get(play, {}).values()), default=0)

    def _hasten(self, plays: Sequence[int]) -> None:
        """Let what waits in some conversations arrive earlier, all by the same time, so that the first does now."""
        by = self._first(plays) - self._agenda.now
        if by <= 0:
            return
        due = {play: self._due[play] for play in plays if self._due.get(play)}
        self._agenda.hasten(ARRIVE, {row for each in due.values() for row in each}, by)
        for play, each in due.items():
            self._due[play] = {row: at - by for row, at in each.items()}
        ready = self._arrivals.ready  # tools whose answer a request waits for, beside another request
        for row in [row for row in ready if self._play[row] in due]:
            ready[row] -= by

    def _close(self) -> None:
        """The time is over: nothing arrives any more."""
        self.over = True
        self._agenda.drop(ARRIVE, {row for due in self._due.values() for row in due})
        self._due.clear()

    def _abandon(self) -> None:
        """What is still under way is taken back."""
        for row in sorted(self._out):
            self._cancel(row)
