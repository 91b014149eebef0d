"""What one device of a replica holds and which link its group uses, by layout."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from poise.core.errors import ScenarioError
from poise.core.experts import copies
from poise.core.spec import BITS, Device, Pool
from poise.core.units import ps
from poise.cost.collective import Link

HOST_DEVICES = 8
"""Devices that share one host's PCIe, where a device has no scale-up link of its own."""

HOST_BW = 32e9
"""Bytes per second and direction that count of PCIe where devices do not reach one another's memory over it, so that
collectives copy through the host's: what PCIe 4 has."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One device's weights of an average layer (mixer, dense block, shared and routed experts) and of the output head.

    In weights, not bytes.
    Layer kinds are spread evenly over depth: with 3 dense layers of 61, every layer has 3/61 of a dense block.
    """

    mixer: float
    dense: float
    shared: float
    experts: float
    head: float

    @property
    def every_token(self) -> float:
        """Weights of an average layer that each token of the device passes."""
        return self.mixer + self.dense + self.shared


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


def kv_copies(pool: Pool) -> float:
    """How often a tensor group keeps each KV value: MLA latents on every rank, KV heads once ranks outnumber them."""
    if pool.model.mla is not None:
        return float(pool.tensor)
    return max(1.0, pool.tensor / pool.model.kv_heads)


def kv_bytes_per_layer(pool: Pool) -> float:
    """Bytes that one token leaves in one attending layer on one device of its tensor group."""
    return pool.model.kv_values_per_layer * BITS[pool.kv] / 8 * kv_copies(pool) / pool.tensor


def shard(pool: Pool) -> Shard:
    """One device's part of the weights: everything is cut `tensor` ways, routed experts over all tensor × data ranks.

    KV projections are copied where there are more ranks than KV heads, MLA's down projections on every rank
    (DeepSeek-V2, arXiv 2405.04434, section 2.1.2). Experts without expert parallelism are cut inside, which leaves the
    same bytes on each device.
    """
    model, tensor = pool.model, pool.tensor
    if model.mla is None:
        copied = 2 * model.hidden * model.head_dim * model.kv_heads
        attention = (model.attention_parameters - copied) / tensor + copied * kv_copies(pool) / tensor
    else:
        copied = model.hidden * (model.mla.q_rank + model.mla.kv_rank + model.mla.rope_dim)
        attention = (model.attention_parameters - copied) / tensor + copied
    linear_part = model.linear_layers / model.layers
    moe_part = (model.layers - model.dense_layers) / model.layers
    experts = copies(pool.engine.expert_placement, model.moe.experts) if model.moe else 0
    return Shard(
        mixer=attention * (1 - linear_part) + model.linear_parameters * linear_part / tensor,
        dense=model.ffn_parameters * (1 - moe_part) / tensor,
        shared=model.shared_parameters * moe_part / tensor,
        experts=experts * model.expert_parameters * moe_part / (tensor * pool.data),
        head=model.vocab * model.hidden / tensor,
    )


def link_of(
    device: Device, ranks: int, *, latency_s: float, far_latency_s: float, efficiency: float, host_efficiency: float
) -> Link:
    """The link of a group of `ranks` devices: scale-up inside its domain, PCIe inside a host without one, else NICs.

    Over PCIe, devices that state a scale-up bandwidth reach one another; the others copy through the host's memory.
    latency_s, far_latency_s: α inside and outside the scale-up domain. efficiency, host_efficiency: the reachable parts
    of bandwidth, on links between devices and over a host's PCIe.
    """
    if ranks <= device.scaleup_domain and device.scaleup_bw > 0:
        return Link(latency_s, device.scaleup_bw * efficiency)
    in_host = device.scaleup_domain <= 1 and ranks <= HOST_DEVICES
    bandwidth = (device.host_bw or device.scaleout_bw) if in_host else (device.scaleout_bw or device.host_bw)
    if ranks > 1 and bandwidth <= 0:
        raise ScenarioError(
            f"device.{device.name} states no link that joins {ranks} devices; give scaleup_bw, scaleout_bw or host_bw"
        )
    if in_host:
        bandwidth = bandwidth if device.scaleup_bw else min(bandwidth, HOST_BW)
        return Link(far_latency_s, (bandwidth or 1.0) * host_efficiency, direct=False)
    return Link(far_latency_s, (bandwidth or 1.0) * efficiency, direct=False)


def swap(pool: Pool, kv_bytes: int, runs: int) -> int:
    """Picoseconds to move `kv_bytes` over all devices' PCIe links at once; ScenarioError where none is stated.

    Each device begins a copy for each of the `runs` and each layer that keeps KV, of keys and of values apart (a latent
    is one): n · launch + bytes / bandwidth, with `Engine.swap_launch_s`.
    """
    device = pool.device
    if device.host_bw <= 0:
        raise ScenarioError(f"device.{device.name} states no host_bw, so KV cannot be swapped; give it bytes/s one way")
    model = pool.model
    layers = ceil((model.layers - model.linear_layers) / pool.pipeline)
    copies = runs * layers * (1 if model.mla else 2)
    return ps(kv_bytes / (device.host_bw * pool.devices) + copies * pool.engine.swap_launch_s)
