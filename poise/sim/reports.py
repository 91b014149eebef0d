"""Reports of the replicas: when they are made, and which columns they have, only those that are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from poise.core.control.control import Control
from poise.core.control.prefix_index import PrefixIndex
from poise.core.engine.extents import CacheListener
from poise.core.engine.replica import Replica
from poise.core.event import AdaptersChanged, Reported
from poise.core.units import ps


class Reports:
    """Measures the columns that the control's policies need.

    period, delay: picoseconds between reports and until each arrives; period 0: nothing is reported by the clock.
    always: a report is made just before each decision instead (`belief.period_s` of 0).
    """

    def __init__(self, control: Control, replicas: Sequence[Replica]) -> None:
        state = control.state
        belief = state.belief
        self._replicas = replicas
        self._names = state.reported
        self._caches = state.prefix is not None and belief.prefix != "own"
        self._changes: dict[tuple[int, int], bool] = {}  # the last that is known of each replica and extent
        reads = bool(self._names) or (state.prefix is not None and belief.prefix == "reported")
        self._adapters = state.tracks_adapters
        self._reported: dict[
            int, tuple[tuple[int, ...], tuple[int, ...]]
        ] = {}  # the last that was reported of adapters
        reads = (
            reads or self._adapters or control.mover is not None or control.lending is not None
        )  # called after each report
        self.always = reads and not belief.period_s
        self.period = ps(belief.period_s) if reads else 0
        self.delay = ps(belief.delay_s)
        self._oracle = state.prefix if belief.prefix == "oracle" else None
        for number in range(len(replicas)):
            self.listen(number)

    def listen(self, number: int) -> None:
        """Listen to a replica's cache, where caches are reported; nothing is known of a new one yet."""
        self._reported.pop(number, None)
        if self._caches:
            self._changes = {key: entered for key, entered in self._changes.items() if key[0] != number}
            self._replicas[number].pool.listener = self._listener(number, self._oracle)

    @property
    def watches(self) -> bool:
        """Whether decisions need the caches, or all columns, brought up to date first."""
        return self.always or self._caches

    def refresh(self, now: int, passed: Callable[[int], bool]) -> None:
        """Bring all caches up to `now`, so that the index is exact."""
        if self._caches:
            for number, replica in enumerate(self._replicas):
                if not replica.closed:
                    replica.space.refresh(now, passed(number))

    def measure(self, now: int, passed: Callable[[int], bool], arrives: int) -> Reported:
        """All replicas as they are at `now`, in a report that arrives at `arrives`."""
        self.refresh(now, passed)
        columns = {
            name: [replica.look(name, now, passed(number)) for number, replica in enumerate(self._replicas)]
            for name in self._names
        }
        changes = tuple((number, extent, entered) for (number, extent), entered in sorted(self._changes.items()))
        self._changes.clear()
        return Reported(arrives, now, columns, changes)

    def adapters(self, arrives: int) -> list[AdaptersChanged]:
        """The adapters of those replicas where they changed since the last report, as they are now."""
        changed = []
        for number, replica in enumerate(self._replicas) if self._adapters else ():
            slots = replica.adapters
            if slots is None:
                continue
            now = ((), ()) if replica.closed else (tuple(slots.running), slots.waiting())
            if self._reported.get(number) != now:
                self._reported[number] = now
                changed.append(AdaptersChanged(arrives, number, replica.engine.max_loras, *now))
        return changed

    def _listener(self, number: int, index: PrefixIndex | None) -> CacheListener:
        if index is None:
            return lambda extent, entered: self._changes.__setitem__((number, extent), entered)
        add, remove = index.add, index.remove
        return lambda extent, entered: add(number, extent) if entered else remove(number, extent)
