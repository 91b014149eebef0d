"""vLLM's KV events: both forms of the wire, the ids they become, and what does not count."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import msgpack

from poise.live.requests.hash_chain import block_ids, token_root
from poise.live.telemetry.kv_events import Blocks, Change, decode, salted
from tests.live.requests.engines import Cache

ROOT = token_root(2)


def _apply(blocks: Blocks, *events: Any, ts: float = 1.5) -> Change:
    batch = decode(msgpack.encode([ts, list(events), 0]))
    assert not isinstance(batch, str), batch
    change = blocks.apply(batch)
    assert isinstance(change, Change), change
    return change


def _stored(hashes: list[Any], tokens: list[int], parent: Any = None, **more: Any) -> dict[str, Any]:
    fields = {"block_hashes": hashes, "parent_block_hash": parent, "token_ids": tokens, "block_size": 2}
    return {"type": "BlockStored", **fields, "lora_id": None, "medium": "GPU", "lora_name": None, **more}


def _removed(*hashes: Any, **more: Any) -> dict[str, Any]:
    return {"type": "BlockRemoved", "block_hashes": list(hashes), "medium": "GPU", **more}


@pytest.mark.parametrize(
    "message",
    [
        [2.5, [["BlockStored", [11, 12], None, [1, 2, 3, 4], 2, None]]],  # the first form: six fields, no medium
        [2.5, [["BlockStored", [11, 12], None, [1, 2, 3, 4], 2, None, "GPU", None, None, None, "tomorrow"]], 0],
        [2.5, [_stored([11, 12], [1, 2, 3, 4])], 0],
        {"ts": 2.5, "events": [_stored([11, 12], [1, 2, 3, 4], kv_cache_spec_kind="full", locality="x")]},
        {"ts": 2.5, "events": [_stored([b"\1" * 32, b"\2" * 32], [1, 2, 3, 4])], "data_parallel_rank": 3},
    ],
)
def test_every_form_says_the_same(message: Any) -> None:
    batch = decode(msgpack.encode(message))
    assert not isinstance(batch, str), batch
    assert Blocks().apply(batch) == Change(block_ids([1, 2, 3, 4], 2, ROOT), (), False, 2.5)


def test_a_chain_goes_on_from_its_parent_and_ends_block_by_block() -> None:
    blocks = Blocks()
    one, two, three = block_ids([1, 2, 3, 4, 5, 6], 2, ROOT)
    assert _apply(blocks, _stored([7], [1, 2])).entered == (one,)
    assert _apply(blocks, _stored([8, 9], [3, 4, 5, 6], parent=7)).entered == (two, three)
    assert _apply(blocks, _removed(9, 8)).left == (three, two)
    assert len(blocks) == 1 and blocks.block_tokens == 2


def test_a_block_held_twice_leaves_with_its_second_copy() -> None:
    blocks = Blocks()
    [ident] = _apply(blocks, _stored([7], [1, 2])).entered
    assert _apply(blocks, _stored([7], [1, 2])).entered == ()
    assert _apply(blocks, _removed(7)).left == ()
    assert _apply(blocks, _removed(7)).left == (ident,)
    assert _apply(blocks, _removed(7)).left == () and blocks.counts["unknown removed"] == 1


def test_one_message_says_what_is_so_after_it() -> None:
    blocks = Blocks()
    [ident] = block_ids([1, 2], 2, ROOT)
    assert _apply(blocks, _stored([7], [1, 2]), _removed(7)) == Change((), (ident,), False, 1.5)
    assert _apply(blocks, _removed(7), _stored([7], [1, 2])).entered == (ident,)
    assert _apply(blocks, _removed(7), _stored([7], [1, 2])) == Change((ident,), (), False, 1.5)
    assert _apply(blocks, {"type": "AllBlocksCleared"}, _stored([7], [1, 2])) == Change((ident,), (), True, 1.5)
    assert _apply(blocks, _stored([8], [3, 4], 7), {"type": "AllBlocksCleared"}) == Change((), (), True, 1.5)
    assert len(blocks) == 0


def test_children_of_an_unknown_block_are_passed_over() -> None:
    blocks = Blocks()
    assert _apply(blocks, _stored([8, 9], [3, 4, 5, 6], parent=7)) == Change((), (), False, 1.5)
    assert _apply(blocks, _stored([10], [7, 8], parent=9)).entered == ()
    assert blocks.counts["orphan"] == 3


def test_adapters_salts_and_pictures_are_part_of_the_id() -> None:
    blocks = Blocks()
    tokens = [1, 2, 3, 4]
    plain = _apply(blocks, _stored([1, 2], tokens)).entered
    lora = _apply(blocks, _stored([3, 4], tokens, lora_name="a", extra_keys=[["a"], ["a"]])).entered
    numbered = _apply(blocks, _stored([5, 6], tokens, lora_id=4)).entered
    salt = _apply(blocks, _stored([7, 8], tokens, extra_keys=[["s"], None])).entered
    both = _apply(blocks, _stored([9, 10], tokens, lora_name="a", extra_keys=[["a", "s"], ["a"]])).entered
    picture = _apply(blocks, _stored([11, 12], tokens, extra_keys=[None, [["mm", 0]]])).entered
    assert lora == block_ids(tokens, 2, token_root(2, "a"))
    assert salt == block_ids(tokens, 2, ROOT, salted("s"))
    assert both == block_ids(tokens, 2, token_root(2, "a"), salted("s"))
    assert picture[0] == plain[0] and picture[1] != plain[1]
    assert len({plain, lora, numbered, salt, both, picture}) == 6


def test_only_the_first_group_in_device_memory_counts() -> None:
    blocks = Blocks()
    change = _apply(
        blocks, _stored([1], [1, 2], medium="CPU"), _stored([2], [1, 2], group_idx=1), _stored([3], [1, 2], group_idx=0)
    )
    assert change.entered == block_ids([1, 2], 2, ROOT)
    assert _apply(blocks, _removed(3, medium="CPU"), _removed(3, group_idx=1)).left == ()
    assert blocks.counts == {"medium CPU": 2, "group": 2}


def test_unknown_kinds_and_malformed_blocks_are_counted() -> None:
    blocks = Blocks()
    change = _apply(
        blocks,
        {"type": "BlockTransferred", "x": 1},
        ["SomethingElse", 1, 2],
        _stored([1], [1, 2, 3]),
        _stored([1], [1, -2]),
        _stored([1], ["a", "b"]),
        {"type": "BlockStored"},
        _stored([[1]], [1, 2]),
    )
    assert change == Change((), (), False, 1.5)
    assert blocks.counts == {"unknown kind": 2, "malformed": 5}


def test_a_malformed_removal_cannot_be_passed_over() -> None:
    batch = decode(msgpack.encode([0.0, [{"type": "BlockRemoved"}], 0]))
    assert not isinstance(batch, str)
    assert "BlockRemoved" in str(Blocks().apply(batch))


@given(st.binary() | st.recursive(st.none() | st.integers(0, 99) | st.text(), st.lists).map(msgpack.encode))
def test_any_bytes_are_a_batch_or_a_text(payload: bytes) -> None:
    batch = decode(payload)
    if not isinstance(batch, str):
        Blocks().apply(batch)


@given(st.data(), st.booleans())
def test_the_index_is_what_the_engine_holds(data: st.DataObject, arrays: bool) -> None:
    """Any history of storing (twice, too), removing leaves and clearing, in both forms."""
    cache, blocks, held = Cache(2, arrays=arrays), Blocks(), set[int]()
    for _ in range(data.draw(st.integers(0, 12))):
        events = []
        for _ in range(data.draw(st.integers(1, 3))):
            there = sorted(each for each, copies in cache.copies.items() if copies)
            step = data.draw(st.sampled_from(["store", "remove", "clear"] if there else ["store"]))
            if step == "clear":
                events.append(cache.clear())
            elif step == "remove":
                leaves = [each for each in there if not any(other[: len(each)] == each != other for other in there)]
                events.append(cache.remove(data.draw(st.sampled_from(leaves))))
            else:
                start = data.draw(st.sampled_from([(), *there]))
                more = data.draw(st.lists(st.integers(0, 1), min_size=2, max_size=6))
                events.append(cache.store([*start, *more], len(start) // 2))
        batch = decode(cache.message(events))
        assert not isinstance(batch, str)
        change = blocks.apply(batch)
        assert isinstance(change, Change)
        held = (set() if change.cleared else held) - set(change.left) | set(change.entered)
        assert held == cache.held() and len(blocks) == len(held)
