"""Chained hashes: the id of a piece of a prompt identifies the prefix up to its end, as `PrefixIndex` needs.

A piece's id is XXH3 (64 bits, of which 63 are kept) of its bytes, seeded with the id before it. XXH3 is fast and not
cryptographic: a client that chooses prompts can make two of them collide, which costs a cache hit and never an answer.
Give tenants that must not learn of one another different salts.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from xxhash import xxh3_64_intdigest


def root(kind: str, salt: str = "", lora: str = "") -> int:
    """The id before the first piece. Chains of another kind, salt or adapter have no id in common with this one."""
    return xxh3_64_intdigest("\0".join((kind, lora, salt)).encode()) >> 1


def token_root(block_tokens: int, lora: str = "") -> int:
    """The root of chains over blocks of `block_tokens` token ids."""
    return root(f"tokens/{block_tokens}", lora=lora)


def block_id(parent: int, tokens: Sequence[int], extra: bytes = b"") -> int:
    """The id of a block of token ids after the block `parent`; `extra` is what else its content depends on.

    Raises OverflowError or TypeError where a token does not fit 32 bits.
    """
    return xxh3_64_intdigest(array("I", tokens).tobytes() + extra, parent) >> 1


def block_ids(tokens: Sequence[int], block_tokens: int, parent: int, first: bytes = b"") -> tuple[int, ...]:
    """The ids of the full blocks of `tokens`; `first` is the `extra` of the first one."""
    packed = array("I", tokens).tobytes()
    step = 4 * block_tokens
    ids: list[int] = []
    for start in range(0, len(packed) - step + 1, step):
        parent = xxh3_64_intdigest(packed[start : start + step] + first, parent) >> 1
        first = b""
        ids.append(parent)
    return tuple(ids)
