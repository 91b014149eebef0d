"""GNNPipe beside a graph that is cut: volumes in closed form, and an epoch that is a pipeline of its chunks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device
from poise.core.errors import ScenarioError
from poise.cost.gnnpipe import Epoch, epoch
from poise.pipeline import Costs, make, time

A100 = device("A100")


def found(devices: int = 4, depth: int = 2, halo: float = 1.0, chunks: int = 8, link_bw: float = 1e9) -> Epoch:
    return epoch(A100, 1000, 50_000, 64, depth * devices, devices, halo, chunks=chunks, link_bw=link_bw)


@given(st.integers(2, 16), st.integers(1, 4), st.floats(0.1, 8))
def test_the_ratio_of_volumes(devices: int, depth: int, halo: float) -> None:
    one = found(devices, depth, halo)
    assert one.graph_bytes / one.pipe_bytes == pytest.approx(depth * devices * halo / (devices - 1))


@given(st.integers(2, 6), st.integers(1, 12))
def test_an_epoch_is_the_schedule_of_its_chunks(devices: int, chunks: int) -> None:
    """Without messages (endless links) as long as GPipe's with the work of a chunk on a stage."""
    whole = found(devices, chunks=10**9, link_bw=1e30).pipe_s  # the work of one device
    one = found(devices, chunks=chunks, link_bw=1e30).pipe_s
    made = time(make("gpipe", devices, chunks), Costs.of()).makespan
    assert one / whole == pytest.approx(float(made) / (3 * chunks), rel=1e-6)


def test_layers_that_do_not_share_out_are_refused() -> None:
    with pytest.raises(ScenarioError, match="7 layers, 2 devices, 8 chunks"):
        epoch(A100, 10, 10, 8, 7, 2, 1.0, chunks=8)
