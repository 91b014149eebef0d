"""Encoders apart from the replicas: requests with images or audio pass them before any decision is made on them."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapreplace


class Encoding:
    """`servers` encoders that take requests in the order of arrival, one each at a time.

    times: picoseconds that each row is encoded.  handed: and that its embeddings are on their way to a replica.
    """

    def __init__(self, servers: int, times: Sequence[int], handed: Sequence[int]) -> None:
        self.times, self.handed = times, handed
        self._free = [0] * servers
        self.busy = 0

    def ready(self, row: int, now: int) -> int:
        """When the row, which arrives now, may be sent to a replica: at once where there is nothing to encode."""
        time = self.times[row]
        if not time:
            return now
        end = max(now, self._free[0]) + time
        heapreplace(self._free, end)
        self.busy += time
        return end + self.handed[row]
