"""Approximate prefix identity: a common beginning gives common ids, and nothing else does."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.control.prefix_index import PrefixIndex
from poise.live.requests.text_prefix import SHARE, Pieces

SMALL = Pieces(piece=8, bytes_per_token=2.0)


@given(st.binary(max_size=200), st.binary(max_size=200), st.binary(max_size=200))
def test_common_ids_are_the_pieces_of_the_common_beginning(shared: bytes, one: bytes, other: bytes) -> None:
    ours, theirs = shared + one, shared + other
    common = next(
        (at for at, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs))
    )
    mine, _ = SMALL.identity(ours)
    yours, _ = SMALL.identity(theirs)
    assert set(mine) & set(yours) == set(mine[: common // 8])
    assert mine[: common // 8] == yours[: common // 8]


@given(st.integers(0, 3_000_000), st.floats(0.5, 256))
def test_ends_are_tokens_of_a_request(size: int, bytes_per_token: float) -> None:
    ids, ends = Pieces(bytes_per_token=bytes_per_token).identity(bytes(size))
    assert len(ids) == len(ends) == len(set(ids))
    assert all(before < after for before, after in pairwise((0, *ends)))
    assert not ends or ends[-1] <= size / bytes_per_token
    assert all(0 <= ident < 1 << 63 for ident in ids)


def test_a_megabyte_has_few_ids_and_loses_little() -> None:
    pieces = Pieces()
    ids, ends = pieces.identity(bytes(1_000_000))
    assert len(ids) < 400
    for size in (300, 16_384, 100_000, 999_999):
        _, ends = pieces.identity(bytes(size))
        assert size / 4 - ends[-1] <= max(256, size / SHARE) / 4


def test_a_salt_shares_nothing() -> None:
    text = bytes(4096)
    plain, one, other = (set(SMALL.identity(text, salt)[0]) for salt in ("", "a", "b"))
    assert not plain & one and not one & other and not plain & other
    assert one == set(SMALL.identity(text, "a")[0])


def test_token_ids_count_as_they_are() -> None:
    pieces = Pieces(bytes_per_token=3.0)
    assert pieces.identity(bytes(512))[1] == (85, 170)
    assert pieces.identity(bytes(512), token_ids=True)[1] == (64, 128)
    assert pieces.identity(bytes(512), token_ids=True)[0] == pieces.identity(bytes(512))[0]


def test_learning_the_ratio_keeps_the_ids() -> None:
    pieces = Pieces()
    before = pieces.identity(bytes(1000))
    pieces.learn(5.0)
    after = pieces.identity(bytes(1000))
    assert before[0] == after[0] and after[1] == (51, 102, 153)


@pytest.mark.parametrize("ratio", [0.0, -1.0, 257.0, float("nan")])
def test_a_ratio_that_cannot_be(ratio: float) -> None:
    with pytest.raises(ValueError, match="bytes_per_token"):
        Pieces().learn(ratio)


def test_many_salts_are_not_kept_for_ever() -> None:
    pieces = Pieces()
    first = pieces.identity(bytes(256), "0")
    for salt in range(3000):
        pieces.identity(b"", str(salt))
    assert len(pieces._roots) <= 1024
    assert pieces.identity(bytes(256), "0") == first


def test_the_index_finds_the_longest_common_beginning() -> None:
    index = PrefixIndex(2)
    conversation = b"system prompt " * 200
    for extent in SMALL.identity(conversation)[0]:
        index.add(1, extent)
    ids, ends = SMALL.identity(conversation[:1000] + b"another turn" * 50)
    none, found = index.match(ids, ends)
    assert none == 0 and 500 * (1 - 1 / SHARE) <= found <= 500
