"""A prefix index of a router's own dispatches: for each replica the extents sent, least recently sent first."""

from __future__ import annotations

from collections.abc import Sequence

from poise.core.control.prefix_index import Sent


class SentTree:
    """A prefix tree over all replicas. Extent ids name their whole prefix, so a match is a walk through one dict."""

    __slots__ = ("_holders", "_sent")

    def __init__(self) -> None:
        self._holders: dict[int, dict[int, None]] = {}
        self._sent: dict[int, Sent] = {}

    def add(self, replica: int, ids: Sequence[int], ends: Sequence[int]) -> None:
        """A prompt made of these extents goes to `replica`."""
        sent = self._sent.get(replica)
        if sent is None:
            sent = self._sent[replica] = Sent()
        sent.add(ids, ends)
        holders = self._holders
        for extent in ids:
            holding = holders.get(extent)
            if holding is None:
                holders[extent] = {replica: None}
            else:
                holding[replica] = None

    def match(self, ids: Sequence[int], ends: Sequence[int], able: Sequence[int]) -> tuple[int, int]:
        """The replica of `able` with the longest prefix, the oldest of equals, and its tokens; (-1, 0) for none."""
        holders, known = self._holders, 0
        for extent in ids:
            if extent not in holders:
                break
            known += 1
        for place in range(known - 1, -1, -1):
            for replica in holders[ids[place]]:
                if replica in able:
                    return replica, ends[place]
        return -1, 0

    def drop(self, room: int) -> None:
        """Forget the least recently sent leaves of every replica that has more than `room` tokens."""
        for replica, sent in self._sent.items():
            for extent in sent.drop(room):
                holding = self._holders[extent]
                del holding[replica]
                if not holding:
                    del self._holders[extent]
