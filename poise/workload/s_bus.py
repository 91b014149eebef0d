"""S-Bus: shared state in shards with versions, and commits that are refused where they rest on old reads.

Khan 2026 (arXiv 2605.17076) and its code. A log on the server keeps which version of which shard each agent last got. A
commit is refused where another shard of its log has changed (Observable-Read Isolation), or its own shard since it was
read. As in the code, the log is checked before the lock of the written shard is taken, so two commits whose checks come
between one another's check and write may both pass, each on what the other overwrites.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal

Way = Literal["ori", "version", "overwrite", "locks"]
WAYS: tuple[Way, ...] = ("ori", "version", "overwrite", "locks")


class Bus:
    """Versions of shards, and for each agent the version of each shard that it last got."""

    def __init__(self, way: Way, shards: int) -> None:
        self.way = way
        self.versions = [0] * shards
        self._log: dict[int, dict[int, int]] = {}

    def get(self, agent: int, shards: Iterable[int]) -> None:
        """An agent reads shards, which the log keeps until it reads them again."""
        self._log.setdefault(agent, {}).update({shard: self.versions[shard] for shard in shards})

    def stale(self, agent: int, own: int) -> list[int]:
        """The shards that an agent has read, other than its own, and that have changed since."""
        log = self._log[agent]
        return [shard for shard, version in log.items() if shard != own and self.versions[shard] != version]

    def checked(self, agent: int, own: int) -> list[int]:
        """What a commit is refused for before it takes the lock of its shard; nothing in other ways than `ori`."""
        return self.stale(agent, own) if self.way == "ori" else []

    def changed(self, agent: int, own: int) -> bool:
        """Whether a shard has changed since an agent read it."""
        return self.versions[own] != self._log[agent][own]

    def write(self, agent: int, own: int) -> bool:
        """Commit under the lock of the shard; False where it is refused, since the shard has changed."""
        if self.way != "overwrite" and self.changed(agent, own):
            return False
        self.versions[own] += 1
        return True


class Locks:
    """Locks held from a step's reads to its write: those of shards that are read may be shared, all taken together.

    Agents go in the order in which they asked, but for those that need nothing that one before them waits for.
    """

    def __init__(self, shards: int) -> None:
        self._users = [0] * shards  # agents that read it, -1 for one that writes it
        self._held: dict[int, Sequence[int]] = {}
        self._queue: deque[tuple[int, Sequence[int]]] = deque()

    def ask(self, agent: int, shards: Sequence[int]) -> list[int]:
        """An agent wants to write the first of `shards` and read the others; who begins now."""
        self._queue.append((agent, shards))
        return self._grant()

    def give_back(self, agent: int) -> list[int]:
        """An agent has written, or is gone; who begins now."""
        own, *read = self._held.pop(agent)
        self._users[own] = 0
        for shard in read:
            self._users[shard] -= 1
        return self._grant()

    def _grant(self) -> list[int]:
        begun: list[int] = []
        wanted: set[int] = set()
        left: deque[tuple[int, Sequence[int]]] = deque()
        for agent, shards in self._queue:
            own, *read = shards
            free = not self._users[own] and all(self._users[shard] >= 0 for shard in read)
            if free and wanted.isdisjoint(shards):
                self._held[agent] = shards
                self._users[own] = -1
                for shard in read:
                    self._users[shard] += 1
                begun.append(agent)
            else:
                wanted.update(shards)
                left.append((agent, shards))
        self._queue = left
        return begun
