"""What one device of a replica holds and which link its group uses, by layout."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final, Literal, NamedTuple

from poise.core.errors import ScenarioError
from poise.core.experts import copies
from poise.core.layer import Attention, Linear
from poise.core.precision import Part, Precision
from poise.core.spec import BITS, Device, Fabric, Pool
from poise.core.units import ps
from poise.cost.collective import Link
from poise.cost.efficiency import Efficiencies
from poise.cost.operator import STAGED_BW

HOST_DEVICES = 8
"""Devices that share one host's PCIe, where a device has no scale-up link of its own."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One device's weights of an average layer, by the parts of `Precision`, and of the output head.

    In weights, not bytes; `stored` counts these.
    Layer kinds are spread evenly over depth: with 3 dense layers of 61, every layer has 3/61 of a dense block.
    """

    attention: float
    output: float
    dense: float
    shared: float
    experts: float
    head: float

    @property
    def every_token(self) -> float:
        """Weights of an average layer that each token of the device passes."""
        return self.attention + self.output + self.dense + self.shared

    def stored(self, precision: Precision) -> float:
        """Bytes of `every_token` in the formats of its parts."""
        return sum([self.of(part) * precision.of(part).bits for part in TOKEN_PARTS]) / 8

    def of(self, part: Part) -> float:
        """Weights of a part."""
        found: float = getattr(self, part)
        return found


TOKEN_PARTS: Final[tuple[Part, ...]] = ("attention", "output", "dense", "shared")
"""The parts of a layer that each token passes."""


def check(pool: Pool) -> None:
    """Raise ScenarioError for degrees that cannot be laid out, and for a device whose speed is not known."""
    for name, figure in (("bf16_tflops", pool.device.bf16_flops), ("memory_gb_s", pool.device.memory_bw)):
        if figure <= 0:
            raise ScenarioError(
                f"device {pool.device.name}: its {name} is not known, so no step can be timed; give the device "
                "with all its figures, or another one"
            )
    for name in ("tensor", "pipeline", "data", "expert"):
        if getattr(pool, name) < 1:
            raise ScenarioError(f"pool.{name} is {getattr(pool, name)}; it counts devices: write 1 or more")
    group = pool.tensor * pool.data
    if group % pool.expert:
        raise ScenarioError(
            f"pool.expert is {pool.expert}, which does not divide tensor × data = {group}; write a divisor of it"
        )
    if pool.pipeline > pool.model.layers:
        raise ScenarioError(
            f"pool.pipeline is {pool.pipeline}, but {pool.model.name} has {pool.model.layers} layers; write fewer"
        )


def kv_copies(pool: Pool, attention: Attention | None = None) -> float:
    """How often a tensor group keeps each KV value: MLA latents on every rank, KV heads once ranks outnumber them."""
    if (attention.mla if attention else pool.model.mla) is not None:
        return float(pool.tensor)
    return max(1.0, pool.tensor / (attention.kv_heads if attention else pool.model.kv_heads))


def kv_bytes_per_layer(pool: Pool, attention: Attention | None = None) -> float:
    """Bytes that one token leaves in one attending layer on one device of its tensor group, index keys apart.

    attention: the layer's; without it an average one.
    """
    values = attention.kv_values if attention else pool.model.kv_values_per_layer
    return values * BITS[pool.kv] / 8 * kv_copies(pool, attention) / pool.tensor


def shard(pool: Pool) -> Shard:
    """One device's part of the weights: everything is cut `tensor` ways, routed experts over all tensor × data ranks.

    What mixers copy on every rank is in `products`. Experts without expert parallelism are cut inside, which leaves the
    same bytes on each device.
    """
    model, tensor = pool.model, pool.tensor
    mixers = output = 0.0
    for count, mixer in model.mixers():
        found = products(pool, mixer)
        mixers += count * sum([each.n * each.k for each in found])
        if isinstance(mixer, Attention):
            output += count * sum([each.n * each.k for each in found if each.part == "output"])
    parts = model.parts
    slots = copies(pool.engine.expert_placement, model.moe.experts) / model.moe.experts if model.moe else 1.0
    return Shard(
        attention=(mixers - output) / model.layers,
        output=output / model.layers,
        dense=parts.dense / model.layers / tensor,
        shared=parts.shared / model.layers / tensor,
        experts=slots * parts.routed / model.layers / (tensor * pool.data),
        head=model.vocab * model.hidden / tensor,
    )


class Product(NamedTuple):
    """A product with n × k weights on one device, and the part of the model that they are of."""

    n: float
    k: float
    part: Literal["attention", "output", "index"] = "attention"


def products(pool: Pool, mixer: Attention | Linear) -> list[Product]:
    """The products of one mixer on one device of its tensor group.

    KV projections are copied where there are more ranks than KV heads, projections to a narrow width (latents, ranks of
    queries) and the index on every rank (DeepSeek-V2, arXiv 2405.04434, section 2.1.2; vLLM's `ReplicatedLinear`).
    A linear layer counts as two products of equal size, one from the hidden width and one back.
    """
    hidden, tensor = pool.model.hidden, pool.tensor
    if isinstance(mixer, Linear):
        width = mixer.parameters(hidden) / (2 * hidden * tensor)
        return [Product(width, hidden), Product(hidden, width, "output")]
    return _attention(pool, mixer, hidden, tensor) + _index(mixer, hidden)


def _attention(pool: Pool, mixer: Attention, hidden: int, tensor: int) -> list[Product]:
    """The projections of an attention, its gate and its compressor."""
    wide, mla = mixer.heads * mixer.values / tensor, mixer.mla
    gate = [Product(wide, hidden)] if mixer.gate else []
    if mla is not None:
        return [
            Product(mla.kv_rank + mla.rope_dim + mla.q_rank, hidden),
            Product(mixer.heads * (mla.nope_dim + mla.rope_dim) / tensor, mla.q_rank or hidden),
            Product(mixer.heads * (mla.nope_dim + mla.value_dim) / tensor, mla.kv_rank),
            *gate,
            Product(hidden, wide, "output"),
        ]
    queries = mixer.heads * mixer.head_dim / tensor
    kept = mixer.kv_parameters(hidden) / hidden * kv_copies(pool, mixer) / tensor
    first = [Product(mixer.q_rank + kept, hidden), Product(queries, mixer.q_rank)] if mixer.q_rank else []
    first = first or [Product(queries + kept, hidden)]
    more = mixer.compressor_parameters(hidden)
    compressor = [Product(more / hidden, hidden)] if more else []
    if mixer.o_rank:
        inner = mixer.o_groups * mixer.o_rank / tensor
        return [*first, *compressor, Product(wide, mixer.o_rank), *gate, Product(hidden, inner, "output")]
    return [*first, *compressor, *gate, Product(hidden, wide, "output")]


def _index(mixer: Attention, hidden: int) -> list[Product]:
    """The projections of an index: queries of its heads, and the key with the heads' weights."""
    index = mixer.index
    if index is None or not index.own:
        return []
    queries = index.heads * index.dim
    rest = index.parameters(hidden) - (index.q_rank or hidden) * queries
    return [Product(queries, index.q_rank or hidden, "index"), Product(rest / hidden, hidden, "index")]


def fabric(device: Device) -> Fabric:
    """How devices of a host without a scale-up link reach one another over PCIe: as stated, else directly where they
    have a bandwidth to peers at all, else through the host's memory."""
    return device.pcie or ("direct" if device.scaleup_bw else "host")


def link_of(device: Device, ranks: int, use: Efficiencies) -> Link:
    """The link of a group of `ranks` devices: scale-up inside its domain, PCIe inside a host without one, else NICs.

    use: α inside and outside the scale-up domain, and the parts of bandwidth that are reached on links between devices
    and over a host's PCIe.
    """
    if ranks <= device.scaleup_domain and device.scaleup_bw > 0:
        return Link(use.collective_s, device.scaleup_bw * use.link)
    in_host = device.scaleup_domain <= 1 and ranks <= HOST_DEVICES
    bandwidth = (device.host_bw or device.scaleout_bw) if in_host else (device.scaleout_bw or device.host_bw)
    if ranks > 1 and bandwidth <= 0:
        raise ScenarioError(
            f"device.{device.name} states no link that joins {ranks} devices; give scaleup_bw, scaleout_bw or host_bw"
        )
    if in_host:
        bandwidth = min(bandwidth, STAGED_BW) if fabric(device) == "host" else bandwidth
        return Link(use.far_s, (bandwidth or 1.0) * use.host_link, direct=False)
    return Link(use.far_s, (bandwidth or 1.0) * use.link, direct=False)


def swap(pool: Pool, kv_bytes: int, runs: int) -> int:
    """Picoseconds to move `kv_bytes` over all devices' PCIe links at once; ScenarioError where none is stated.

    Each device begins a copy for each of the `runs` and each layer that keeps KV, of keys and of values apart (a latent
    is one): n · launch + bytes / bandwidth, with `Engine.swap_launch_s`.
    """
    device = pool.device
    if device.host_bw <= 0:
        raise ScenarioError(f"device.{device.name} states no host_bw, so KV cannot be swapped; give it bytes/s one way")
    model = pool.model
    layers = ceil(model.attending / pool.pipeline)
    copies = runs * layers * (1 if model.mla else 2)
    return ps(kv_bytes / (device.host_bw * pool.devices) + copies * pool.engine.swap_launch_s)
