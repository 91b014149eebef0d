"""Tutel (Hwang et al., arXiv 2206.03382): how a layer of experts is cut, exchanged and pipelined, chosen at each step.

All choices keep tokens and weights where they lie, so a step may differ from the last at no cost. `r` ranks share
the tokens of an expert's copy, each with 1/r of its inner width: an exchange sends tokens to r ranks, and 1/r of the
weights is gathered; with r = 0 all weights are gathered on all ranks and no token is sent. An exchange sends a message
to each rank (linear), or, after an exchange inside nodes, one to each node (two-dimensional, hierarchical). It is cut
into 1, 2, 4 or 8 chunks, of which one is computed while others travel.

The layer in training: a forward, and a backward with twice the arithmetic, the same exchanges, and weights gathered
again and their gradients scattered. Times are sums of α-β lines in which the messages of a rank follow one another.
Beside it the older layer, which puts tokens into their experts' buffers by a dense product of (tokens × buffers),
exchanges linearly in one chunk, and has r = 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from poise.core.errors import ScenarioError
from poise.core.spec import Device
from poise.cost.efficiency import Efficiencies

BYTES = 2
"""Of a weight and of a value."""
DEGREES = (1, 2, 4, 8)
"""Chunks of an exchange."""


class Choice(NamedTuple):
    """A way to run the layer. r: ranks an expert's copy is cut into, 0 for none.  degree: chunks.

    nested: 1 where the exchange is two-dimensional, else 0.
    """

    r: int
    degree: int
    nested: int


class Layer(NamedTuple):
    """Seconds of the layer, and what was chosen.

    best_s: of the best choice: `r`, `degree` and `nested`.  older_s: of the older layer.  alone_s: of r = 1, one
    chunk, linear, tokens put into buffers as by Tutel.  exchange_s, nested_s: of one exchange, linear and
    two-dimensional.  r0_s to r4_s: the best of each `r`, or of the largest below it that there is.
    """

    best_s: float
    r: int
    degree: int
    nested: int
    older_s: float
    alone_s: float
    exchange_s: float
    nested_s: float
    r0_s: float
    r1_s: float
    r2_s: float
    r4_s: float


@dataclass(frozen=True, slots=True)
class Site:
    """A layer and its ranks. pairs: of a token and an expert that a rank sends.  experts: of all ranks."""

    device: Device
    tokens: int
    pairs: float
    hidden: int
    inner: int
    ranks: int
    experts: int
    node: int
    nic_bw: float
    use: Efficiencies = field(default_factory=Efficiencies)

    @property
    def expert_bytes(self) -> float:
        """Of two matrices."""
        return 2.0 * self.hidden * self.inner * BYTES

    @property
    def sharing(self) -> int:
        """Ranks that share an expert, 1 where each has one or more."""
        return max(self.ranks // self.experts, 1)

    def exchange_s(self, size: float, nested: int) -> float:
        """Seconds of an exchange in which each rank sends `size` bytes to all ranks evenly."""
        use, near, far = self.use, self.device.scaleup_bw * self.use.link, self.nic_bw * self.use.link
        inside = min(self.node, self.ranks)
        nodes = self.ranks / inside
        outside = size * (1 - 1 / nodes) / far
        if not nested:
            peers = (inside - 1) * use.collective_s + (self.ranks - inside) * use.far_s
            return peers + max(size * (inside - 1) / self.ranks / near, outside)
        arranged = 2 * 2 * size / (self.device.memory_bw * use.stream_bf16)  # read and written, before each exchange
        first = (inside - 1) * use.collective_s + size * (inside - 1) / inside / near
        return arranged + first + (nodes - 1) * use.far_s + outside

    def gather_s(self, r: int) -> float:
        """Seconds to gather the weights that a rank computes with and does not hold."""
        near, far = self.device.scaleup_bw * self.use.link, self.nic_bw * self.use.link
        size, group = self.expert_bytes * (1 / max(r, 1) - 1 / self.sharing), self.sharing // max(r, 1)
        if r == 0:
            size, group = self.experts * self.expert_bytes * (1 - 1 / self.ranks), self.ranks
        if group == 1:
            return 0.0
        if group <= self.node:
            return (group - 1) * self.use.collective_s + size / near
        return (group / self.node - 1) * self.use.far_s + size / self.node / far + size / near

    def compute_s(self, r: int, degree: int, work: int) -> float:
        """Seconds of a chunk's products: arithmetic, or reading the weights that the rank computes with."""
        flops = work * 4.0 * self.hidden * self.inner * self.pairs / degree
        held = self.experts if r == 0 else max(self.experts / self.ranks, 1) / r
        read = work * held * self.expert_bytes / (self.device.memory_bw * self.use.moe_stream)
        return self.use.moe_s + max(flops / (self.device.bf16_flops * self.use.moe_gemm), read)

    def seconds(self, choice: Choice) -> float:
        """A forward and a backward, without what puts tokens into buffers."""
        return sum(self._one_way(choice, work) for work in (1, 2))

    def _one_way(self, choice: Choice, work: int) -> float:
        r, degree, nested = choice
        weights, compute = work * self.gather_s(r), self.compute_s(r, degree, work)
        if r == 0:
            return weights + compute
        chunk = self.exchange_s(self.pairs * self.hidden * BYTES * r / degree, nested)
        ready = 0.0
        for at in range(degree):  # dispatches, one after another; products as chunks come
            ready = max(ready, (at + 1) * chunk) + compute
        link = degree * chunk
        for at in range(degree):  # results, after all dispatches, as products end
            link = max(link, ready - (degree - 1 - at) * compute) + chunk
        return weights + link

    def buffers_s(self, dense: bool) -> float:
        """Seconds to put tokens into buffers and back: by copies, or by products of (tokens × buffers × width)."""
        if dense:
            return 3 * 2 * 2.0 * self.tokens * self.pairs * self.hidden / (self.device.bf16_flops * self.use.gemm_bf16)
        return 2 * 2 * 2 * self.pairs * self.hidden * BYTES / (self.device.memory_bw * self.use.stream_bf16)


