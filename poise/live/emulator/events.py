"""KV-cache events in vLLM's format, made from what enters and leaves a replica's prefix cache.

The replica reports ids of extents; here an extent is one block and its id the hash of the chain up to it. So the parent
and the tokens of each block are kept from the request that brings it until neither a request nor the cache needs
them. Wire format: vLLM `distributed/kv_events.py`, as seen from vLLM 0.32: `[ts, [event, …], rank]`, an event being a
tagged map.
"""

from __future__ import annotations

from array import array
from collections import deque

import msgspec

_LIVES, _PARENT, _TOKENS, _EXTRA, _LORA = range(5)


class BlockStored(msgspec.Struct, tag=True):
    """Blocks added to the cache, each the parent of the next."""

    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None = None
    medium: str | None = "GPU"
    lora_name: str | None = None
    extra_keys: list[list[str] | None] | None = None
    group_idx: int | None = 0
    kv_cache_spec_kind: str | None = "full_attention"


class BlockRemoved(msgspec.Struct, tag=True):
    """Blocks removed from the cache."""

    block_hashes: list[int]
    medium: str | None = "GPU"
    group_idx: int | None = 0


class AllBlocksCleared(msgspec.Struct, tag=True):
    """The cache is empty."""


Event = BlockStored | BlockRemoved | AllBlocksCleared


class Batch(msgspec.Struct, array_like=True):
    """The cache events of one step. ts: seconds since 1970."""

    ts: float
    events: list[Event]
    data_parallel_rank: int | None = 0


class Ledger:
    """The blocks that requests bring and the cache holds, and the events not sent yet.

    `listen` is the replica's `CacheListener`.
    """

    def __init__(self, block: int) -> None:
        self.block = block
        self.events: list[Event] = []
        self._blocks: dict[int, list[object]] = {}  # by hash: how many need it, parent, tokens, salt, adapter

    def bring(self, ids: tuple[int, ...], tokens: array[int], salt: str = "", lora: str | None = None) -> None:
        """A request arrives whose blocks may enter the cache; its salt goes with the first, its adapter with all."""
        block, blocks = self.block, self._blocks
        parent: int | None = None
        for place, each in enumerate(ids):
            known = blocks.get(each)
            if known is None:
                extra = [salt] if salt and not place else None
                blocks[each] = [1, parent, tokens[place * block : (place + 1) * block], extra, lora]
            else:
                known[_LIVES] += 1  # type: ignore[operator]
            parent = each

    def release(self, ids: tuple[int, ...]) -> None:
        """A request with these blocks has ended."""
        for each in ids:
            self._let_go(each)

    def listen(self, block: int, enters: bool) -> None:
        """A block enters the cache, or leaves it."""
        if enters:
            self._store(block)
        else:
            self._remove(block)
            self._let_go(block)

    def clear(self) -> None:
        """The cache was cleared: one event, in place of those of single blocks."""
        self.events = [AllBlocksCleared()]

    def take(self) -> list[Event]:
        """The events since the last call."""
        events, self.events = self.events, []
        return events

    def __len__(self) -> int:
        return len(self._blocks)

    def _store(self, block: int) -> None:
        known = self._blocks[block]
        known[_LIVES] += 1  # type: ignore[operator]
        parent, tokens, extra = known[_PARENT], known[_TOKENS], known[_EXTRA]
        assert isinstance(tokens, array) and (extra is None or isinstance(extra, list))
        last = self.events[-1] if self.events else None
        if isinstance(last, BlockStored) and last.block_hashes[-1] == parent:
            last.block_hashes.append(block)
            last.token_ids.extend(tokens)
            assert last.extra_keys is not None
            last.extra_keys.append(extra)
        else:
            lora = known[_LORA]
            assert (parent is None or isinstance(parent, int)) and (lora is None or isinstance(lora, str))
            self.events.append(
                BlockStored([block], parent, tokens.tolist(), self.block, lora_name=lora, extra_keys=[extra])
            )

    def _remove(self, block: int) -> None:
        last = self.events[-1] if self.events else None
        if isinstance(last, BlockRemoved):
            last.block_hashes.append(block)
        else:
            self.events.append(BlockRemoved([block]))

    def _let_go(self, block: int) -> None:
        known = self._blocks[block]
        known[_LIVES] -= 1  # type: ignore[operator]
        if not known[_LIVES]:
            del self._blocks[block]


END = (-1).to_bytes(8, "big", signed=True)
"""The sequence number that ends a replay."""


class Stream:
    """Numbers batches, packs them, and keeps the last `keep` of them for subscribers that missed some.

    sent: the number of batches so far.
    """

    def __init__(self, topic: str = "", keep: int = 10_000, rank: int = 0) -> None:
        self.topic = topic.encode()
        self.rank = rank
        self._encode = msgspec.msgpack.Encoder().encode
        self.sent = 0
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=keep)

    def frames(self, events: list[Event], ts: float) -> tuple[bytes, bytes, bytes]:
        """The three frames of the next batch."""
        number, payload = self.sent, self._encode(Batch(ts, events, self.rank))
        self.sent += 1
        self._kept.append((number, payload))
        return self.topic, number.to_bytes(8, "big"), payload

    def replay(self, request: list[bytes]) -> list[tuple[bytes, ...]]:
        """The answers to a ROUTER's request `[client, empty, first number]`; none to anything else, as in vLLM."""
        if len(request) != 3 or len(request[2]) != 8:
            return []
        client, _, first = request
        start = int.from_bytes(first, "big")
        kept = [(client, b"", number.to_bytes(8, "big"), payload) for number, payload in self._kept if number >= start]
        return [*kept, (client, b"", END, b"")]
