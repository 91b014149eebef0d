"""Headers that many requests of a connection have in common, and what is derived from them once for all."""

from __future__ import annotations

from poise.live.http.header import OURS_IN_REQUEST, lines_of

LENGTH = b"content-length"


class SharedHead:
    """The headers of requests that differ in their length alone.

    pairs: in order, names lower-cased; the length among them is that of the first request.
    notes: what readers derive from the head, by a key of theirs. Nothing may depend on the length.
    """

    __slots__ = ("_first", "_lines", "_names", "_place", "_rest", "notes", "pairs")

    def __init__(self, pairs: list[tuple[bytes, bytes]]) -> None:
        self.pairs = pairs
        self.notes: dict[object, object] = {}
        self._first = dict(reversed(pairs))
        self._place = next((at for at, (name, _) in enumerate(pairs) if name == LENGTH), -1)
        self._lines: bytes | None = None
        self._names: frozenset[bytes] | None = None
        self._rest: SharedHead | None = None

    def get(self, name: bytes) -> bytes | None:
        """The first value of a header other than the length."""
        return self._first.get(name)

    def headers(self, length: bytes) -> list[tuple[bytes, bytes]]:
        """A list of its own for a request of this length."""
        pairs = self.pairs.copy()
        if self._place >= 0:
            pairs[self._place] = (LENGTH, length)
        return pairs

    def lines(self) -> bytes:
        """The headers as they are forwarded; ValueError where one contains a line end."""
        lines = self._lines
        if lines is None:
            lines = self._lines = lines_of(self.pairs, OURS_IN_REQUEST)
        return lines

    def without(self, names: frozenset[bytes]) -> SharedHead:
        """The same without these headers."""
        rest = self._rest
        if rest is None or self._names != names:
            rest = self._rest = SharedHead([pair for pair in self.pairs if pair[0] not in names])
            self._names = names
        return rest
