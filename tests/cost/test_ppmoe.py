"""PPMoE's layer beside experts over data ranks: what is sent, and where the order turns."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device
from poise.core.errors import ScenarioError
from poise.cost.ppmoe import BYTES, moe_layer

V100 = device("V100")
ranks = st.integers(2, 64)


@given(ranks, ranks, st.integers(1, 4), st.integers(1, 64))
def test_bytes_are_those_of_an_all_reduce_and_of_two_exchanges_each_way(
    tensor: int, expert: int, top: int, hidden: int
) -> None:
    found = moe_layer(V100, hidden, tensor, expert, top=top, nic_bw=1e9)
    assert found.ppmoe_bytes == pytest.approx(4 * (tensor - 1) / tensor * BYTES * hidden)
    assert found.dpmoe_bytes == pytest.approx(4 * top * (expert - 1) / expert * BYTES * hidden)


@given(ranks, st.integers(9, 64))
def test_only_the_exchange_depends_on_the_links_between_servers(tensor: int, expert: int) -> None:
    slow, fast = (moe_layer(V100, 1024, tensor, expert, nic_bw=each) for each in (1e9, 1e12))
    assert slow.ppmoe_s == fast.ppmoe_s and slow.dense_s == fast.dense_s
    assert slow.dpmoe_s > fast.dpmoe_s


def test_without_links_all_three_compute_alike() -> None:
    """Endless memory and links leave the products alone, so one expert for each token costs what a dense layer does."""
    endless = replace(V100, scaleup_bw=1e30, memory_bw=1e30)
    found = moe_layer(endless, 4096, 8, 64, nic_bw=1e30)
    assert found.dense_s == pytest.approx(found.ppmoe_s) == pytest.approx(found.dpmoe_s)


def test_one_rank_is_refused() -> None:
    with pytest.raises(ScenarioError, match="tensor 1, expert 8: give 2 ranks or more"):
        moe_layer(V100, 1024, 1, 8)
