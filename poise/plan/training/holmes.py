"""Training over clusters whose NICs differ: pipelines across clusters, data groups inside each, uneven stages.

Holmes (Yang et al., "Towards distributed training across clusters with heterogeneous NIC environment",
arXiv 2312.03549): a collective among ranks of unlike NICs falls back to Ethernet, so only messages between stages,
which are small, cross clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from poise.core.errors import ScenarioError
from poise.core.spec import Device
from poise.cost.training import Job, Layout, predict

FAVOUR = 1.05
"""α: the factor by which faster clusters are favoured when layers are assigned (the paper's choice)."""


@dataclass(frozen=True, slots=True)
class Site:
    """One cluster: its devices, their kind, and bytes/s one way of a device's NIC inside it."""

    device: Device
    devices: int
    nic_bw: float


@dataclass(frozen=True, slots=True)
class Spread:
    """A job over several sites: seconds of a step by how they are joined, and layers of each site."""

    pipelined_s: float
    flat_s: float
    layers: tuple[int, ...]


def dealt(layers: int, speeds: Sequence[float], favour: float = FAVOUR) -> tuple[int, ...]:
    """Layers by speed: ⌊α·speed/Σ·layers⌋ each, the rest to the last, which has one at least."""
    if len(speeds) > layers or min(speeds) <= 0:
        raise ScenarioError(f"{layers} layers cannot be dealt to {len(speeds)} sites of speeds {list(speeds)}")
    total = sum(speeds)
    found: list[int] = []
    for at, speed in enumerate(speeds[:-1]):
        left = layers - sum(found) - (len(speeds) - 1 - at)
        found.append(max(1, min(left, int(favour * speed / total * layers))))
    return (*found, layers - sum(found))


def spread(job: Job, sites: Sequence[Site], layout: Layout, between_bw: float) -> Spread:
    """A step over sites: stages across them, and for comparison one flat group over the slowest link.

    layout: of each site's devices, its pipeline inside a site.  between_bw: bytes/s of a device between sites.
    """
    if len({site.devices for site in sites}) > 1:
        raise ScenarioError(
            "sites hold unlike numbers of devices; take as many of each, since every replica spans them"
        )
    alone = [_step(job, site, layout) for site in sites]
    speeds = [1 / seconds for seconds, _ in alone]
    layers = dealt(job.model.layers, speeds)
    microbatches = layout.microbatches(job)
    slots = [
        (seconds - after) / (microbatches + layout.pipeline - 1) * own / job.model.layers
        for (seconds, after), own in zip(alone, layers, strict=True)
    ]
    moved = 2.0 * layout.micro_batch * job.sequence * job.model.hidden / layout.tensor / between_bw
    pipelined = (microbatches - 1) * max(slots) + sum(slots) * layout.pipeline + 2 * moved * (len(sites) - 1)
    after = max(rest * own / job.model.layers for (_, rest), own in zip(alone, layers, strict=True))
    return Spread(pipelined + after, _flat(job, sites, layout, between_bw), layers)


def _step(job: Job, site: Site, layout: Layout) -> tuple[float, float]:
    """The step of one site with the whole model and batch, and its part after the pipeline."""
    found = predict(replace(job, device=site.device, devices=site.devices, nic_bw=site.nic_bw), layout)
    return found.seconds, found.parts["gradients"] + found.parts["optimizer"] + found.parts["fixed"]


def _flat(job: Job, sites: Sequence[Site], layout: Layout, between_bw: float) -> float:
    """Data groups over all sites: every device waits for the slowest, and gradients pass the link between them."""
    wide = replace(layout, data=layout.data * len(sites))
    devices = sum(site.devices for site in sites)
    return max(
        predict(replace(job, device=site.device, devices=devices, nic_bw=between_bw), wide).seconds for site in sites
    )
