"""A plan over several clusters with different links: Holmes applied to each of the best layouts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isinf

from poise.catalogue.devices import device
from poise.core.errors import ScenarioError, UserError
from poise.cost.training import Job, Layout, predict
from poise.cost.training.step import safe_bytes
from poise.plan.training.holmes import Site, Spread, spread
from poise.plan.training.search import search
from poise.plan.training.servers import GBIT
from poise.plan.training.space import Space

TRIED = 24
"""Best layouts of one cluster alone that are tried over all."""

_FORM = re.compile(r"([^:@]+):(\d+)(?:@([\d.]+))?")


@dataclass(frozen=True, slots=True)
class Joined:
    """The layout of each cluster and the resulting step; `alone_s`: the first cluster's step without others."""

    layout: Layout
    found: Spread
    alone_s: float
    names: tuple[str, ...]

    def line(self) -> str:
        """The plan in a sentence."""
        parts = ", ".join(f"{count} on {name}" for name, count in zip(self.names, self.found.layers, strict=True))
        found = self.found
        flat = f"{found.flat_s:.3f} s with gradients summed over all"
        if isinf(found.flat_s):
            flat = "none with gradients summed over all, as the batch does not divide"
        return (
            f"Over {len(self.names)} clusters, {self.layout.label()} in each, layers {parts}: {found.pipelined_s:.3f} "
            f"s a step with stages across clusters, {flat}, {self.alone_s:.3f} s on the first alone"
        )


def read_sites(job: Job, also: Sequence[str]) -> list[Site]:
    """The first cluster, which is the job's, and others as DEVICE:N@GBIT (Gbit/s of a device between its servers)."""
    sites = [Site(job.device, job.devices, job.far_bw)]
    for given in also:
        form = _FORM.fullmatch(given)
        if form is None or int(form[2]) < 1:
            raise UserError(f"--also {given!r}: give a device, how many, and Gbit/s of each, as in A100:32@200")
        kind = device(form[1].strip())
        sites.append(Site(kind, int(form[2]), float(form[3]) * GBIT if form[3] else kind.scaleout_bw or kind.host_bw))
    return sites


def joined(job: Job, space: Space, sites: Sequence[Site], between_gbit_s: float) -> Joined:
    """The layout that is fastest with stages across clusters, of the best of the first; ScenarioError if none fits."""
    if between_gbit_s <= 0:
        raise UserError(f"--between {between_gbit_s:g}: give the Gbit/s of a device between clusters, as in 10")
    known = search(job, space, count=TRIED)
    why = ScenarioError("no layout fits all clusters with the layers that it gives them; allow more recomputation")
    fitting: list[tuple[Spread, Layout]] = []
    for layout in dict.fromkeys(each.layout for each in (*known.best, *known.frontier)):
        try:
            each = spread(job, sites, layout, between_gbit_s * GBIT)
        except ScenarioError as error:  # one that cannot be laid over all clusters
            why = error
            continue
        if _fits(job, sites, layout, each):
            fitting.append((each, layout))
    if not fitting:
        raise why
    best, layout = min(fitting, key=lambda pair: pair[0].pipelined_s)
    alone = known.best[0].seconds if known.best else float("inf")
    return Joined(layout, best, alone, tuple(site.device.name for site in sites))


def _fits(job: Job, sites: Sequence[Site], layout: Layout, found: Spread) -> bool:
    """Whether each cluster holds its layers: memory goes with them, and the share of all is a bound from above."""
    for site, own in zip(sites, found.layers, strict=True):
        there = replace(job, device=site.device, devices=site.devices, nic_bw=site.nic_bw)
        laid = replace(layout, pipeline=site.devices // (layout.tensor * layout.context * layout.data))
        if predict(there, laid).memory * own / job.model.layers > safe_bytes(there):
            return False
    return True
