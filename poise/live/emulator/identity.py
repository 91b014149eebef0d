"""Block identity for prefix caching: a chain of hashes over whole blocks of token ids, as in vLLM.

A block's hash covers its tokens and the hash before it, so it names the whole prefix. Each block is an extent of its
own (`RequestView.ids`, `ends`). An emulated output is known beforehand, and the chain continues through it: that is how
the next turn of a conversation finds the blocks of the last answer.
"""

from __future__ import annotations

from array import array

from xxhash import xxh3_64_intdigest

from poise.core.engine.replica import Replica
from poise.core.policy import Cache
from poise.core.request import RequestView
from poise.core.view import LaneView, SequenceView

_ID_BYTES = 8


def salted(salt: str) -> int:
    """The hash that a chain starts from: 0 without a salt."""
    return xxh3_64_intdigest(salt.encode("utf-8", "surrogatepass")) if salt else 0


def chain(tokens: array[int], block: int, start: int = 0) -> tuple[int, ...]:
    """The hashes of the whole blocks of `tokens`, `block` tokens each."""
    raw = memoryview(tokens).cast("B")
    width = block * _ID_BYTES
    parent = start
    hashes = []
    for place in range(0, len(raw) - width + 1, width):
        parent = xxh3_64_intdigest(raw[place : place + width], parent)
        hashes.append(parent)
    return tuple(hashes)


def ends(blocks: int, block: int) -> tuple[int, ...]:
    """Where `blocks` blocks of `block` tokens end."""
    return tuple(range(block, (blocks + 1) * block, block))


class KeepOutputs(Cache):
    """Caches the blocks of an output, under the ids from its request, when the request ends; pins them on request.

    vLLM does so whenever a decode fills a block; between steps of a held batch there is no lookup, so the end is early
    enough for all but prompts that repeat an answer still being made. This is mechanism in the place of a policy: it is
    called at the one moment when the output is complete and its blocks are still there.
    hinted: picoseconds for which the KV of requests shall stay, by id, of those with a retention hint.
    """

    def __init__(self) -> None:
        self.replica: Replica | None = None
        self.hinted: dict[int, int] = {}

    def gives_way(self, request: RequestView) -> int:
        """The session that began last first, so that pins never block the oldest."""
        return -request.begun_at

    def cache(self, request: RequestView, sequence: SequenceView, lane: LaneView) -> int:
        """Pin the request's blocks for the hinted time."""
        replica = self.replica
        if replica is not None and request.ids:
            pool = replica.pool
            running = replica.sequences[request.id]
            private = pool.private(running)
            pool.explicit += private  # counted as in use while blocks change hands
            pool.register(running)
            pool.explicit -= pool.private(running)
        return self.hinted.get(request.id, 0)