def moe_layer(
    device: Device, tokens: int, ranks: int, experts: int, *, hidden: int = 2048, inner: int = 2048, top: int = 2,
    capacity: float = 1.0, node: int = 8, nic_bw: float = 0.0,
) -> Layer:  # fmt: skip
    """The layer with the best choice, and with older ones.

    tokens: of each rank.  experts: of all ranks.  capacity: buffers over what even routing fills.  nic_bw: bytes/s of a
    rank between nodes (0: the device's).  ScenarioError where ranks, nodes and experts do not divide.
    """
    if ranks < 2 or experts < 1 or max(ranks, experts) % min(ranks, experts) or max(ranks, node) % min(ranks, node):
        raise ScenarioError(
            f"ranks {ranks}, experts {experts}, node {node}: they do not divide; give 2 ranks or more, and nodes and "
            "experts that are multiples or parts of them"
        )
    pairs = tokens * top * capacity
    site = Site(device, tokens, pairs, hidden, inner, ranks, experts, node, nic_bw or device.scaleout_bw)
    found = {each: site.seconds(each) for each in choices(site)}
    best = min(found, key=lambda each: found[each])
    sparse, size = site.buffers_s(dense=False), pairs * hidden * BYTES
    by_r = {r: min(s for each, s in found.items() if each.r == r) + sparse for r in {each.r for each in found}}
    rows = [by_r[min(r, max(by_r))] for r in (0, 1, 2, 4)]
    plain = found[Choice(1, 1, 0)]
    older, alone = plain + site.buffers_s(dense=True), plain + sparse
    return Layer(found[best] + sparse, *best, older, alone, site.exchange_s(size, 0), site.exchange_s(size, 1), *rows)


def choices(site: Site) -> Iterator[Choice]:
    """All ways to run the layer."""
    yield Choice(0, 1, 0)
    r = 1
    while r <= site.sharing:
        yield from (Choice(r, degree, nested) for degree in DEGREES for nested in (0, 1))
        r *= 2
