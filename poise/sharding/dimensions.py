"""Tensor parallelism of one, two, two and a half and three dimensions, as signatures of a feed-forward part.

1d: Megatron-LM's columns and rows (arXiv 1909.08053). 2d: blocks of all matrices (SUMMA, as in Optimus, arXiv
2104.05343). 2.5d: the same in layers, each with its own rows of the activations (Tesseract, arXiv 2105.14500). 3d: each
matrix in blocks, which are split again along the third axis (Agarwal et al., 1995; Bian et al., arXiv 2105.14450).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

from poise.core.errors import UserError
from poise.sharding.gradients import backward
from poise.sharding.graph import Graph
from poise.sharding.layers import feed_forward
from poise.sharding.plan import Plan
from poise.sharding.propagate import propagate
from poise.sharding.signature import Mesh, Signature, mesh

Axes = tuple[tuple[str, ...], ...]

_BLOCKS: Axes = (("i",), ("j",))
KEPT: dict[str, dict[str, Axes]] = {
    "1d": {"x": ((), ()), "w_up": ((), ("i",)), "up": ((), ("i",)), "w_down": (("i",), ()), "down": ((), ())},
    "2d": dict.fromkeys(("x", "w_up", "up", "w_down", "down"), _BLOCKS),
    "2.5d": dict.fromkeys(("w_up", "w_down"), _BLOCKS) | dict.fromkeys(("x", "up", "down"), (("d", "i"), ("j",))),
    "3d": {
        "x": (("i",), ("k", "j")), "w_up": (("k",), ("j", "i")), "up": (("i",), ("j", "k")),
        "w_down": (("j",), ("k", "i")), "down": (("i",), ("k", "j")),
    },
}  # fmt: skip
"""By tensor the axes that split rows and columns; gradients are kept as their tensors are."""


@dataclass(frozen=True)
class Step:
    """A training step of a feed-forward part, without the optimizer. Bytes are those of one device."""

    sent: float
    """Over links; of a ring, so that as much is received."""
    weights: int
    activations: int
    """Inputs and outputs of the two products."""
    operations: float
    """Floating-point operations of one device."""

    @property
    def intensity(self) -> float:
        """Floating-point operations for each byte that is sent."""
        return self.operations / self.sent


def devices_of(ways: str, devices: int, depth: int = 2) -> Mesh:
    """The mesh of so many devices; UserError where they are no square or cube."""
    if ways == "1d":
        return mesh(i=devices)
    side = isqrt(devices // (depth if ways == "2.5d" else 1)) if ways != "3d" else round(devices ** (1 / 3))
    found = {"2d": {"i": side, "j": side}, "2.5d": {"d": depth, "i": side, "j": side}}
    made = mesh(**found.get(ways, {"i": side, "j": side, "k": side}))
    if ways not in KEPT or made.devices != devices:
        cure = f"give {made.devices}, or 1d" if ways in KEPT else f"give {', '.join(KEPT)}"
        raise UserError(f"{ways} tensor parallelism on {devices} devices: there is no such mesh; {cure}")
    return made


def plan(
    ways: str, devices: int, tokens: int, hidden: int, *, inner: int = 0, depth: int = 2, itemsize: int = 2
) -> Plan:
    """The plan of a forward and a backward pass. inner: 4 · hidden where it is 0."""
    on = devices_of(ways, devices, depth)
    graph = Graph(itemsize)
    feed_forward(graph, graph.input("x", 1, tokens, hidden), inner or 4 * hidden, gated=False)
    names = backward(graph, "down")
    kept = {}
    for name, axes in KEPT[ways].items():
        dims = axes if name.startswith("w_") else ((), *axes)
        kept[name] = kept[names[name]] = Signature(dims)
    return propagate(graph, on, kept)


def step(ways: str, devices: int, tokens: int, hidden: int, inner: int = 0, depth: int = 2) -> Step:
    """Its figures."""
    made = plan(ways, devices, tokens, hidden, inner=inner, depth=depth)
    return Step(
        made.bytes / devices, made.held(["w_up", "w_down"]), made.held(["x", "up", "act", "down"]),
        2 * sum(op.work for op in made.graph.ops if op.kind == "einsum") / devices,
    )  # fmt: skip
