"""Names of models, tenants, sessions and adapters as the dense integers that policies see."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from xxhash import xxh3_64_intdigest


class Names:
    """Numbers for names, in the order of their first use.

    most: how many are kept, the least recently used dropped first, since clients choose names; a name
    that was dropped gets a new number. 0 keeps all.
    """

    __slots__ = ("_most", "_next", "_numbers")

    def __init__(self, most: int = 0) -> None:
        self._most = most
        self._next = 0
        self._numbers: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, name: str) -> bool:
        return name in self._numbers

    def number(self, name: str) -> int:
        """The number of a name; -1 for the empty one."""
        if not name:
            return -1
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = self._next
            self._next += 1
            if self._most and len(self._numbers) > self._most:
                self._numbers.popitem(last=False)
        elif self._most:
            self._numbers.move_to_end(name)
        return number

    def listed(self) -> list[str]:
        """All names that are kept, by number."""
        return sorted(self._numbers, key=self._numbers.__getitem__)


class Hashed:
    """Numbers for names that any process gives alike: 62 bits of a hash, so the numbers are not dense."""

    __slots__ = ()

    def number(self, name: str) -> int:
        """The number of a name; -1 for the empty one."""
        return xxh3_64_intdigest(name.encode()) >> 2 if name else -1


class Begun:
    """When the first request of each session arrived, and how many have arrived since.

    most: sessions that are kept, the least recently used dropped first; one that was dropped begins again.
    """

    __slots__ = ("_most", "_sessions")

    def __init__(self, most: int) -> None:
        self._most = most
        self._sessions: OrderedDict[int, tuple[int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def next(self, session: int, now: int) -> tuple[int, int]:
        """Turn of its session (-1: no session) of a request that arrives now, and when that session began."""
        if session < 0:
            return 0, now
        turn, begun_at = self._sessions.pop(session, (0, now))
        self._sessions[session] = turn + 1, begun_at
        if len(self._sessions) > self._most:
            self._sessions.popitem(last=False)
        return turn, begun_at


class Listed:
    """The names of numbers, of a source that keeps all. listed: all its names, by number; called for unknown ones."""

    __slots__ = ("_listed", "_names")

    def __init__(self, listed: Callable[[], list[str]]) -> None:
        self._listed = listed
        self._names: list[str] = []

    def name(self, number: int) -> str:
        """The name of a number; empty for none."""
        if number >= len(self._names):
            self._names = self._listed()
        return self._names[number] if 0 <= number < len(self._names) else ""
