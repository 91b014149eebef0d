"""vLLM's KV-cache events: from the bytes of one message to the ids that entered and left an engine's prefix cache.

A message is msgpack: a batch (ts, events, data_parallel_rank) of events BlockStored, BlockRemoved and AllBlocksCleared.
Batches and events come as arrays, in the order of their fields, or as maps, depending on the engine and its age
(vllm/distributed/kv_events.py; SGLang sends the same); both are read, and unknown ones are skipped and counted.
Each block travels with its token ids, so it is named by Poise's own chained id and the engine's hash function is never
needed. One `Blocks` follows one engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import msgpack

from poise.live.requests.hash_chain import block_id, token_root

BATCH: Final = ("ts", "events", "data_parallel_rank")
STORED: Final = (
    "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys",
    "group_idx",
)  # fmt: skip
REMOVED: Final = ("block_hashes", "medium", "group_idx")
"""Fields in the order in which the array form has them."""

DEVICE: Final = (None, "GPU")
"""Mediums that count as cached; vLLM says GPU on every device, and older versions say nothing."""

Hash = int | bytes


class Batch(NamedTuple):
    """One message: when it was made (the engine's wall clock, seconds) and its events, each `(kind, fields)`."""

    at_s: float
    events: list[tuple[str, Mapping[str, Any]]]


class Change(NamedTuple):
    """The change of an engine's prefix cache by a message; `cleared` applies before what entered and left.

    at_s: the engine's wall clock.
    """

    entered: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    cleared: bool = False
    at_s: float = 0.0


def decode(payload: bytes) -> Batch | str:
    """The batch in `payload`, or what is wrong with it."""
    try:
        fields = _fields(_DECODER.decode(payload), BATCH)
        return Batch(float(fields["ts"]), [_event(each) for each in fields["events"]])
    except WRONG as error:
        return f"no KV event batch: {type(error).__name__}: {error}"


WRONG: Final = (msgspec.DecodeError, LookupError, TypeError, ValueError, OverflowError, RecursionError)
"""Exceptions raised by reading a malformed message."""


_DECODER: Final = msgpack.Decoder()


def _fields(value: Any, names: Sequence[str]) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else dict(zip(names, value, strict=False))


def _event(value: Any) -> tuple[str, Mapping[str, Any]]:
    if isinstance(value, dict):
        return str(value["type"]), value
    kind = str(value[0])
    names = STORED if kind == "BlockStored" else REMOVED if kind == "BlockRemoved" else ()
    return kind, _fields(value[1:], names)


class Blocks:
    """The blocks that one engine holds, by its own hashes, and their ids here.

    An engine may hold a block twice and then reports it stored twice: it has left when it was removed as often.
    counts: events skipped, by reason.
    """

    __slots__ = ("_known", "_roots", "block_tokens", "counts")

    def __init__(self) -> None:
        self._known: dict[Hash, list[int]] = {}  # the engine's hash to [id, copies]
        self._roots: dict[tuple[int, str], int] = {}
        self.block_tokens = 0
        self.counts: Counter[str] = Counter()

    def __len__(self) -> int:
        """Different blocks held."""
        return len(self._known)

    def clear(self) -> None:
        """Drop all blocks."""
        self._known.clear()

    def apply(self, batch: Batch) -> Change | str:
        """The changes by the events of a batch, in order, or why the contents can no longer be known.

        A malformed BlockStored is counted and skipped: its blocks stay unknown. A malformed BlockRemoved is not.
        """
        entered: dict[int, None] = {}
        left: dict[int, None] = {}
        cleared = False
        for kind, event in batch.events:
            try:
                if kind == "BlockStored":
                    self._stored(event, entered, left)
                elif kind == "BlockRemoved":
                    self._removed(event, entered, left)
                elif kind == "AllBlocksCleared":
                    self.clear()
                    entered, left, cleared = {}, {}, True
                else:
                    self.counts["unknown kind"] += 1
            except WRONG as error:
                self.counts["malformed"] += 1
                if kind == "BlockRemoved":
                    return f"malformed BlockRemoved: {type(error).__name__}: {error}"
        return Change(tuple(entered), tuple(left), cleared, batch.at_s)

    def _concerns(self, event: Mapping[str, Any]) -> bool:
        """Whether the event is about the prefix cache in the device's memory; others are counted separately."""
        medium = event.get("medium")
        if medium not in DEVICE:
            self.counts[f"medium {medium}"] += 1
        elif event.get("group_idx"):
            self.counts["group"] += 1
        else:
            return True
        return False

    def _stored(self, event: Mapping[str, Any], entered: dict[int, None], left: dict[int, None]) -> None:
        if not self._concerns(event):
            return
        hashes, tokens, size = event["block_hashes"], event["token_ids"], event["block_size"]
        if size < 1 or len(tokens) != size * len(hashes):
            raise ValueError
        parent = self._parent(event, size)
        if parent is None:
            self.counts["orphan"] += len(hashes)
            return
        named = []
        for place, name in enumerate(hashes):
            parent = block_id(parent, tokens[place * size : (place + 1) * size], _extra(event, place))
            named.append((name, parent))
        self.block_tokens = size
        for name, ident in named:
            self._enter(name, ident, entered, left)

    def _parent(self, event: Mapping[str, Any], size: int) -> int | None:
        before = event.get("parent_block_hash")
        if before is not None:
            known = self._known.get(before)
            return known[0] if known else None
        adapter = _adapter(event)
        root = self._roots.get((size, adapter))
        if root is None:
            root = self._roots[size, adapter] = token_root(size, adapter)
        return root

    def _enter(self, name: Hash, ident: int, entered: dict[int, None], left: dict[int, None]) -> None:
        known = self._known.get(name)
        if known:
            known[1] += 1
            return
        self._known[name] = [ident, 1]
        entered[ident] = None
        left.pop(ident, None)

    def _removed(self, event: Mapping[str, Any], entered: dict[int, None], left: dict[int, None]) -> None:
        if not self._concerns(event):
            return
        for name in event["block_hashes"]:
            known = self._known.get(name)
            if known is None:
                self.counts["unknown removed"] += 1
                continue
            known[1] -= 1
            if not known[1]:
                del self._known[name]
                left[known[0]] = None
                entered.pop(known[0], None)


def _adapter(event: Mapping[str, Any]) -> str:
    """The name of the LoRA adapter; engines that give only a number have that as its name."""
    name, number = event.get("lora_name"), event.get("lora_id")
    return name or ("" if number is None else f"#{number}")


def salted(salt: str) -> bytes:
    """What `cache_salt` adds to the first block of a prompt, as `Blocks` sees it in the events."""
    return msgpack.encode([salt]) if salt else b""


def _extra(event: Mapping[str, Any], place: int) -> bytes:
    """What else a block's content depends on: salt, pictures; the adapter's name is in the root already."""
    keys = event.get("extra_keys")
    extra = keys[place] if keys else None
    if not extra:
        return b""
    rest = list(extra)
    if rest[0] == event.get("lora_name"):
        del rest[0]
    return msgpack.encode(rest) if rest else b""
