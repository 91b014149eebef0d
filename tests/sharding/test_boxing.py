"""Boxing: every collective is done on arrays; the array stays the same, and bytes are those that moved."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.sharding import Mesh, Signature, across, box, mesh, moved, read
from poise.sharding.boxing import reach
from poise.sharding.signature import every
from tests.depth import examples
from tests.sharding.devices import Wire, shard, whole

T, P = 6 * 6 * 4, 3
TABLE = {
    ("S0", "S0"): 0, ("S0", "S1"): (P - 1) * T // P, ("S0", "B"): (P - 1) * T, ("S0", "P"): 0,
    ("B", "S0"): 0, ("B", "B"): 0, ("B", "P"): 0,
    ("P", "S0"): (P - 1) * T, ("P", "B"): 2 * (P - 1) * T, ("P", "P"): 0,
}  # fmt: skip
"""Table 2 of OneFlow, on the same devices."""
Q = 2
APART = {
    ("S0", "S0"): T, ("S0", "S1"): T, ("S0", "B"): Q * T, ("S0", "P"): T, ("B", "S0"): T, ("B", "B"): Q * T,
    ("B", "P"): T, ("P", "S0"): P * T, ("P", "B"): (P + Q - 1) * T, ("P", "P"): P * T,
}  # fmt: skip
"""The same between 3 devices and 2 others."""


@pytest.mark.parametrize("pair", TABLE)
def test_bytes_are_those_of_the_table(pair: tuple[str, str]) -> None:
    here, there = mesh(x=P), mesh(x=Q)
    before, after = (read(word, (6, 6), here) for word in pair)
    other = read(pair[1], (6, 6), there)
    assert moved(box((6, 6), before, after, here, 4)) == TABLE[pair]
    assert across((6, 6), before, other, here, there, 4) == APART[pair]


@pytest.mark.deep
@settings(max_examples=examples(200))
@given(st.data())
def test_boxing_keeps_the_array_and_counts_what_moves(data: st.DataObject) -> None:
    on = data.draw(st.sampled_from([mesh(x=2), mesh(x=3), mesh(x=2, y=3), mesh(x=2, y=2, z=2)]), "mesh")
    shape = data.draw(st.sampled_from([(12,), (12, 6), (4, 8, 6)]), "shape")
    start = data.draw(st.sampled_from(every(shape, on, partial=True)), "before")
    ways = reach(shape, start, on, 8)
    end = data.draw(st.sampled_from(sorted(ways, key=str)), "after")
    x = np.random.default_rng(1).normal(size=shape)
    wire, parts = Wire(on), shard(x, start, on)
    for move in ways[end]:
        parts = wire.move(move, parts)
    assert {each.shape for each in parts.values()} == {end.local(shape, on)}
    np.testing.assert_allclose(whole(parts, end, shape, on), x, atol=1e-9)
    assert wire.sent * 8 == moved(ways[end])


def test_an_outer_split_is_gathered_behind_the_inner_one() -> None:
    """Both axes split one dimension: to leave the outer one, the inner one moves first."""
    on = mesh(x=2, y=2)
    both, inner = read("S0 S0", (8, 3), on), read("B S0", (8, 3), on)
    assert [move.axis for move in box((8, 3), both, read("S0 B", (8, 3), on), on)] == ["y"]
    assert [move.collective for move in box((8, 3), both, inner, on)][:2] == ["all-gather", "all-gather"]


@given(st.sampled_from(every((4, 4), mesh(x=2, y=2), partial=True)), st.data())
def test_no_way_is_cheaper_by_a_stop(start: Signature, data: st.DataObject) -> None:
    on = mesh(x=2, y=2)
    ways = reach((4, 4), start, on)
    stop = data.draw(st.sampled_from(sorted(ways, key=str)))
    for end, moves in reach((4, 4), stop, on).items():
        assert moved(ways[end]) <= moved(ways[stop]) + moved(moves)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("S0", "signature 'S0': has 1 words, the mesh 2 axes"),
        ("S2 B", "signature 'S2 B': S2 is none of a tensor with 2 dimensions; give S0, S1, B or P"),
        ("S1 B", r"signature 'S1 B': dimension 1 of \[4, 3\] does not divide into 2 parts; give B for it"),
    ],
)
def test_signatures_that_cannot_be_are_refused(text: str, error: str) -> None:
    with pytest.raises(UserError, match=error):
        read(text, (4, 3), mesh(x=2, y=2))


def test_a_signature_says_what_a_device_has() -> None:
    on: Mesh = mesh(data=2, model=4)
    found = read("S0 S1", (8, 16), on)
    assert (found.text(on), found.local((8, 16), on), found.ways(on)) == ("S0 S1", (4, 4), 8)
    assert prod(found.local((8, 16), on)) * found.ways(on) == 8 * 16
    with pytest.raises(UserError, match="the axis x has 0 devices"):
        mesh(x=0)
