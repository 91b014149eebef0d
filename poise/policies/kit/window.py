"""A router's own statistics over a recent window."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence


class Window:
    """Per replica, over the last `length` picoseconds: prompt tokens it was given to compute, output lengths, hits.

    decode_cost: what an output token costs, in prompt tokens.  output_tokens: the length expected before any is seen.
    prompts: a column over replicas, of prompt tokens to compute.
    decodes: a column over replicas, of what decoding a request costs in prompt tokens: `decode_cost` times the mean
    output of the requests that ended there or, where none did, the last mean that was known.
    """

    __slots__ = (
        "_ended", "_given", "_hits", "_requests", "_tokens", "decode_cost", "decodes", "length", "output_tokens",
        "prompts",
    )  # fmt: skip

    def __init__(self, length: int, decode_cost: float, output_tokens: float) -> None:
        self.length = length
        self.decode_cost = decode_cost
        self.output_tokens = output_tokens
        self.prompts: list[int] = []
        self.decodes: list[float] = []
        self._requests: list[int] = []
        self._hits: list[dict[int, int]] = []
        self._tokens: list[list[int]] = []
        self._given: deque[tuple[int, int, int, Sequence[int]]] = deque()
        self._ended: deque[tuple[int, int, int]] = deque()

    def move(self, now: int, replicas: int) -> None:
        """Drop what is older than the window; `replicas` is their number."""
        while len(self.prompts) < replicas:
            self.prompts.append(0)
            self.decodes.append(self.output_tokens * self.decode_cost)
            self._requests.append(0)
            self._hits.append({})
            self._tokens.append([0, 0])
        since = now - self.length
        while self._given and self._given[0][0] < since:
            _, replica, prompt, ids = self._given.popleft()
            self._count(replica, -1, -prompt, ids)
        while self._ended and self._ended[0][0] < since:
            _, replica, tokens = self._ended.popleft()
            self._average(replica, -1, -tokens)

    def give(self, now: int, replica: int, prompt: int, ids: Sequence[int]) -> None:
        """A request of `prompt` tokens to compute, whose prompt is made of the extents `ids`, goes to `replica`."""
        self._given.append((now, replica, prompt, ids))
        self._count(replica, 1, prompt, ids)

    def end(self, now: int, replica: int, output_tokens: int) -> None:
        """A request ended on `replica`."""
        self._ended.append((now, replica, output_tokens))
        self._average(replica, 1, output_tokens)

    def hits(self, replica: int, extent: int) -> float:
        """Which share of the requests given to `replica` had `extent` in its prompt."""
        return self._hits[replica].get(extent, 0) / max(self._requests[replica], 1)

    def _count(self, replica: int, requests: int, prompt: int, ids: Sequence[int]) -> None:
        self._requests[replica] += requests
        self.prompts[replica] += prompt
        hits = self._hits[replica]
        for extent in ids:
            count = hits.get(extent, 0) + requests
            if count:
                hits[extent] = count
            else:
                del hits[extent]

    def _average(self, replica: int, requests: int, tokens: int) -> None:
        known = self._tokens[replica]
        known[0] += requests
        known[1] += tokens
        if known[0]:
            self.decodes[replica] = known[1] / known[0] * self.decode_cost


class Halves:
    """Per key, values of the older and of the newer half of the last `length` picoseconds."""

    __slots__ = ("_keys", "_newer", "_older", "length")

    def __init__(self, length: int) -> None:
        self.length = length
        self._keys: dict[int, list[int]] = {}
        self._newer: deque[tuple[int, list[int], int, int]] = deque()
        self._older: deque[tuple[int, list[int], int, int]] = deque()

    def add(self, now: int, key: int, value: int) -> None:
        """Add `value` for `key`."""
        sums = self._keys.setdefault(key, [0, 0, 0, 0])
        sums[2] += 1
        sums[3] += value
        self._newer.append((now, sums, value, key))

    def move(self, now: int) -> None:
        """Age the values, and drop those older than the window."""
        while self._newer and self._newer[0][0] < now - self.length // 2:
            entry = self._newer.popleft()
            _, sums, value, _ = entry
            sums[0] += 1
            sums[1] += value
            sums[2] -= 1
            sums[3] -= value
            self._older.append(entry)
        while self._older and self._older[0][0] < now - self.length:
            _, sums, value, key = self._older.popleft()
            sums[0] -= 1
            sums[1] -= value
            if not (sums[0] or sums[2]) and self._keys.get(key) is sums:
                del self._keys[key]

    def doubled(self, key: int) -> bool:
        """Whether the mean of the newer half is at least twice that of the older one; both must have two values."""
        older, before, newer, after = self._keys.get(key, (0, 0, 0, 0))
        return older > 1 and newer > 1 and after * older >= 2 * before * newer

    def forget(self, key: int) -> None:
        """Restart with `key`."""
        self._keys.pop(key, None)
