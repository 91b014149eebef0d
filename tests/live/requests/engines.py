"""An engine that publishes KV events as vLLM does, without sockets: its cache, numbered messages, a bounded buffer."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

from msgspec import msgpack

from poise.live.requests.hash_chain import block_ids, token_root


class Cache:
    """An engine's prefix cache with its own hashes; every change becomes an event.

    seed: what its hashes begin with, another one after each restart.  arrays: the form of older versions.
    """

    def __init__(self, block_tokens: int, seed: int = 0, arrays: bool = False) -> None:
        self.block_tokens = block_tokens
        self.seed = seed
        self.arrays = arrays
        self.copies: Counter[tuple[int, ...]] = Counter()

    def name(self, prefix: tuple[int, ...]) -> int:
        return hash((self.seed, prefix)) & (1 << 64) - 1

    def held(self) -> set[int]:
        """The ids of the blocks held, by Poise's hash."""
        root = token_root(self.block_tokens)
        return {block_ids(prefix, self.block_tokens, root)[-1] for prefix, copies in self.copies.items() if copies}

    def store(self, tokens: Sequence[int], known: int = 0) -> dict[str, Any]:
        """Blocks of `tokens` behind the first `known` ones are full."""
        size = self.block_tokens
        prefixes = [tuple(tokens[: end * size]) for end in range(known + 1, len(tokens) // size + 1)]
        self.copies.update(prefixes)
        return {
            "type": "BlockStored",
            "block_hashes": [self.name(each) for each in prefixes],
            "parent_block_hash": self.name(tuple(tokens[: known * size])) if known else None,
            "token_ids": list(tokens[known * size : len(tokens) // size * size]),
            "block_size": size,
            "lora_id": None,
            "medium": "GPU",
            "lora_name": None,
        }

    def remove(self, prefix: tuple[int, ...]) -> dict[str, Any]:
        self.copies[prefix] -= 1
        return {"type": "BlockRemoved", "block_hashes": [self.name(prefix)], "medium": "GPU"}

    def clear(self) -> dict[str, Any]:
        self.copies.clear()
        return {"type": "AllBlocksCleared"}

    def message(self, events: Sequence[dict[str, Any]], ts: float = 0.0) -> bytes:
        """One message as it goes over the wire."""
        shaped = [list(each.values()) if self.arrays else each for each in events]
        return msgpack.encode([ts, shaped, 0] if self.arrays else {"ts": ts, "events": shaped})


class Publisher:
    """Numbers messages from 0 and keeps the last `kept` of them for replay."""

    def __init__(self, cache: Cache, kept: int) -> None:
        self.cache = cache
        self.buffer: deque[tuple[int, bytes]] = deque(maxlen=kept)
        self.number = 0

    def publish(self, *events: dict[str, Any]) -> tuple[int, bytes]:
        """The next message; its stamp differs from that of every other process's."""
        message = self.number, self.cache.message(events, ts=self.cache.seed + self.number / 1e6)
        self.buffer.append(message)
        self.number += 1
        return message

    def replay(self, start: int) -> list[tuple[int, bytes]]:
        """What is left of the messages from `start` on."""
        return [each for each in self.buffer if each[0] >= start]
