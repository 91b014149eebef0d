"""Collectives of a pool by measured curves, each over the link that joins its ranks.

Where no curve of such a link was measured, callers take the closed forms of `poise.cost.collective`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from poise.core.spec import Device
from poise.cost.layout import HOST_DEVICES, fabric
from poise.cost.tables import Curve, Slice, Tables

Seconds = Callable[[float], float]
"""Seconds by bytes."""

NCCL = "NCCL half"
"""The kernel of plain collectives over scale-up links."""

PAIR = 2
"""Ranks between which a staged all-reduce was measured."""


class Path(NamedTuple):
    """What joins ranks: the beginning of its operators' names, and the kernel under which its tables go."""

    prefix: str
    kernel: str


class Links:
    """The measured collectives of one device's links.

    curves: those that were looked up, by name; filled for provenance.
    """

    def __init__(self, device: Device, tables: Tables, engine: str, curves: dict[str, Curve]) -> None:
        self.device, self.tables, self.engine, self.curves = device, tables, engine, curves

    def path(self, ranks: int) -> Path | None:
        """What joins `ranks` devices; None for network cards, of which nothing was measured."""
        device = self.device
        if ranks <= device.scaleup_domain and device.scaleup_bw > 0:
            return Path("", "")
        if device.scaleup_domain > 1 or ranks > HOST_DEVICES or device.host_bw <= 0:
            return None
        way = fabric(device)
        if way != "host":
            return Path("pcie_", way)
        return Path("staged_", way) if ranks == PAIR else None

    def all_reduces(self, ranks: int) -> list[Slice]:
        """All-reduces by the engine's kernel and by NCCL, between which engines choose; empty where none is known."""
        path = self.path(ranks) if ranks > 1 else None
        if path is None:
            return []
        found = {}
        for engine in (self.engine, "nccl"):
            curve = self._curve(f"{path.prefix}all_reduce", engine, path.kernel)
            if curve is not None:
                found[curve.table.framework] = curve.slice(1, ranks)
        return list(found.values())

    def gather(self, ranks: int) -> Seconds | None:
        """An all-gather, by the bytes that are left on each rank; None where no curve is known."""
        return self._plain("all_gather", ranks)

    def scatter(self, ranks: int) -> Seconds | None:
        """A reduce-scatter, by the bytes that each rank holds before; None where no curve is known."""
        return self._plain("reduce_scatter", ranks)

    def hop(self, ranks: int) -> Seconds | None:
        """A message from one stage of `ranks` devices to the next, by its bytes; None where no curve is known.

        Two ranks that gather each send half of the whole, at once.
        """
        if self.path(ranks) is None:
            return None
        gather = self.gather(PAIR)
        return None if gather is None else lambda size: gather(PAIR * size)

    def _plain(self, kind: str, ranks: int) -> Seconds | None:
        path = self.path(ranks)
        if path is None:
            return None
        if path.prefix == "staged_":  # a ring's all-reduce is a reduce-scatter and an all-gather of equal length
            curve = self._curve("staged_all_reduce", "nccl", path.kernel)
            return None if curve is None else _halved(curve.slice(1, ranks))
        curve = self._curve(path.prefix + kind, "nccl", path.kernel or NCCL)
        return None if curve is None else curve.slice(1, ranks).seconds

    def _curve(self, kind: str, engine: str, kernel: str) -> Curve | None:
        curve = self.tables.curve(kind, self.device, "bf16", engine, kernel)
        if curve is not None:
            self.curves[f"{kind} {curve.table.framework}"] = curve
        return curve


def _halved(both: Slice) -> Seconds:
    """Half of a collective, by bytes."""
    return lambda size: both.seconds(size) / 2
