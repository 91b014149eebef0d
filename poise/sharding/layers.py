"""Graphs of a decoder's layers, and of one product of matrices."""

from __future__ import annotations

from poise.sharding.graph import Graph


def product(rows: int, inner: int, columns: int, *, itemsize: int = 4) -> Graph:
    """C = A · B."""
    graph = Graph(itemsize)
    a, b = graph.input("a", rows, inner), graph.input("b", inner, columns)
    graph.einsum("c", "m k, k n -> m n", a, b)
    return graph


def feed_forward(graph: Graph, x: str, inner: int, *, gated: bool = True, prefix: str = "") -> str:
    """down(activation(gate(x)) · up(x)), or down(activation(up(x)))."""
    hidden = graph.shapes[x][-1]
    up = graph.einsum(f"{prefix}up", "b s h, h f -> b s f", x, graph.input(f"{prefix}w_up", hidden, inner))
    if gated:
        gate = graph.einsum(f"{prefix}gate", "b s h, h f -> b s f", x, graph.input(f"{prefix}w_gate", hidden, inner))
        up = graph.each(f"{prefix}gated", gate, up)
    else:
        up = graph.each(f"{prefix}act", up)
    return graph.einsum(f"{prefix}down", "b s f, f h -> b s h", up, graph.input(f"{prefix}w_down", inner, hidden))


def attention(graph: Graph, x: str, heads: int, kv_heads: int, head: int, *, prefix: str = "") -> str:
    """Grouped-query attention: weights w_q, w_k, w_v, w_o."""
    hidden, each = graph.shapes[x][-1], heads // kv_heads

    def project(name: str, width: int) -> str:
        weight = graph.input(f"{prefix}w_{name}", hidden, width)
        return graph.einsum(f"{prefix}{name}", "b s h, h e -> b s e", x, weight)

    q, k, v = project("q", heads * head), project("k", kv_heads * head), project("v", kv_heads * head)
    qs = graph.einsum(f"{prefix}q_heads", "b s grd -> b s g r d", q, g=kv_heads, r=each)
    ks = graph.einsum(f"{prefix}k_heads", "b t gd -> b t g d", k, g=kv_heads)
    vs = graph.einsum(f"{prefix}v_heads", "b t gd -> b t g d", v, g=kv_heads)
    scores = graph.einsum(f"{prefix}scores", "b s g r d, b t g d -> b g r s t", qs, ks)
    weights = graph.softmax(f"{prefix}weights", scores)
    mixed = graph.einsum(f"{prefix}mixed", "b g r s t, b t g d -> b s g r d", weights, vs)
    flat = graph.einsum(f"{prefix}flat", "b s g r d -> b s grd", mixed)
    return graph.einsum(f"{prefix}o", "b s e, e h -> b s h", flat, graph.input(f"{prefix}w_o", heads * head, hidden))


def decoder_layer(
    batch: int, length: int, hidden: int, heads: int, inner: int, *, kv_heads: int | None = None,
    head: int | None = None, gated: bool = True, itemsize: int = 2,
) -> Graph:  # fmt: skip
    """Norm, attention, norm and feed-forward part with their residuals: from `x` to `y`."""
    graph = Graph(itemsize)
    x = graph.input("x", batch, length, hidden)
    before = graph.norm("n1", x, graph.input("w_n1", hidden))
    middle = graph.add("r", x, attention(graph, before, heads, kv_heads or heads, head or hidden // heads))
    behind = graph.norm("n2", middle, graph.input("w_n2", hidden))
    graph.add("y", middle, feed_forward(graph, behind, inner, gated=gated))
    return graph
