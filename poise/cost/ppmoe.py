"""PPMoE (Chen et al., arXiv 2304.11414): the experts of a layer lie within the tensor group, pipelines add depth.

All ranks of a tensor group have all tokens anyway, so each takes those of its own experts by index, and the all-reduce
that the dense layer has adds the results. Experts over data ranks (DPMoE) send each token to its experts and back, by
two all-to-alls, most of it between servers.
"""

from __future__ import annotations

from dataclasses import dataclass

from poise.core.errors import ScenarioError
from poise.core.spec import Device

BYTES = 2
"""Of one value of an activation."""
PASSES = 3
"""A forward and a backward, which computes twice as much; collectives run once each way."""


@dataclass(frozen=True, slots=True)
class MoeLayer:
    """Seconds of one layer for a token and a device, forward and backward; bytes that a device sends for it."""

    dense_s: float
    ppmoe_s: float
    dpmoe_s: float
    ppmoe_bytes: float
    dpmoe_bytes: float


def moe_layer(
    device: Device, hidden: int, tensor: int, expert: int, *, node: int = 8, top: int = 1, nic_bw: float = 0.0,
    efficiency: float = 0.4,
) -> MoeLayer:  # fmt: skip
    """A layer with a feed-forward block of 4 × `hidden`: dense, with experts in a tensor group, and over data ranks.

    tensor: ranks of the group.  expert: data ranks over which experts are spread otherwise, `node` of them on a server.
    top: experts of a token.  nic_bw: bytes/s of a device between servers (0: its own).  efficiency: part of the peak at
    which products run.  ScenarioError for counts below 2.
    """
    if tensor < 2 or expert < 2:
        raise ScenarioError(f"tensor {tensor}, expert {expert}: give 2 ranks or more of each, as one sends nothing")
    near, far = device.scaleup_bw, nic_bw or device.scaleout_bw
    values = BYTES * hidden
    attention, block = 8.0 * hidden**2, 16.0 * hidden**2
    flops = device.bf16_flops * efficiency
    reduced = 2 * (tensor - 1) / tensor * values / near
    picked = 2 * (1 + top) * values / device.memory_bw / tensor
    dense = PASSES * (attention + block) / flops + 2 * 2 * reduced
    grouped = PASSES * (attention + top * block) / flops + 2 * 2 * reduced + 2 * picked
    outside = max(expert - node, 0) / expert
    sent = top * values * (expert - 1) / expert
    exchange = 2 * top * values * (outside / far + (1 - outside) * (expert - 1) / expert / near)
    spread = PASSES * (attention + top * block) / flops + 2 * exchange + 2 * picked * tensor
    return MoeLayer(dense, grouped, spread, 2 * 2 * (tensor - 1) / tensor * values, 2 * 2 * sent)
