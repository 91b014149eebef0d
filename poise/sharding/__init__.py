"""How tensors lie on a mesh of devices, and which collectives that takes.

signatures  signature.py: Mesh, Signature (split, broadcast, partial sum along each axis); boxing.py: from one to
            another
a graph     graph.py: Graph, Op by an equation; rules.py: the signatures with which an operation runs on each device
            alone; gradients.py: its backward pass; layers.py: decoder layers
papers      dimensions.py: tensor parallelism of one to three dimensions; compared.py: beside plans by hand
plans       plan.py: Plan, its moves and bytes; propagate.py: from some annotated tensors to all; cheapest.py: the
            signatures of fewest bytes
"""

from __future__ import annotations

from poise.sharding.boxing import Move, across, box, moved
from poise.sharding.cheapest import cheapest
from poise.sharding.gradients import backward
from poise.sharding.graph import Graph, Op
from poise.sharding.plan import Plan
from poise.sharding.propagate import propagate
from poise.sharding.signature import Mesh, Signature, mesh, read

__all__ = [
    "Graph", "Mesh", "Move", "Op", "Plan", "Signature", "across", "backward", "box", "cheapest", "mesh", "moved",
    "propagate", "read",
]  # fmt: skip
