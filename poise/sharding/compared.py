"""Signatures of a training step beside plans by hand, data and tensor parallelism; and a layer from annotations."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import inf

from poise.sharding.cheapest import cheapest
from poise.sharding.gradients import backward
from poise.sharding.graph import Graph
from poise.sharding.layers import decoder_layer, feed_forward
from poise.sharding.propagate import propagate
from poise.sharding.signature import Mesh, Signature, mesh, read

WEIGHTS = ("w_up", "w_down")
SHARDS = ("B", "S0", "S1")


@dataclass(frozen=True)
class Ways:
    """Bytes over all devices of a training step of a feed-forward part; no work is done twice."""

    data: int
    """Data parallelism: gradients of weights are summed, or weights gathered and gradients scattered (FSDP)."""
    tensor: int
    """Tensor parallelism, columns and then rows: outputs are summed forward, gradients of inputs backward."""
    cheapest: int
    """The signatures of fewest bytes; weights may be whole or split, activations too."""


def ways(devices: int, tokens: int, hidden: int, inner: int = 0) -> Ways:
    """Of tokens · hidden activations in 16 bits. inner: 4 · hidden where it is 0."""
    on, inner = mesh(x=devices), inner or 4 * hidden
    weights, activations = 2 * 2 * hidden * inner, 2 * tokens * hidden
    every = product(("B", "S1", "S2"), SHARDS, SHARDS)
    least = min(_least(on, tokens, hidden, inner, *each) for each in every)
    return Ways(2 * (devices - 1) * weights, 2 * 2 * (devices - 1) * activations, least)


def _least(on: Mesh, tokens: int, hidden: int, inner: int, x: str, *weights: str) -> int:
    """The fewest bytes where inputs and outputs are kept as `x`, weights as given, and gradients as their tensors."""
    graph = Graph(2)
    y = feed_forward(graph, graph.input("x", 1, tokens, hidden), inner, gated=False)
    names = backward(graph, y)
    kept = dict(zip(("x", y, *WEIGHTS), (x, x, *weights), strict=True))
    allowed = {
        each: [read(text, graph.shapes[name], on)] for name, text in kept.items() for each in (name, names[name])
    }
    made = cheapest(graph, on, allowed, work=inf)
    return made.bytes


@dataclass(frozen=True)
class Layer:
    """A decoder layer whose tensors are propagated from two annotated weights."""

    annotated: int
    split: int
    """Weights of products that are split."""
    weights: int
    """Weights of products."""
    sums: int
    """All-reduces of a forward and a backward pass."""
    others: int
    """Collectives of another kind."""


def annotated_layer(devices: int, hidden: int = 1024, heads: int = 16, kv_heads: int = 16, length: int = 256) -> Layer:
    """Of a query projection and a gate, by columns, over so many devices."""
    on = mesh(model=devices)
    graph = decoder_layer(1, length, hidden, heads, 4 * hidden, kv_heads=kv_heads)
    backward(graph, "y")
    columns = Signature(((), ("model",)))
    made = propagate(graph, on, {"w_q": columns, "w_gate": columns})
    names = [name for name in graph.given if name.startswith("w_") and len(graph.shapes[name]) == 2]
    kinds = made.collectives()
    sums = kinds.pop("all-reduce", 0)
    split = sum(made.kept[name].ways(on) == devices for name in names)
    return Layer(2, split, len(names), sums, sum(kinds.values()))
