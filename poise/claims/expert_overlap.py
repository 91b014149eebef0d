"""Layers of experts whose exchange runs beside their products: seconds by the closed forms of the passes' makespans.

Loads of experts are even. Products take the longer of their arithmetic and of reading their weights, at the fractions
of peaks in `poise.cost.efficiency`, and a fixed time each; links reach the fraction there.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from poise.core.spec import Device
from poise.cost.efficiency import Efficiencies
from poise.program.passes.comet import Tiled
from poise.program.passes.fsmoe import Layer, Part
from poise.program.passes.scmoe import best_slot, seconds
from poise.program.passes.slices import filled

BYTES = 2
"""Of a weight and of a value: 16 bits."""
DEGREES = (1, 2, 4, 8)
"""Numbers of chunks that Tutel tries."""


class Layers(NamedTuple):
    """Means over layers: how many times as long others take, and the part whose numbers of chunks differ both ways.

    tutel, deepspeed: over FSMoE, a forward and a backward.  least, most: of tutel.
    """

    tutel: float
    deepspeed: float
    differ: float
    least: float
    most: float


class Testbed(NamedTuple):
    """nic_bw: bytes/s of a node.  exchange_s, node_s, kernel_s: seconds before each begins."""

    nodes: int = 6
    local: int = 8
    nic_bw: float = 25e9
    exchange_s: float = 2e-4
    node_s: float = 1e-4
    kernel_s: float = 5e-5


def fsmoe(device: Device, tokens: int, testbed: Testbed | None = None, most: int = 16) -> Layers:
    """Layers of attention and experts, 27 shapes: widths, the experts' over them, and experts for a token.

    tokens: of each rank, all in one sequence for two.  Experts are cut over the ranks of a node, and so is attention,
    whose gradients are summed over nodes: behind the backward in others, in FSMoE beside the next layer's backward.
    """
    shapes = product((1024, 2048, 4096), (2, 3, 4), (1, 2, 4))
    found = [_compared(device, tokens, shape, testbed or Testbed(), most) for shape in shapes]
    ratios = [tutel / own for own, tutel, _, _ in found]
    return Layers(
        sum(ratios) / len(found), sum(serial / own for own, _, serial, _ in found) / len(found),
        sum(differ for *_, differ in found) / len(found), min(ratios), max(ratios),
    )  # fmt: skip


def _compared(
    device: Device, tokens: int, shape: tuple[int, int, int], bed: Testbed, most: int
) -> tuple[float, float, float, bool]:
    """Seconds of FSMoE, Tutel and DeepSpeed-MoE, and whether FSMoE's chunks differ in the backward."""
    hidden, wide, active = shape
    use, sent = Efficiencies(), float(tokens * active * hidden * BYTES)
    speed = device.bf16_flops * use.gemm_bf16
    nic = bed.nic_bw * use.link / bed.local
    exchange = Part(bed.exchange_s, sent * (bed.nodes - 1) / bed.nodes / nic)
    node = Part(bed.node_s, sent * (bed.local - 1) / (device.host_bw * use.link))
    experts = 4 * hidden * hidden * wide * tokens * active / speed
    attention = (8 * hidden * hidden + 2 * 2 * tokens * hidden) * tokens / speed
    reduction = 2 * (bed.nodes - 1) / bed.nodes * 4 * hidden * hidden * BYTES / bed.local / nic
    ways = [(Layer(exchange, node, Part(bed.kernel_s, times * experts)), times * attention) for times in (1, 2)]
    (forth, before), (back, after) = ways
    chunks = forth.best(most)
    fills = {each: _filled(back, each, after, reduction) for each in range(1, most + 1)}
    fewest = min(fills, key=fills.__getitem__)
    own = before + forth.seconds(chunks) + fills[fewest]
    merged = [
        Layer(Part(exchange.start + node.start, exchange.whole + node.whole), Part(0, 0), each.experts)
        for each, _ in ways
    ]
    tutel = min(sum(each.seconds(degree) for each in merged) for degree in DEGREES)
    serial = sum(each.seconds(1) for each in merged)
    rest = before + after + reduction
    return own, tutel + rest, serial + rest, fewest != chunks


def _filled(layer: Layer, chunks: int, attention: float, reduction: float) -> float:
    """Seconds of a backward with a sum of gradients where the exchange is idle, and behind it what does not fit."""
    alone = layer.seconds(chunks)
    return alone + attention + filled(reduction, [alone - 2 * chunks * layer.exchange.of(chunks), attention])[-1]


class Hidden(NamedTuple):
    """Seconds of a layer one after another, in chunks and in tiles; the parts of the exchange that these two hide."""

    serial_s: float
    chunked_s: float
    tiled_s: float
    chunked: float
    tiled: float


def comet(
    device: Device, tokens: int, *, experts: int = 8, active: int = 2, ranks: int = 8, hidden: int = 4096,
    inner: int = 14_336, copying: float = 0.0,
) -> Hidden:  # fmt: skip
    """A layer of gated experts over the ranks of a node; the sizes are Mixtral-8x7B's.

    tokens: of each rank.  copying: the part of a device's SMs that a copy takes from the products.  Chunks are the best
    of 1 to 8; blocks of the second product have 128 columns.
    """
    use, pairs = Efficiencies(), tokens * active
    way = pairs * hidden * BYTES * (ranks - 1) / ranks / (device.scaleup_bw * use.link)
    size = hidden * inner * BYTES * experts / ranks

    def took(matrices: int, part: float = 1.0) -> float:
        arithmetic = 2 * matrices * hidden * inner * pairs * part / (device.bf16_flops * use.moe_gemm)
        return max(arithmetic, matrices * size / (device.memory_bw * use.moe_stream)) + use.gemm_s

    up, down = took(2), took(1)
    serial = 2 * way + up + down
    chunked, late = serial, 2 * way * copying
    for degree in DEGREES[1:]:
        each = took(2, 1 / degree) + took(1, 1 / degree)
        chunked = min(chunked, Layer(Part(0, way), Part(0, 0), Part(each, 0)).seconds(degree) + late)
    tiled = Tiled(way, up, down, way).seconds(ranks, hidden // 128) + late
    return Hidden(
        serial, chunked, tiled, *((serial - each) / (2 * way) for each in (chunked, tiled))
    )  # fmt: skip


class Shortcut(NamedTuple):
    """How many times as fast as two experts for a token after one another, and the part of the exchange hidden."""

    inference: float
    training: float
    hidden: float


def scmoe(share: float, sequence: float = 1.0) -> Shortcut:
    """A block without and one with experts, each with attention; one expert by a shortcut beside a shared one.

    share: of the exchange in the time of a layer with two experts for a token.  sequence: tokens over the width; MLPs
    are four times as wide.  The experts' tokens are those behind the first attention.
    """
    attention, mlp = 8.0 + 2.0 * sequence, 16.0
    exchange = share / (1 - share) * 2 * mlp
    both = [_block(times * attention, times * mlp, exchange) for times in (1, 2)]
    (top, own, left), (top_back, own_back, _) = both
    return Shortcut(top / own, (top + top_back) / (own + own_back), 1 - left / (exchange / 2))


def _block(attention: float, mlp: float, exchange: float) -> tuple[float, float, float]:
    """Time with two experts, and with a shortcut; what of the latter's exchange is seen."""
    before, way = [mlp, attention, mlp], exchange / 4
    took = seconds(before, way, mlp, way, best_slot(before, way, mlp, way))
    return 2 * attention + 3 * mlp + exchange, attention + took, took - sum(before) - mlp
