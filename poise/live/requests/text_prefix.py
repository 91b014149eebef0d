"""Approximate prefix identity: chained hashes over pieces of a prompt's bytes, without a tokenizer.

Where pieces end depends on the position alone, so two prompts share the ids of just those pieces that lie in their
common beginning. Pieces grow: each is `piece` bytes or 1/64 of what is before it, whichever is more. So a megabyte
has some hundred ids, and what a shared prefix loses at its ragged end stays below 1/64 of it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from xxhash import xxh3_64_intdigest

from poise.live.requests.hash_chain import root

SHARE: Final = 64
LONGEST: Final = 1 << 30


class Pieces:
    """How prompts are cut.

    piece: bytes of the first pieces.  bytes_per_token: to estimate how many tokens a prefix holds, at most `piece`.
    """

    __slots__ = ("_cuts", "_ends", "_roots", "bytes_per_token")

    def __init__(self, piece: int = 256, bytes_per_token: float = 4.0) -> None:
        self._cuts: list[int] = []
        end = 0
        while end < LONGEST:
            end += max(piece, end // SHARE)
            self._cuts.append(end)
        self._roots: dict[str, int] = {}
        self.learn(bytes_per_token)

    def learn(self, bytes_per_token: float) -> None:
        """Estimate tokens by another ratio from now on; ids stay the same. ValueError outside of (0, `piece`]."""
        if not 0 < bytes_per_token <= self._cuts[0]:
            raise ValueError(f"bytes_per_token is {bytes_per_token}; it must be above 0 and at most {self._cuts[0]}")
        self.bytes_per_token = bytes_per_token
        self._ends = tuple(int(cut / bytes_per_token) for cut in self._cuts)

    def identity(self, text: bytes, salt: str = "", token_ids: bool = False) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Ids of the full pieces of `text`, and the tokens up to the end of each, as in `RequestView`.

        salt: prompts with different salts share no id.  token_ids: `text` is 4 bytes for each token.
        """
        ids: list[int] = []
        parent = self._roots.get(salt) or self._root(salt)
        start = 0
        count = bisect_right(self._cuts, len(text))
        for end in self._cuts[:count]:
            parent = xxh3_64_intdigest(text[start:end], parent) >> 1
            ids.append(parent)
            start = end
        if token_ids and self.bytes_per_token != 4.0:
            return tuple(ids), tuple(cut // 4 for cut in self._cuts[:count])
        return tuple(ids), self._ends[:count]

    def _root(self, salt: str) -> int:
        made = root("text", salt)
        if len(salt) <= 200:  # salts are the client's words: what is kept of them is bounded
            if len(self._roots) >= 1024:
                self._roots.clear()
            self._roots[salt] = made
        return made
