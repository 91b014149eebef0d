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
from poise.cost.training import Job, Layout, Prediction, predict
from poise.cost.training.columns import columns, even_split
from poise.cost.training.figures import figures
from poise.cost.training.flops import model_flops
from poise.cost.training.layer import Slice, builder, head
from poise.cost.training.step import evaluate

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

    layout: of the first site's devices, its pipeline inside it. Other sites have as many tensor, context and data
    ranks, as every replica spans all, and a pipeline as long as their devices allow.  between_bw: bytes/s of a device
    between sites.
    """
    laid = [replace(layout, pipeline=_depth(site, layout)) for site in sites]
    alone = [predict(_inside(job, site), each) for site, each in zip(sites, laid, strict=True)]
    layers = dealt(job.model.layers, [1 / each.seconds for each in alone])
    if any(own < each.pipeline for own, each in zip(layers, laid, strict=True)):
        raise ScenarioError(
            f"layers {layers} do not fill pipelines of {[each.pipeline for each in laid]} ranks in the sites; "
            "take more data or tensor ranks"
        )
    stages = _stages(job, sites, laid, layers)
    moved = 2.0 * layout.micro_batch * job.sequence * job.model.hidden / layout.tensor / between_bw
    messages = 2 * moved * (len(sites) - 1) + sum(each.parts["messages"] for each in alone)
    pipelined = (layout.microbatches(job) - 1) * max(stages) + sum(stages) + messages
    after = max(_after(each) * own / job.model.layers for each, own in zip(alone, layers, strict=True))
    return Spread(pipelined + after, _flat(job, sites, layout, between_bw), layers)


def _stages(job: Job, sites: Sequence[Site], laid: Sequence[Layout], layers: Sequence[int]) -> list[float]:
    """Seconds of a microbatch, there and back, on each rank of the pipeline; the head is on the last."""
    found: list[float] = []
    for site, layout, own in zip(sites, laid, layers, strict=True):
        there = _inside(job, site)
        f, b, w, _ = (float(each[0]) for each in evaluate(there, columns(there, [layout])).passes)
        found += [(f + b + w) * count for count in even_split(own, layout.pipeline)]
    cut = Slice(layout.tensor, layout.sequence_parallel, layout.context, 1, 1, layout.micro_batch)
    kernels, _ = builder(there, figures(job.host))
    found[-1] += sum(head(there, kernels, cut))
    return found


def _depth(site: Site, layout: Layout) -> int:
    """Pipeline ranks of a site."""
    across = layout.tensor * layout.context * layout.data
    depth, left = divmod(site.devices, across)
    if left or not depth:
        raise ScenarioError(
            f"a site of {site.devices} {site.device.name} holds no whole number of pipeline ranks of tensor × context "
            f"× data {across}; take sites whose devices are multiples of it"
        )
    return depth


def _after(found: Prediction) -> float:
    """The part of a step after the pipeline."""
    return found.parts["gradients"] + found.parts["optimizer"] + found.parts["fixed"]


def _inside(job: Job, site: Site) -> Job:
    """The job on one site alone."""
    return replace(job, device=site.device, devices=site.devices, nic_bw=site.nic_bw)


def _flat(job: Job, sites: Sequence[Site], layout: Layout, between_bw: float) -> float:
    """Data groups over all sites: every device waits for the slowest, and gradients pass the link between them.

    Infinite where the batch does not divide into so many ranks.
    """
    devices = sum(site.devices for site in sites)
    wide = replace(layout, data=devices // (layout.tensor * layout.context * layout.pipeline))
    try:
        return max(
            predict(replace(job, device=site.device, devices=devices, nic_bw=between_bw), wide).seconds
            for site in sites
        )
    except ScenarioError:
        return float("inf")


@dataclass(frozen=True, slots=True)
class Measured:
    """TFLOP/s of a device: with stages across sites, and with data groups over all of them."""

    tflops: float
    flat_tflops: float


def environment(job: Job, layout: Layout, nics: tuple[float, ...], between_bw: float) -> Measured:
    """A job over as many equal sites as there are NICs (bytes/s of a device of each), or on one.

    layout: of all devices, with a pipeline that is a multiple of the sites.
    """
    each = replace(job, devices=job.devices // len(nics))
    within = replace(layout, pipeline=layout.pipeline // len(nics))
    work = model_flops(job.model, job.sequence) * job.tokens / job.devices / 1e12
    if len(nics) == 1:
        seconds = predict(replace(job, nic_bw=nics[0]), layout).seconds
        return Measured(work / seconds, work / seconds)
    found = spread(each, [Site(job.device, each.devices, nic) for nic in nics], within, between_bw)
    return Measured(work / found.pipelined_s, work / found.flat_s)
