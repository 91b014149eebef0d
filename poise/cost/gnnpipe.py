"""GNNPipe (Chen et al., arXiv 2308.10087): a graph network, its layers as stages, chunks as microbatches.

Graph parallelism cuts the graph and sends each boundary vertex before every layer; a pipeline of layers sends every
vertex once over each boundary between ranks, whatever the cut. A chunk takes neighbours that are not yet computed from
the last epoch.
"""

from __future__ import annotations

from dataclasses import dataclass

from poise.core.errors import ScenarioError
from poise.core.spec import Device

BYTES = 4
"""Of one value of an embedding."""
PASSES = 3
"""A forward and a backward, which computes twice as much."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """Bytes that all devices send in an epoch, and its seconds, with the graph cut and with the layers pipelined."""

    graph_bytes: float
    pipe_bytes: float
    graph_s: float
    pipe_s: float


def epoch(
    device: Device, vertices: int, edges: int, hidden: int, layers: int, devices: int, halo: float, *, chunks: int = 32,
    link_bw: float = 0.0, efficiency: float = 0.3,
) -> Epoch:  # fmt: skip
    """One epoch of a network of `layers` of width `hidden` on the whole graph.

    halo: copies of vertices that other parts need before a layer, over all vertices.  chunks: of the pipelined graph.
    link_bw: bytes/s of a device to the others (0: its own between servers).  Products run at `efficiency` of the peak;
    neighbours are read from memory once a pass. ScenarioError where layers do not share out over devices.
    """
    if devices < 2 or layers % devices or chunks < 1:
        raise ScenarioError(
            f"{layers} layers, {devices} devices, {chunks} chunks: give 2 devices or more, "
            "which divide the layers, and 1 chunk or more"
        )
    link = link_bw or device.scaleout_bw
    row = BYTES * hidden
    products = 2.0 * vertices * hidden**2 / (device.bf16_flops * efficiency)
    work = layers * PASSES * (products + edges * row / device.memory_bw)
    cut = 2.0 * layers * halo * vertices * row
    boundary = 2.0 * vertices * row
    slots = (chunks + devices - 1) / chunks
    return Epoch(
        graph_bytes=cut, pipe_bytes=boundary * (devices - 1), graph_s=work / devices + cut / devices / link,
        pipe_s=slots * (work / devices + boundary / link),
    )  # fmt: skip
